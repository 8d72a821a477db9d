// SPDX-License-Identifier: Apache-2.0
// Top-k gating: logits by a product, then one warp a token chooses.
#include "backend/gpu/gpu_router.h"

#include <algorithm>

#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

constexpr int64_t kFewTokens = 32;    // up to here experts and tokens are shared out singly
constexpr int64_t kTokensAtOnce = 4;  // of a block then, as in kernels/common/logits.h
constexpr int64_t kTopKWarps = 4;     // a block

}  // namespace

Status GpuRouter::Prepare(const RouterWeights& weights) {
  MOERT_RETURN_IF_ERROR(LoadVectors(weights));
  if (!weights.router.present()) return Status();
  std::pmr::vector<LinearSource> sources(1, &device_.allocator());
  sources[0].value = weights.router;
  sources[0].value_bias = weights.router_bias;
  // Scaled or wider weights are kept in float32; else products are exact in the compute dtype.
  const bool keep = input_scale_ == nullptr && weights.router.dtype == spec_.dtype;
  WeightLoader loader(device_);
  MOERT_RETURN_IF_ERROR(weights_.Make(device_, loader, sources, experts(), spec_.hidden,
                                      keep ? spec_.dtype : MOERT_DTYPE_FLOAT32, Keeping::kPacked,
                                      input_scale_));
  return loader.Run();
}

uint64_t GpuRouter::WorkspaceSize(const RouteCall& call) const {
  WorkspaceLayout layout(nullptr);
  Carve(call, &layout);
  return layout.size() + CopyBytes(call);
}

Status GpuRouter::Route(BackendStream& stream, const RouteCall& call) const {
  auto& gpu_stream = static_cast<GpuStream&>(stream);
  ContextScope scope(device_, CaptureMode::kAsIs);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  MOERT_RETURN_IF_ERROR(gpu_stream.BeginCall());
  WorkspaceLayout layout(call.workspace.data);
  RouterParts parts = Carve(call, &layout);
  parts.x = layout.AddBytes(CopyBytes(call));
  MOERT_RETURN_IF_ERROR(Logits(gpu_stream, call, parts));
  if (call.expert_counts.present()) {
    MOERT_RETURN_IF_ERROR(device_.Check(
        device_.driver().fill32_async(reinterpret_cast<GpuPointer>(call.expert_counts.data), 0,
                                      static_cast<size_t>(experts()), gpu_stream.handle()),
        "clearing counts"));
  }
  return Choose(gpu_stream.handle(), ChoiceArgs(call, parts));
}

// Room for a copy of x whose rows are aligned, should x's not be.
uint64_t GpuRouter::CopyBytes(const RouteCall& call) const {
  if (!call.x.present() || !weights_.matrix_ready()) return 0;
  return AlignUp(static_cast<uint64_t>(call.tokens * padded_hidden() * ElementSize(spec_.dtype)),
                 256);
}

RouterParts GpuRouter::Carve(const RouteCall& call, WorkspaceLayout* layout) const {
  RouterParts parts;
  parts.logits_stride = experts();
  if (!call.x.present()) return parts;
  if (call.logits.present()) {
    parts.logits = static_cast<float*>(call.logits.data);
    parts.logits_stride = call.logits.row_stride;
  } else {
    parts.logits = layout->Add<float>(call.tokens * experts());
  }
  if (rms()) parts.row_scale = layout->Add<float>(call.tokens);
  return parts;
}

Status GpuRouter::LoadVectors(const RouterWeights& weights) {
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

Status GpuRouter::Logits(GpuStream& gpu_stream, const RouteCall& call,
                         const RouterParts& parts) const {
  uses_.Add(gpu_stream);
  if (!call.x.present()) return Status();
  const GpuStreamHandle stream = gpu_stream.handle();
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

Status GpuRouter::FewLogits(GpuStreamHandle stream, const RouteCall& call,
                            const RouterParts& parts) const {
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

Status GpuRouter::ManyLogits(GpuStreamHandle stream, const RouteCall& call,
                             const RouterParts& parts) const {
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
    MOERT_RETURN_IF_ERROR(CopyRows(device_, stream, call.x, padded_hidden(), parts.x, &args));
  }
  return LaunchLinear(device_, stream, path, args, 0);
}

moert_top_k_kernel_args GpuRouter::ChoiceArgs(const RouteCall& call,
                                              const RouterParts& parts) const {
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
  return args;
}

Status GpuRouter::Choose(GpuStreamHandle stream, const moert_top_k_kernel_args& args) const {
  LaunchShape shape;
  shape.block_x = 32 * kTopKWarps;
  shape.grid_x = std::min<int64_t>(DivideUp(args.tokens, kTopKWarps), 1 << 20);
  // As TopKWords in kernels/common/top_k.h.
  const int64_t words = 2 * args.top_k + (args.num_groups > 1 ? 2 * args.num_experts : 0);
  shape.shared_bytes = static_cast<uint32_t>(kTopKWarps * words * sizeof(float));
  const int32_t size = experts() <= 32    ? 0
                       : experts() <= 128 ? 1
                       : experts() <= 256 ? 2
                       : experts() <= 512 ? 3
                                          : 4;
  return device_.Launch(KernelAfter(Kernel::top_k_32, size), stream, shape, &args);
}

Status PrepareGpuRouter(const GpuDevice& device, const RouterSpec& spec,
                        const RouterWeights& weights, WeightSource, Owned<PreparedRouter>* out) {
  auto router = MakeOwned<GpuRouter>(device.allocator(), device, spec);
  MOERT_RETURN_IF_ERROR(router->Prepare(weights));
  *out = std::move(router);
  return Status();
}

}  // namespace moert
