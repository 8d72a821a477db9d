// SPDX-License-Identifier: Apache-2.0
// Top-k gating: logits by a product, then one warp a token chooses.
#include <algorithm>

#include "backend/gpu/gpu_linear.h"
#include "backend/gpu/gpu_stream.h"
#include "backend/gpu/workspace_layout.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

constexpr int64_t kFewTokens = 32;    // up to here experts and tokens are shared out singly
constexpr int64_t kTokensAtOnce = 4;  // of a block then, as in kernels/common/logits.h
constexpr int64_t kTopKWarps = 4;     // a block

class GpuRouter final : public PreparedRouter {
 public:
  GpuRouter(const GpuDevice& device, const RouterSpec& spec)
      : device_(device), spec_(spec), weights_(device.allocator()), uses_(device) {}

  Status Prepare(const RouterWeights& weights) {
    MOERT_RETURN_IF_ERROR(LoadVectors(weights));
    if (!weights.router.present()) return Status();
    std::pmr::vector<LinearSource> sources(1, &device_.allocator());
    sources[0].value = weights.router;
    sources[0].value_bias = weights.router_bias;
    // Scaled or wider weights are kept in float32; else products are exact in the compute dtype.
    const bool keep = input_scale_ == nullptr && weights.router.dtype == spec_.dtype;
    WeightLoader loader(device_);
    MOERT_RETURN_IF_ERROR(weights_.Make(device_, loader, sources, experts(), spec_.hidden,
                                        keep ? spec_.dtype : MOERT_DTYPE_FLOAT32,
                                        Keeping::kPacked, input_scale_));
    return loader.Run();
  }

  uint64_t WorkspaceSize(const RouteCall& call) const override { return Carve(call, nullptr).size; }

  Status Route(BackendStream& stream, const RouteCall& call) const override {
    auto& gpu_stream = static_cast<GpuStream&>(stream);
    ContextScope scope(device_, CaptureMode::kAsIs);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    MOERT_RETURN_IF_ERROR(gpu_stream.BeginCall());
    uses_.Add(gpu_stream);
    const Parts parts = Carve(call, call.workspace.data);
    if (call.x.present()) MOERT_RETURN_IF_ERROR(Logits(gpu_stream.handle(), call, parts));
    if (call.expert_counts.present()) {
      MOERT_RETURN_IF_ERROR(device_.Check(
          device_.driver().fill32_async(reinterpret_cast<GpuPointer>(call.expert_counts.data), 0,
                                        static_cast<size_t>(experts()), gpu_stream.handle()),
          "clearing counts"));
    }
    return Choose(gpu_stream.handle(), call, parts);
  }

 private:
  struct Parts {
    float* logits = nullptr;
    int64_t logits_stride = 0;
    float* row_scale = nullptr;
    void* x = nullptr;
    uint64_t size = 0;
  };

  int64_t experts() const { return spec_.routing.num_experts; }
  bool rms() const { return (spec_.routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0; }
  int64_t padded_hidden() const { return AlignUp(static_cast<uint64_t>(spec_.hidden), 8); }

  Status LoadVectors(const RouterWeights& weights) {
    const struct {
      const WeightMatrix* source;
      int64_t count;
      float** out;
    } vectors[] = {{&weights.router_bias, experts(), &bias_},
                   {&weights.selection_bias, experts(), &selection_bias_},
                   {&weights.expert_scale, experts(), &expert_scale_},
                   {&weights.input_scale, spec_.hidden, &input_scale_}};
    int64_t count = 0;
    for (const auto& vector : vectors) count += vector.source->present() ? vector.count : 0;
    if (count == 0) return Status();
    MOERT_RETURN_IF_ERROR(
        GpuMemory::Allocate(device_, static_cast<uint64_t>(count) * sizeof(float), &vectors_));
    auto* next = static_cast<float*>(vectors_.data());
    WeightLoader loader(device_);
    for (const auto& vector : vectors) {
      if (!vector.source->present()) continue;
      PackTarget target;
      target.destination = *vector.out = next;
      target.dtype = MOERT_DTYPE_FLOAT32;
      target.stride = vector.count;
      target.padded_out = 1;
      target.padded_in = vector.count;
      loader.Add(*vector.source, 1, vector.count, target);
      next += vector.count;
    }
    return loader.Run();
  }

  Parts Carve(const RouteCall& call, void* base) const {
    WorkspaceLayout layout(base);
    Parts parts;
    if (call.x.present()) {
      if (!call.logits.present()) parts.logits = layout.Add<float>(call.tokens * experts());
      if (rms()) parts.row_scale = layout.Add<float>(call.tokens);
      // A copy of x whose rows are aligned, should x's not be.
      if (weights_.matrix_ready()) {
        parts.x = layout.AddBytes(call.tokens * padded_hidden() * ElementSize(spec_.dtype));
      }
    }
    parts.logits_stride = experts();
    if (call.x.present() && call.logits.present()) {
      parts.logits = static_cast<float*>(call.logits.data);
      parts.logits_stride = call.logits.row_stride;
    }
    parts.size = layout.size();
    return parts;
  }

  Status Logits(GpuStreamHandle stream, const RouteCall& call, const Parts& parts) const {
    if (rms()) {
      moert_row_scale_kernel_args args = {};
      args.x = call.x.data;
      args.scale = parts.row_scale;
      args.rows = call.tokens;
      args.width = spec_.hidden;
      args.x_stride = call.x.row_stride;
      args.epsilon = spec_.routing.input_rms_epsilon;
      args.x_dtype = call.x.dtype;
      LaunchShape shape;
      shape.grid_x = std::min<int64_t>(call.tokens, 1 << 20);
      MOERT_RETURN_IF_ERROR(device_.Launch(Kernel::row_scale, stream, shape, &args));
    }
    return call.tokens <= kFewTokens ? FewLogits(stream, call, parts)
                                     : ManyLogits(stream, call, parts);
  }

  Status FewLogits(GpuStreamHandle stream, const RouteCall& call, const Parts& parts) const {
    moert_linear_kernel_args described = {};
    weights_.Describe(&described);
    moert_logits_kernel_args args = {};
    args.x = call.x.data;
    args.w = weights_.first_value();
    args.bias = bias_;
    args.row_scale = parts.row_scale;
    args.logits = parts.logits;
    args.width = spec_.hidden;
    args.x_stride = call.x.row_stride;
    args.w_stride = described.weight_row_stride;
    args.logits_stride = parts.logits_stride;
    args.tokens = static_cast<int32_t>(call.tokens);
    args.num_experts = static_cast<int32_t>(experts());
    args.x_dtype = call.x.dtype;
    args.w_dtype = described.weight_dtype;
    args.bias_dtype = MOERT_DTYPE_FLOAT32;
    args.soft_cap = spec_.routing.logit_soft_cap;
    args.product_scale = spec_.routing.input_multiplier;
    args.vectors = reinterpret_cast<uintptr_t>(call.x.data) % 16 == 0 &&
                   (call.tokens == 1 || call.x.row_stride % 8 == 0);
    LaunchShape shape;
    shape.block_x = 128;
    shape.grid_x = experts();
    shape.grid_y = DivideUp(call.tokens, kTokensAtOnce);
    return device_.Launch(Kernel::logits, stream, shape, &args);
  }

  Status ManyLogits(GpuStreamHandle stream, const RouteCall& call, const Parts& parts) const {
    moert_linear_kernel_args args = {};
    weights_.Describe(&args);
    args.rows = call.x.data;
    args.row_stride_in = call.x.row_stride;
    args.row_dtype = call.x.dtype;
    args.dense_rows = call.tokens;
    args.row_scale = parts.row_scale;
    args.product_scale = spec_.routing.input_multiplier;
    args.soft_cap = spec_.routing.logit_soft_cap;
    args.out = parts.logits;
    args.out_stride = parts.logits_stride;
    args.out_dtype = MOERT_DTYPE_FLOAT32;
    const LinearPath path = DensePath(weights_, call.x.dtype, call.tokens, &args.tile_positions);
    if (path != LinearPath::kGeneric && !HasVectorRows(call.x)) {
      MOERT_RETURN_IF_ERROR(
          CopyRows(device_, stream, call.x, padded_hidden(), parts.x, &args));
    }
    return LaunchLinear(device_, stream, path, args, 0);
  }

  Status Choose(GpuStreamHandle stream, const RouteCall& call, const Parts& parts) const {
    const moert_routing& routing = spec_.routing;
    moert_top_k_kernel_args args = {};
    args.logits = parts.logits;
    args.logits_stride = parts.logits_stride;
    args.logits_dtype = MOERT_DTYPE_FLOAT32;
    if (!call.x.present()) {
      args.logits = call.given_logits.data;
      args.logits_stride = call.given_logits.row_stride;
      args.logits_dtype = call.given_logits.dtype;
      args.bias = bias_;
      args.soft_cap = routing.logit_soft_cap;
      if (call.logits.present()) {
        args.logits_out = static_cast<float*>(call.logits.data);
        args.logits_out_stride = call.logits.row_stride;
      }
    }
    args.selection_bias = selection_bias_;
    args.expert_scale = expert_scale_;
    args.ids = static_cast<int32_t*>(call.ids.data);
    args.ids_stride = call.ids.row_stride;
    args.weights = static_cast<float*>(call.weights.data);
    args.weights_stride = call.weights.row_stride;
    args.counts = static_cast<int32_t*>(call.expert_counts.data);
    args.tokens = call.tokens;
    args.num_experts = routing.num_experts;
    args.top_k = routing.top_k;
    args.score = routing.score;
    args.renormalize = routing.renormalize;
    args.group_score = routing.group_score;
    args.num_groups = routing.num_groups;
    args.top_k_groups = routing.top_k_groups;
    args.renormalize_value = routing.renormalize_value;
    args.routed_scaling_factor = routing.routed_scaling_factor;
    args.sparsemixer_epsilon = routing.sparsemixer_epsilon;
    LaunchShape shape;
    shape.block_x = 32 * kTopKWarps;
    shape.grid_x = std::min<int64_t>(DivideUp(call.tokens, kTopKWarps), 1 << 20);
    if (routing.num_groups > 1) {
      shape.shared_bytes = static_cast<uint32_t>(kTopKWarps * 2 * experts() * sizeof(float));
    }
    const int32_t size = experts() <= 32    ? 0
                         : experts() <= 128 ? 1
                         : experts() <= 256 ? 2
                         : experts() <= 512 ? 3
                                            : 4;
    return device_.Launch(KernelAfter(Kernel::top_k_32, size), stream, shape, &args);
  }

  const GpuDevice& device_;
  RouterSpec spec_;
  LinearWeights weights_;
  GpuMemory vectors_;
  float *bias_ = nullptr, *selection_bias_ = nullptr, *expert_scale_ = nullptr,
        *input_scale_ = nullptr;
  mutable StreamUses uses_;  // its destructor waits, so it stands last
};

}  // namespace

Status PrepareGpuRouter(const GpuDevice& device, const RouterSpec& spec,
                        const RouterWeights& weights, WeightSource,
                        Owned<PreparedRouter>* out) {
  auto router = MakeOwned<GpuRouter>(device.allocator(), device, spec);
  MOERT_RETURN_IF_ERROR(router->Prepare(weights));
  *out = std::move(router);
  return Status();
}

}  // namespace moert
