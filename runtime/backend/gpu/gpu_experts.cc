// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/gpu_experts.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>

#include "backend/gpu/workspace_layout.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

constexpr int64_t kGroupThreads = 1024;   // as in kernels/common/grouping.h
constexpr int64_t kChoiceTokens = 32;     // at most, chosen and sorted in one launch
constexpr int32_t kChoiceExperts = 512;   // the same
constexpr int64_t kStreamTokens = 64;     // at most, on the streaming path
constexpr int64_t kStreamMeanSlots = 16;  // an expert; above it tiles are full enough
constexpr int64_t kStreamDepth = 32;      // elements of a step, as in kernels/cuda/linear_stream.h
constexpr int64_t kStepsOfSplit = 16;     // steps that are worth a piece of their own
constexpr int64_t kUnitRows = 16;
constexpr uint32_t kSlotSumBytes = 64 << 10;

int64_t PadDepth(int64_t width) {
  return static_cast<int64_t>(AlignUp(static_cast<uint64_t>(width), MOERT_KERNEL_DEPTH_UNIT));
}

void SetActivation(const moert_activation& activation, moert_linear_kernel_args* args) {
  args->activation = activation.kind;
  args->alpha = activation.alpha;
  args->limit = activation.limit != 0 ? activation.limit : INFINITY;
  args->up_offset = activation.up_offset;
}

}  // namespace

GpuExperts::GpuExperts(const GpuDevice& device, const LayerSpec& spec)
    : device_(device),
      spec_(spec),
      first_(device.allocator()),
      second_(device.allocator()),
      shared_first_(device.allocator()),
      shared_second_(device.allocator()),
      latent_in_(device.allocator()),
      latent_out_(device.allocator()),
      uses_(device) {}

Status GpuExperts::Prepare(const LayerWeights& weights, WeightSource source) {
  const Keeping keeping = source == WeightSource::kBorrow ? Keeping::kBorrowed
                          : spec_.trainable               ? Keeping::kUnpacked
                                                          : Keeping::kPacked;
  std::pmr::memory_resource* memory = &device_.allocator();
  WeightLoader loader(device_);
  const auto make = [&](std::pmr::vector<LinearSource>& sources, int64_t outputs, int64_t depth,
                        LinearWeights* out) {
    return out->Make(device_, loader, sources, outputs, depth, spec_.dtype, keeping);
  };
  const int64_t width = spec_.expert_width();
  std::pmr::vector<LinearSource> firsts(memory), seconds(memory);
  const auto add = [&](const ExpertWeights& e) {
    const bool gated = e.gate.present();
    firsts.push_back(gated ? LinearSource{e.gate, e.up, e.gate_bias, e.up_bias}
                           : LinearSource{e.up, {}, e.up_bias, {}});
    seconds.push_back(LinearSource{e.down, {}, e.down_bias, {}});
  };
  for (const ExpertWeights& expert : weights.experts) add(expert);
  MOERT_RETURN_IF_ERROR(make(firsts, spec_.intermediate, width, &first_));
  MOERT_RETURN_IF_ERROR(make(seconds, width, spec_.intermediate, &second_));
  std::pmr::vector<LinearSource> one(1, memory);
  if (spec_.shared_intermediate != 0) {
    firsts.clear(), seconds.clear();
    add(weights.shared);
    MOERT_RETURN_IF_ERROR(make(firsts, spec_.shared_intermediate, spec_.hidden, &shared_first_));
    MOERT_RETURN_IF_ERROR(make(seconds, spec_.hidden, spec_.shared_intermediate, &shared_second_));
  }
  if (spec_.latent != 0) {
    one[0].value = weights.latent_in;
    MOERT_RETURN_IF_ERROR(make(one, spec_.latent, spec_.hidden, &latent_in_));
    one[0].value = weights.latent_out;
    MOERT_RETURN_IF_ERROR(make(one, spec_.hidden, spec_.latent, &latent_out_));
  }
  if (weights.shared_expert_gate.present()) {
    PackTarget target;
    target.dtype = shared_gate_dtype_ = weights.shared_expert_gate.dtype;
    target.stride = target.padded_in = spec_.hidden;
    target.padded_out = 1;
    MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(
        device_, static_cast<uint64_t>(spec_.hidden * ElementSize(target.dtype)), &shared_gate_));
    target.destination = shared_gate_.data();
    loader.Add(weights.shared_expert_gate, 1, spec_.hidden, target);
  }
  const auto num_experts = static_cast<size_t>(spec_.routing.num_experts);
  std::pmr::vector<int32_t> local_of(num_experts, -1, memory);
  for (size_t i = 0; i < spec_.local_experts.size(); ++i) {
    local_of[static_cast<size_t>(spec_.local_experts[i])] = static_cast<int32_t>(i);
  }
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(device_, num_experts * sizeof(int32_t), &local_of_));
  loader.AddBytes(local_of.data(), num_experts * sizeof(int32_t), local_of_.data());
  return loader.Run();
}

int64_t GpuExperts::element() const { return ElementSize(spec_.dtype); }

// A product on tensor cores reads x, so an unaligned x is copied first.
bool GpuExperts::may_copy_x() const {
  return ElementSize(spec_.dtype) == 2 &&
         (first_.matrix_ready() || shared_first_.matrix_ready() || latent_in_.matrix_ready());
}

bool GpuExperts::MayStream(int64_t tokens, int64_t slots) const {
  return first_.matrix_ready() && second_.matrix_ready() && tokens <= kStreamTokens &&
         slots <= MOERT_KERNEL_SMALL_SLOTS && slots < kStreamMeanSlots * spec_.routing.num_experts;
}

// The second product's depth is cut so that each warp of a block finds work, as far as the sums of
// all slots and pieces fit in shared memory.
void GpuExperts::PlanStreaming(ExpertsPlan* plan) const {
  plan->streams = true;
  plan->first = plan->second = LinearPath::kStream;
  // Room for twice the mean; an expert with more takes several tiles.
  const int64_t mean = DivideUp(plan->slots, spec_.routing.num_experts);
  plan->tile_positions = StreamPositions(std::min(plan->tokens, 2 * mean));
  const int64_t steps = DivideUp(spec_.intermediate, kStreamDepth);
  const int64_t wanted = DivideUp(steps, kStepsOfSplit);
  const int64_t slot_bytes = plan->slots * kUnitRows * static_cast<int64_t>(sizeof(float));
  const int64_t room = std::max<int64_t>(1, kSlotSumBytes / slot_bytes);
  plan->splits = static_cast<int32_t>(std::clamp<int64_t>(wanted, 1, room));
}

ExpertsPlan GpuExperts::MakePlan(int64_t tokens) const {
  ExpertsPlan plan;
  plan.tokens = tokens;
  plan.slots = tokens * spec_.routing.top_k;
  if (MayStream(tokens, plan.slots)) {
    PlanStreaming(&plan);
  } else {
    plan.first = first_.matrix_ready() ? LinearPath::kTile : LinearPath::kGeneric;
    plan.second = second_.matrix_ready() ? LinearPath::kTile : LinearPath::kGeneric;
    const bool generic = plan.first == LinearPath::kGeneric || plan.second == LinearPath::kGeneric;
    plan.tile_positions =
        generic ? kGenericPositions : TilePositions(plan.slots / spec_.routing.num_experts);
  }
  const auto held = static_cast<int64_t>(spec_.local_experts.size());
  plan.max_tiles = std::min(plan.slots, held + plan.slots / plan.tile_positions);
  if (plan.slots > MOERT_KERNEL_SMALL_SLOTS) {
    const int64_t chunk =
        DivideUp(DivideUp(plan.slots, MOERT_KERNEL_GROUP_BLOCKS), kGroupThreads) * kGroupThreads;
    plan.group_chunk = static_cast<int32_t>(chunk);
    plan.group_blocks = static_cast<int32_t>(DivideUp(plan.slots, chunk));
  }
  return plan;
}

// Sizes never shrink as tokens grow.
ExpertsParts GpuExperts::Carve(const ExpertsPlan& plan, void* base) const {
  WorkspaceLayout layout(base);
  ExpertsParts parts = {};
  const int64_t slots = plan.slots, tokens = plan.tokens;
  const auto held = static_cast<int64_t>(spec_.local_experts.size());
  const int64_t width = PadDepth(spec_.expert_width()), inner = PadDepth(spec_.intermediate);
  parts.num_tiles = layout.Add<int32_t>(2);
  parts.num_positions = parts.num_tiles + 1;
  parts.position_of = layout.Add<int32_t>(slots);
  parts.slot_of = layout.Add<int32_t>(slots);
  parts.position_weight = layout.Add<float>(slots);
  parts.tiles = layout.Add<moert_tile>(std::min(slots, held + slots / 8));
  if (plan.group_blocks != 0) {
    const int64_t blocks =
        std::min<int64_t>(MOERT_KERNEL_GROUP_BLOCKS, DivideUp(slots, kGroupThreads));
    parts.block_counts = layout.Add<int32_t>(blocks * spec_.routing.num_experts);
    parts.block_offence = layout.Add<int64_t>(blocks);
  }
  if (may_copy_x()) parts.x = layout.AddBytes(tokens * PadDepth(spec_.hidden) * element());
  if (spec_.latent != 0) {
    parts.latent = layout.AddBytes(tokens * width * element());
    parts.latent_sum = layout.AddBytes(tokens * width * element());
    parts.latent_out = layout.Add<float>(tokens * spec_.hidden);
  }
  if (input_side()) parts.scaled = layout.AddBytes(slots * width * element());
  if (shared_second_.present()) {
    parts.shared_out = layout.Add<float>(tokens * spec_.hidden);
    parts.shared_scale = layout.Add<float>(tokens);
  }
  // The shared expert is through with it when the others begin.
  parts.inner = layout.AddBytes(
      std::max(slots * inner, tokens * PadDepth(spec_.shared_intermediate)) * element());
  if (!plan.streams) parts.parts = layout.AddBytes(slots * width * ElementSize(part_dtype()));
  parts.size = layout.size();
  return parts;
}

uint64_t GpuExperts::WorkspaceSize(const ExpertsCall& call) const {
  return Carve(MakePlan(call.tokens), nullptr).size;
}

Status GpuExperts::Run(BackendStream& stream, const ExpertsCall& call) const {
  auto& gpu_stream = static_cast<GpuStream&>(stream);
  ContextScope scope(device_, CaptureMode::kAsIs);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  MOERT_RETURN_IF_ERROR(gpu_stream.BeginCall());
  return Enqueue(gpu_stream, call, nullptr);
}

bool GpuExperts::FitsChoice(int64_t tokens) const {
  return tokens <= kChoiceTokens && tokens * spec_.routing.top_k <= MOERT_KERNEL_SMALL_SLOTS &&
         spec_.routing.num_groups <= 1 && spec_.routing.num_experts <= kChoiceExperts &&
         spec_.routing.score != MOERT_SCORE_SPARSEMIXER &&
         spec_.routing.renormalize != MOERT_RENORMALIZE_P_NORM;
}

Status GpuExperts::Enqueue(GpuStream& stream, const ExpertsCall& call,
                           const moert_top_k_kernel_args* choice) const {
  if (call.tokens > INT32_MAX / spec_.routing.top_k) {
    return InvalidArgument("%" PRId64 " tokens of top_k %d are more than the %d slots of a call",
                           call.tokens, spec_.routing.top_k, INT32_MAX);
  }
  uses_.Add(stream);
  const ExpertsPlan plan = MakePlan(call.tokens);
  const ExpertsParts parts = Carve(plan, call.workspace.data);
  Job job{call, plan, parts, stream.handle(), stream.status_word(), choice, call.x, call.x};
  return RunJob(job);
}

Status GpuExperts::RunJob(Job& job) const {
  MOERT_RETURN_IF_ERROR(Group(job));
  MOERT_RETURN_IF_ERROR(PrepareRows(job));
  if (has_shared(job.call)) MOERT_RETURN_IF_ERROR(Shared(job));
  MOERT_RETURN_IF_ERROR(First(job));
  if (job.plan.streams) {
    MOERT_RETURN_IF_ERROR(SecondStreaming(job));
    if (spec_.latent == 0) return Status();
  } else {
    MOERT_RETURN_IF_ERROR(Second(job));
    const int64_t stride = PadDepth(spec_.expert_width());
    if (spec_.latent == 0) {
      return Combine(job, job.parts.parts, part_dtype(), stride, false, job.call.y, spec_.hidden,
                     true);
    }
    const Matrix sum(job.parts.latent_sum, job.plan.tokens, stride, spec_.dtype);
    MOERT_RETURN_IF_ERROR(
        Combine(job, job.parts.parts, part_dtype(), stride, false, sum, stride, false));
  }
  Matrix sum(job.parts.latent_sum, job.plan.tokens, PadDepth(spec_.latent), spec_.dtype);
  MOERT_RETURN_IF_ERROR(Dense(job.stream, latent_out_, sum, nullptr, job.parts.latent_out,
                              MOERT_DTYPE_FLOAT32, spec_.hidden));
  return Combine(job, job.parts.latent_out, MOERT_DTYPE_FLOAT32, spec_.hidden, true, job.call.y,
                 spec_.hidden, true);
}

Status GpuExperts::Group(const Job& job) const {
  moert_group_kernel_args args = {};
  args.ids = static_cast<const int32_t*>(job.call.ids.data);
  args.weights = static_cast<const float*>(job.call.weights.data);
  args.tokens = job.plan.tokens;
  args.slots = job.plan.slots;
  args.ids_stride = job.call.ids.row_stride;
  args.weights_stride = job.call.weights.row_stride;
  args.top_k = spec_.routing.top_k;
  args.num_experts = spec_.routing.num_experts;
  args.local_of = static_cast<const int32_t*>(local_of_.data());
  args.tile_positions = job.plan.tile_positions;
  args.chunk = job.plan.group_chunk;
  args.blocks = job.plan.group_blocks;
  args.position_of = job.parts.position_of;
  args.slot_of = job.parts.slot_of;
  args.position_weight = job.parts.position_weight;
  args.tiles = job.parts.tiles;
  args.num_tiles = job.parts.num_tiles;
  args.num_positions = job.parts.num_positions;
  args.block_counts = job.parts.block_counts;
  args.block_offence = job.parts.block_offence;
  args.counts = static_cast<int32_t*>(job.call.expert_counts.data);
  args.status = job.status;
  LaunchShape shape;
  shape.block_x = static_cast<uint32_t>(kGroupThreads);
  if (job.choice != nullptr) return ChooseAndGroup(job, args);
  if (job.plan.group_blocks == 0) {
    return device_.Launch(Kernel::group_small, job.stream, shape, &args);
  }
  shape.grid_x = job.plan.group_blocks;
  MOERT_RETURN_IF_ERROR(device_.Launch(Kernel::group_count, job.stream, shape, &args));
  LaunchShape one = shape;
  one.grid_x = 1;
  MOERT_RETURN_IF_ERROR(device_.Launch(Kernel::group_scan, job.stream, one, &args));
  // Counters: 32 bits an expert, and 16 bits an expert and warp.
  shape.shared_bytes = static_cast<uint32_t>(args.num_experts) * (4 + 2 * 32);
  return device_.Launch(Kernel::group_scatter, job.stream, shape, &args);
}

Status GpuExperts::ChooseAndGroup(const Job& job, const moert_group_kernel_args& group) const {
  const moert_choose_and_group_kernel_args args = {*job.choice, group};
  LaunchShape shape;
  shape.block_x = static_cast<uint32_t>(kGroupThreads);
  const int32_t experts = spec_.routing.num_experts;
  const int32_t size = experts <= 128 ? 0 : experts <= 256 ? 1 : 2;
  return device_.Launch(KernelAfter(Kernel::choose_and_group_128, size), job.stream, shape, &args);
}

// Brings x into a form that the products take, and makes the experts' own input from it.
Status GpuExperts::PrepareRows(Job& job) const {
  if (may_copy_x() && !HasVectorRows(job.x)) {
    const int64_t padded = PadDepth(spec_.hidden);
    moert_linear_kernel_args rows = {};
    MOERT_RETURN_IF_ERROR(CopyRows(device_, job.stream, job.x, padded, job.parts.x, &rows));
    job.x = Matrix(job.parts.x, job.plan.tokens, padded, spec_.dtype);
  }
  job.expert_x = job.x;
  if (spec_.latent != 0) {
    const int64_t padded = PadDepth(spec_.latent);
    MOERT_RETURN_IF_ERROR(
        Dense(job.stream, latent_in_, job.x, nullptr, job.parts.latent, spec_.dtype, padded));
    job.expert_x = Matrix(job.parts.latent, job.plan.tokens, padded, spec_.dtype);
  }
  if (!input_side()) return Status();
  const int64_t padded = PadDepth(spec_.expert_width());
  moert_rows_kernel_args args = {};
  args.source = job.expert_x.data;
  args.source_stride = job.expert_x.row_stride;
  args.cols = std::min(job.expert_x.cols, spec_.expert_width());
  args.destination = job.parts.scaled;
  args.destination_stride = args.padded_cols = padded;
  args.index = job.parts.slot_of;
  args.index_divisor = spec_.routing.top_k;
  args.scale = job.parts.position_weight;
  args.num_rows = job.parts.num_positions;
  args.max_rows = job.plan.slots;
  args.dtype = spec_.dtype;
  LaunchShape shape;
  shape.grid_x = std::min<int64_t>(job.plan.slots, 1 << 16);
  MOERT_RETURN_IF_ERROR(
      device_.Launch(OfDtype(Kernel::copy_rows_f32, spec_.dtype), job.stream, shape, &args));
  job.expert_x = Matrix(job.parts.scaled, job.plan.slots, padded, spec_.dtype);
  return Status();
}

// out = act(rows W^T) for all rows, padded with zeros to out_stride.
Status GpuExperts::Dense(GpuStreamHandle stream, const LinearWeights& weights, const Matrix& rows,
                         const moert_activation* activation, void* out, moert_dtype out_dtype,
                         int64_t out_stride) const {
  moert_linear_kernel_args args = {};
  weights.Describe(&args);
  args.rows = rows.data;
  args.row_stride_in = rows.row_stride;
  args.row_dtype = rows.dtype;
  args.row_depth = std::min(rows.cols, PadDepth(weights.depth()));
  args.dense_rows = rows.rows;
  if (activation != nullptr) SetActivation(*activation, &args);
  args.out = out;
  args.out_dtype = out_dtype;
  args.out_stride = args.padded_outputs = out_stride;
  const LinearPath path = DensePath(weights, rows.dtype, rows.rows, &args.tile_positions);
  if (path == LinearPath::kGeneric) args.row_depth = std::min(args.row_depth, weights.depth());
  return LaunchLinear(device_, stream, path, args, 0);
}

Status GpuExperts::Shared(const Job& job) const {
  const int64_t padded = PadDepth(spec_.shared_intermediate);
  MOERT_RETURN_IF_ERROR(Dense(job.stream, shared_first_, job.x, &spec_.shared_activation,
                              job.parts.inner, spec_.dtype, padded));
  const Matrix inner(job.parts.inner, job.plan.tokens, padded, spec_.dtype);
  MOERT_RETURN_IF_ERROR(Dense(job.stream, shared_second_, inner, nullptr, job.parts.shared_out,
                              MOERT_DTYPE_FLOAT32, spec_.hidden));
  // Elsewhere the sum over slots finds the factor itself.
  const bool separate = job.plan.streams && spec_.latent == 0;
  return separate && shared_gate_.data() != nullptr ? SharedScale(job) : Status();
}

Status GpuExperts::SharedScale(const Job& job) const {
  moert_row_scale_kernel_args args = {};
  args.x = job.call.x.data;
  args.x_dtype = job.call.x.dtype;
  args.x_stride = job.call.x.row_stride;
  args.w = shared_gate_.data();
  args.w_dtype = shared_gate_dtype_;
  args.scale = job.parts.shared_scale;
  args.rows = job.plan.tokens;
  args.width = spec_.hidden;
  LaunchShape shape;
  shape.grid_x = std::min<int64_t>(job.plan.tokens, 1 << 20);
  return device_.Launch(Kernel::row_scale, job.stream, shape, &args);
}

Status GpuExperts::First(const Job& job) const {
  moert_linear_kernel_args args = {};
  first_.Describe(&args);
  args.rows = job.expert_x.data;
  args.row_stride_in = job.expert_x.row_stride;
  args.row_dtype = spec_.dtype;
  args.row_depth = job.plan.first == LinearPath::kGeneric ? first_.depth() : job.expert_x.cols;
  args.row_depth = std::min(args.row_depth, job.expert_x.cols);
  if (!input_side()) {
    args.row_index = job.parts.slot_of;
    args.row_index_divisor = spec_.routing.top_k;
  }
  args.tiles = job.parts.tiles;
  args.num_tiles = job.parts.num_tiles;
  args.tile_positions = job.plan.tile_positions;
  SetActivation(spec_.activation, &args);
  args.out = job.parts.inner;
  args.out_dtype = spec_.dtype;
  args.out_stride = args.padded_outputs = PadDepth(spec_.intermediate);
  return LaunchLinear(device_, job.stream, job.plan.first, args, job.plan.max_tiles);
}

Status GpuExperts::Second(const Job& job) const {
  moert_linear_kernel_args args = {};
  second_.Describe(&args);
  args.rows = job.parts.inner;
  args.row_stride_in = PadDepth(spec_.intermediate);
  args.row_dtype = spec_.dtype;
  args.tiles = job.parts.tiles;
  args.num_tiles = job.parts.num_tiles;
  args.tile_positions = job.plan.tile_positions;
  args.out = job.parts.parts;
  args.out_dtype = part_dtype();
  args.out_stride = PadDepth(spec_.expert_width());
  if (!input_side()) args.position_scale = job.parts.position_weight;
  if (job.plan.second != LinearPath::kGeneric) args.row_depth = args.row_stride_in;
  return LaunchLinear(device_, job.stream, job.plan.second, args, job.plan.max_tiles);
}

Status GpuExperts::SecondStreaming(const Job& job) const {
  moert_down_sum_kernel_args args = {};
  second_.Describe(&args.linear);
  args.linear.rows = job.parts.inner;
  args.linear.row_stride_in = args.linear.row_depth = PadDepth(spec_.intermediate);
  args.linear.row_dtype = spec_.dtype;
  args.linear.tiles = job.parts.tiles;
  args.linear.num_tiles = job.parts.num_tiles;
  args.linear.tile_positions = job.plan.tile_positions;
  args.linear.out_dtype = spec_.dtype;
  if (!input_side()) {
    args.weights = static_cast<const float*>(job.call.weights.data);
    args.weights_stride = job.call.weights.row_stride;
  }
  args.position_of = job.parts.position_of;
  args.tokens = static_cast<int32_t>(job.plan.tokens);
  args.top_k = spec_.routing.top_k;
  args.splits = job.plan.splits;
  if (spec_.latent != 0) {
    args.y = job.parts.latent_sum;
    args.y_stride = args.linear.padded_outputs = PadDepth(spec_.latent);
  } else {
    args.y = job.call.y.data;
    args.y_stride = job.call.y.row_stride;
    args.accumulate = job.call.accumulate ? 1 : 0;
    if (has_shared(job.call)) {
      args.addend = job.parts.shared_out;
      args.addend_stride = spec_.hidden;
      if (shared_gate_.data() != nullptr) args.addend_scale = job.parts.shared_scale;
    }
  }
  int32_t size = 0;
  while (8 << size < job.plan.tile_positions) ++size;
  LaunchShape shape;
  shape.block_x = 512;
  shape.grid_x = DivideUp(args.linear.padded_outputs, kUnitRows);
  shape.shared_bytes = static_cast<uint32_t>(job.plan.slots * job.plan.splits * kUnitRows *
                                             static_cast<int64_t>(sizeof(float)));
  return device_.Launch(KernelAfter(Of16Bit(Kernel::down_sum_1_bf16, spec_.dtype), size),
                        job.stream, shape, &args);
}

// y = sum of parts; the last sum of a call also takes the shared expert and what y held.
Status GpuExperts::Combine(const Job& job, const void* parts, moert_dtype part_dtype,
                           int64_t part_stride, bool one_part, const Matrix& y,
                           int64_t padded_width, bool last) const {
  moert_combine_kernel_args args = {};
  args.parts = parts;
  args.parts_dtype = part_dtype;
  args.parts_stride = part_stride;
  args.position_of = one_part ? nullptr : job.parts.position_of;
  args.top_k = one_part ? 1 : spec_.routing.top_k;
  args.y = y.data;
  args.y_dtype = y.dtype;
  args.y_stride = y.row_stride;
  args.tokens = job.plan.tokens;
  args.width = last ? spec_.hidden : spec_.expert_width();
  args.padded_width = padded_width;
  args.vectors = HasVectorRows(y) && part_stride % 8 == 0;
  if (last && has_shared(job.call)) {
    args.addend = job.parts.shared_out;
    args.addend_stride = spec_.hidden;
    if (shared_gate_.data() != nullptr) {
      args.gate_x = job.call.x.data;
      args.gate_x_stride = job.call.x.row_stride;
      args.gate_w = shared_gate_.data();
      args.gate_w_dtype = shared_gate_dtype_;
      args.gate_width = spec_.hidden;
    }
  }
  args.accumulate = last && job.call.accumulate ? 1 : 0;
  LaunchShape shape;
  shape.grid_x = std::min<int64_t>(job.plan.tokens, 1 << 20);
  return device_.Launch(Kernel::combine, job.stream, shape, &args);
}

uint64_t GpuExperts::weight_bytes() const {
  return first_.bytes() + second_.bytes() + shared_first_.bytes() + shared_second_.bytes() +
         latent_in_.bytes() + latent_out_.bytes() + shared_gate_.bytes();
}

Status GpuExperts::Weight(moert_role role, int32_t expert, moert_matrix* out) const {
  using Part = LinearWeights::Part;
  const struct {
    moert_role role;
    const LinearWeights* weights;
    Part part;
    bool bias;
  } views[] = {
      {MOERT_ROLE_EXPERT_GATE, &first_, Part::kValue, false},
      {MOERT_ROLE_EXPERT_UP, &first_, first_.gated() ? Part::kPair : Part::kValue, false},
      {MOERT_ROLE_EXPERT_GATE_UP, &first_, Part::kBoth, false},
      {MOERT_ROLE_EXPERT_DOWN, &second_, Part::kValue, false},
      {MOERT_ROLE_EXPERT_GATE_BIAS, &first_, Part::kValue, true},
      {MOERT_ROLE_EXPERT_UP_BIAS, &first_, first_.gated() ? Part::kPair : Part::kValue, true},
      {MOERT_ROLE_EXPERT_GATE_UP_BIAS, &first_, Part::kBoth, true},
      {MOERT_ROLE_EXPERT_DOWN_BIAS, &second_, Part::kValue, true},
      {MOERT_ROLE_LATENT_IN, &latent_in_, Part::kValue, false},
      {MOERT_ROLE_LATENT_OUT, &latent_out_, Part::kValue, false},
      {MOERT_ROLE_SHARED_GATE, &shared_first_, Part::kValue, false},
      {MOERT_ROLE_SHARED_UP, &shared_first_, shared_first_.gated() ? Part::kPair : Part::kValue,
       false},
      {MOERT_ROLE_SHARED_GATE_UP, &shared_first_, Part::kBoth, false},
      {MOERT_ROLE_SHARED_DOWN, &shared_second_, Part::kValue, false},
  };
  if (role == MOERT_ROLE_SHARED_EXPERT_GATE && shared_gate_.data() != nullptr) {
    *out = Matrix(shared_gate_.data(), 1, spec_.hidden, shared_gate_dtype_);
    return Status();
  }
  for (const auto& view : views) {
    if (view.role != role || !view.weights->present()) continue;
    const bool gate_only = role == MOERT_ROLE_EXPERT_GATE || role == MOERT_ROLE_SHARED_GATE ||
                           role == MOERT_ROLE_EXPERT_GATE_BIAS;
    if (gate_only && !view.weights->gated()) break;
    return view.weights->View(view.part, view.bias, expert, out);
  }
  return NotFound("the layer has no weight of role %d", role);
}

Status PrepareGpuExperts(const GpuDevice& device, const LayerSpec& spec,
                         const LayerWeights& weights, WeightSource source,
                         Owned<PreparedExperts>* out) {
  auto experts = MakeOwned<GpuExperts>(device.allocator(), device, spec);
  MOERT_RETURN_IF_ERROR(experts->Prepare(weights, source));
  *out = std::move(experts);
  return Status();
}

}  // namespace moert
