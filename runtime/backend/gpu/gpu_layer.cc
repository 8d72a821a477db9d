// SPDX-License-Identifier: Apache-2.0
// A whole layer on a GPU: as router and experts one after the other, but few tokens are routed and
// sorted in one launch.
#include <algorithm>

#include "backend/gpu/gpu_experts.h"
#include "backend/gpu/gpu_router.h"

namespace moert {
namespace {

class GpuLayer final : public PreparedLayer {
 public:
  GpuLayer(const GpuDevice& device, const LayerSpec& spec)
      : device_(device),
        top_k_(spec.routing.top_k),
        router_(device, RouterSpec{spec.routing, spec.dtype, spec.hidden}),
        experts_(device, spec) {}

  Status Prepare(const LayerWeights& weights, WeightSource source) {
    MOERT_RETURN_IF_ERROR(router_.Prepare(weights.router));
    return experts_.Prepare(weights, source);
  }

  uint64_t WorkspaceSize(const LayerCall& call) const override {
    return MakePlan(call, nullptr).size;
  }

  Status Forward(BackendStream& stream, const LayerCall& call) const override {
    auto& gpu_stream = static_cast<GpuStream&>(stream);
    ContextScope scope(device_, CaptureMode::kAsIs);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    MOERT_RETURN_IF_ERROR(gpu_stream.BeginCall());
    const Plan plan = MakePlan(call, call.workspace.data);
    if (call.given_routing) return experts_.Enqueue(gpu_stream, plan.experts, nullptr);
    MOERT_RETURN_IF_ERROR(router_.Logits(gpu_stream, plan.route, plan.router));
    const moert_top_k_kernel_args choice = router_.ChoiceArgs(plan.route, plan.router);
    if (experts_.FitsChoice(call.tokens)) {
      return experts_.Enqueue(gpu_stream, plan.experts, &choice);
    }
    MOERT_RETURN_IF_ERROR(router_.Choose(gpu_stream.handle(), choice));
    return experts_.Enqueue(gpu_stream, plan.experts, nullptr);
  }

  uint64_t weight_bytes() const override { return experts_.weight_bytes(); }
  Status Weight(moert_role role, int32_t expert, moert_matrix* out) const override {
    return experts_.Weight(role, expert, out);
  }

 private:
  struct Plan {
    RouteCall route;
    ExpertsCall experts;
    RouterParts router;
    uint64_t size = 0;
  };

  // Ids and weights have a place in the workspace where the caller gave none. The experts' part
  // also serves the router's copy of x.
  Plan MakePlan(const LayerCall& call, void* base) const {
    Plan plan;
    WorkspaceLayout layout(base);
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
    const int64_t slots = call.tokens * top_k_;
    if (!call.ids.present()) {
      plan.experts.ids = Matrix(layout.Add<int32_t>(slots), call.tokens, top_k_, MOERT_DTYPE_INT32);
    }
    if (!call.weights.present()) {
      plan.experts.weights =
          Matrix(layout.Add<float>(slots), call.tokens, top_k_, MOERT_DTYPE_FLOAT32);
    }
    plan.route.ids = plan.experts.ids;
    plan.route.weights = plan.experts.weights;
    uint64_t shared = experts_.WorkspaceSize(plan.experts);
    if (!call.given_routing) {
      plan.router = router_.Carve(plan.route, &layout);
      shared = std::max(shared, router_.CopyBytes(plan.route));
    }
    plan.experts.workspace = {layout.AddBytes(static_cast<int64_t>(shared)), shared};
    plan.router.x = plan.experts.workspace.data;
    plan.size = layout.size();
    return plan;
  }

  const GpuDevice& device_;
  int64_t top_k_;
  GpuRouter router_;
  GpuExperts experts_;
};

}  // namespace

Status PrepareGpuLayer(const GpuDevice& device, const LayerSpec& spec, const LayerWeights& weights,
                       WeightSource source, Owned<PreparedLayer>* out) {
  if (!weights.router.router.present()) return Status();  // given routing only: experts will do
  auto layer = MakeOwned<GpuLayer>(device.allocator(), device, spec);
  MOERT_RETURN_IF_ERROR(layer->Prepare(weights, source));
  *out = std::move(layer);
  return Status();
}

}  // namespace moert
