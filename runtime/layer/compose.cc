// SPDX-License-Identifier: Apache-2.0
#include "layer/compose.h"

#include "core/checked_math.h"

namespace moert {
namespace {

constexpr uint64_t kAlignment = 256;

// The parts of a call's workspace. Ids and weights have a place here only where the caller gave
// none; router and experts run one after the other and share the rest.
struct Plan {
  RouteCall route;
  ExpertsCall experts;
  uint64_t ids_offset = 0;
  uint64_t weights_offset = 0;
  uint64_t shared_offset = 0;
};

class ComposedLayer final : public PreparedLayer {
 public:
  ComposedLayer(const LayerSpec& spec, Owned<PreparedRouter> router, Owned<PreparedExperts> experts)
      : top_k_(spec.routing.top_k), experts_(std::move(experts)), router_(std::move(router)) {}

  uint64_t WorkspaceSize(const LayerCall& call) const override {
    const Plan plan = MakePlan(call);
    uint64_t shared = experts_->WorkspaceSize(plan.experts);
    if (!call.given_routing) shared = std::max(shared, router_->WorkspaceSize(plan.route));
    return plan.shared_offset + shared;
  }

  Status Forward(BackendStream& stream, const LayerCall& call) const override {
    Plan plan = MakePlan(call);
    auto* base = static_cast<char*>(call.workspace.data);
    const Workspace shared{base + plan.shared_offset, call.workspace.size - plan.shared_offset};
    if (!call.ids.present()) plan.route.ids.data = plan.experts.ids.data = base + plan.ids_offset;
    if (!call.weights.present()) {
      plan.route.weights.data = plan.experts.weights.data = base + plan.weights_offset;
    }
    plan.route.workspace = plan.experts.workspace = shared;
    if (!call.given_routing) MOERT_RETURN_IF_ERROR(router_->Route(stream, plan.route));
    return experts_->Run(stream, plan.experts);
  }

  uint64_t weight_bytes() const override { return experts_->weight_bytes(); }

  Status Weight(moert_role role, int32_t expert, moert_matrix* out) const override {
    return experts_->Weight(role, expert, out);
  }

 private:
  Plan MakePlan(const LayerCall& call) const {
    Plan plan;
    plan.route.tokens = plan.experts.tokens = call.tokens;
    plan.route.x = call.router_x;
    plan.route.logits = call.logits;
    plan.experts.x = call.x;
    plan.experts.y = call.y;
    plan.experts.expert_counts = call.expert_counts;
    plan.experts.accumulate = call.accumulate;
    plan.experts.skip_shared = call.skip_shared;
    plan.experts.ids = call.ids;
    plan.experts.weights = call.weights;
    const uint64_t bytes = AlignUp(call.tokens * top_k_ * sizeof(int32_t), kAlignment);
    if (!call.ids.present()) {
      plan.experts.ids = Matrix(nullptr, call.tokens, top_k_, MOERT_DTYPE_INT32);
      plan.ids_offset = plan.shared_offset;
      plan.shared_offset += bytes;
    }
    if (!call.weights.present()) {
      plan.experts.weights = Matrix(nullptr, call.tokens, top_k_, MOERT_DTYPE_FLOAT32);
      plan.weights_offset = plan.shared_offset;
      plan.shared_offset += bytes;
    }
    plan.route.ids = plan.experts.ids;
    plan.route.weights = plan.experts.weights;
    return plan;
  }

  int64_t top_k_;
  Owned<PreparedExperts> experts_;
  Owned<PreparedRouter> router_;  // may use the experts' memory
};

// A trainable layer's router reads what Weight shows of it, so that writes to the views reach it.
RouterWeights RouterViews(const PreparedExperts& experts, const RouterWeights& weights) {
  RouterWeights out = weights;
  const auto show = [&](moert_role role, WeightMatrix* weight) {
    moert_matrix view;
    if (!weight->present() || !experts.Weight(role, 0, &view).ok()) return;
    *weight = {view.data, view.dtype, view.row_stride, 1};
  };
  show(MOERT_ROLE_ROUTER, &out.router);
  show(MOERT_ROLE_ROUTER_BIAS, &out.router_bias);
  show(MOERT_ROLE_SELECTION_BIAS, &out.selection_bias);
  show(MOERT_ROLE_ROUTER_INPUT_SCALE, &out.input_scale);
  show(MOERT_ROLE_EXPERT_SCALE, &out.expert_scale);
  return out;
}

}  // namespace

Status MakeLayer(Allocator& allocator, BackendDevice& device, const LayerSpec& spec,
                 const LayerWeights& weights, WeightSource source, Owned<PreparedLayer>* out) {
  Owned<PreparedLayer> fused;
  MOERT_RETURN_IF_ERROR(device.PrepareLayer(spec, weights, source, &fused));
  if (fused != nullptr) {
    *out = std::move(fused);
    return Status();
  }
  Owned<PreparedExperts> experts;
  MOERT_RETURN_IF_ERROR(device.PrepareExperts(spec, weights, source, &experts));
  Owned<PreparedRouter> router;
  if (weights.router.router.present()) {
    const RouterSpec router_spec{spec.routing, spec.dtype, spec.hidden};
    MOERT_RETURN_IF_ERROR(
        spec.trainable ? device.PrepareRouter(router_spec, RouterViews(*experts, weights.router),
                                              WeightSource::kBorrow, &router)
                       : device.PrepareRouter(router_spec, weights.router, source, &router));
  }
  *out = MakeOwned<ComposedLayer>(allocator, spec, std::move(router), std::move(experts));
  return Status();
}

}  // namespace moert
