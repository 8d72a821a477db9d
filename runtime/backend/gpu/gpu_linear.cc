// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/gpu_linear.h"

#include <algorithm>
#include <cinttypes>

#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

constexpr int64_t kMmaRows = 128;  // of a tile, in kernels/cuda/linear_mma.h
constexpr int64_t kUnitRows = 16;  // of a unit, in kernels/cuda/linear_stream.h
constexpr int64_t kMostStreamRows = 64;

void* Offset(void* data, moert_dtype dtype, int64_t elements) {
  return static_cast<char*>(data) + elements * ElementSize(dtype);
}

int64_t Round(int64_t value, int64_t unit) { return DivideUp(value, unit) * unit; }

bool SameLayout(const WeightMatrix& a, const WeightMatrix& b) {
  return a.present() == b.present() &&
         (!a.present() ||
          (a.dtype == b.dtype && a.out_stride == b.out_stride && a.in_stride == b.in_stride));
}

// Gate and up rows alternate in one tensor.
bool IsInterleaved(const WeightMatrix& gate, const WeightMatrix& up) {
  const int64_t bytes = static_cast<const char*>(up.data) - static_cast<const char*>(gate.data);
  return SameLayout(gate, up) && 2 * bytes == gate.out_stride * ElementSize(gate.dtype);
}

// The same for biases, which are vectors.
bool IsInterleavedBias(const WeightMatrix& gate, const WeightMatrix& up) {
  const int64_t bytes = static_cast<const char*>(up.data) - static_cast<const char*>(gate.data);
  return SameLayout(gate, up) && gate.present() &&
         2 * bytes == gate.in_stride * ElementSize(gate.dtype);
}

// Memory of the host that the device cannot read, or that the driver does not know.
Status CheckReachable(const GpuDevice& device, const WeightMatrix& weight) {
  if (!weight.present()) return Status();
  ContextScope scope(device);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  if (reinterpret_cast<uintptr_t>(weight.data) % static_cast<size_t>(ElementSize(weight.dtype)) !=
      0) {
    return Unsupported("BORROW_WEIGHTS: a weight at %p is not aligned to its elements",
                       weight.data);
  }
  if (PointerMemoryType(device.driver(), weight.data) != 0) return Status();
  return InvalidArgument("BORROW_WEIGHTS: a weight at %p is not in memory that %s can read",
                         weight.data, device.info().id);
}

}  // namespace

Status LinearWeights::Make(const GpuDevice& device, WeightLoader& loader,
                           const std::pmr::vector<LinearSource>& sources, int64_t outputs,
                           int64_t depth, moert_dtype dtype, Keeping keeping,
                           const float* in_scale) {
  outputs_ = outputs;
  depth_ = depth;
  gated_ = sources[0].pair.present();
  dtype_ = dtype;
  entries_.resize(sources.size());
  switch (keeping) {
    case Keeping::kPacked:
      MOERT_RETURN_IF_ERROR(MakePacked(device, loader, sources, in_scale));
      break;
    case Keeping::kUnpacked:
      MOERT_RETURN_IF_ERROR(MakeUnpacked(device, loader, sources));
      break;
    case Keeping::kBorrowed:
      MOERT_RETURN_IF_ERROR(MakeBorrowed(device, sources));
      break;
  }
  if (keeping != Keeping::kBorrowed) {
    // A bias that the host may change keeps its dtype.
    const WeightMatrix& bias =
        sources[0].value_bias.present() ? sources[0].value_bias : sources[0].pair_bias;
    if (keeping == Keeping::kUnpacked && bias.present()) bias_dtype_ = bias.dtype;
    MOERT_RETURN_IF_ERROR(MakeBiases(device, loader, sources));
  }
  CheckAlignment(dtype);
  const uint64_t bytes = entries_.size() * sizeof(entries_[0]);
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(device, bytes, &table_));
  loader.AddBytes(entries_.data(), bytes, table_.data());
  return Status();
}

// Rows padded to whole chunks of depth; gate and up interleaved by 8.
Status LinearWeights::MakePacked(const GpuDevice& device, WeightLoader& loader,
                                 const std::pmr::vector<LinearSource>& sources,
                                 const float* in_scale) {
  row_stride_ = Round(depth_, MOERT_KERNEL_DEPTH_UNIT);
  group_stride_ = (gated_ ? 16 : 8) * row_stride_;
  const int64_t padded_outputs = Round(outputs_, 8);
  const int64_t entry_elements = padded_outputs / 8 * group_stride_;
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(
      device, sources.size() * static_cast<uint64_t>(entry_elements * ElementSize(dtype_)),
      &values_));
  PackTarget target;
  target.dtype = dtype_;
  target.stride = row_stride_;
  target.padded_out = padded_outputs;
  target.padded_in = row_stride_;
  target.group = gated_ ? 16 : 8;
  target.in_scale = in_scale;
  for (size_t i = 0; i < sources.size(); ++i) {
    target.destination = Offset(values_.data(), dtype_, static_cast<int64_t>(i) * entry_elements);
    target.first = 0;
    entries_[i].value = target.destination;
    loader.Add(sources[i].value, outputs_, depth_, target);
    if (!gated_) continue;
    target.first = 8;
    entries_[i].pair = Offset(target.destination, dtype_, 8 * row_stride_);
    loader.Add(sources[i].pair, outputs_, depth_, target);
  }
  return Status();
}

// Rows of the source's dtype; a pair stays one [2 out, in] matrix, interleaved if it was.
Status LinearWeights::MakeUnpacked(const GpuDevice& device, WeightLoader& loader,
                                   const std::pmr::vector<LinearSource>& sources) {
  dtype_ = sources[0].value.dtype;
  const int64_t width = Round(depth_, 16 / ElementSize(dtype_));
  interleaved_ = gated_ && IsInterleaved(sources[0].value, sources[0].pair);
  row_stride_ = interleaved_ ? 2 * width : width;
  group_stride_ = 8 * row_stride_;
  const int64_t entry_elements = (gated_ ? 2 : 1) * outputs_ * width;
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(
      device, sources.size() * static_cast<uint64_t>(entry_elements * ElementSize(dtype_)),
      &values_));
  PackTarget target;
  target.dtype = dtype_;
  target.stride = row_stride_;
  target.padded_out = outputs_;
  target.padded_in = width;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].value.dtype != dtype_ || (gated_ && sources[i].pair.dtype != dtype_)) {
      return Unsupported("weights of one trainable role in several dtypes");
    }
    target.destination = Offset(values_.data(), dtype_, static_cast<int64_t>(i) * entry_elements);
    entries_[i].value = target.destination;
    loader.Add(sources[i].value, outputs_, depth_, target);
    if (!gated_) continue;
    target.destination =
        Offset(target.destination, dtype_, interleaved_ ? width : outputs_ * width);
    entries_[i].pair = target.destination;
    loader.Add(sources[i].pair, outputs_, depth_, target);
  }
  return Status();
}

Status LinearWeights::MakeBorrowed(const GpuDevice& device,
                                   const std::pmr::vector<LinearSource>& sources) {
  const LinearSource& first = sources[0];
  const WeightMatrix& bias = first.value_bias.present() ? first.value_bias : first.pair_bias;
  dtype_ = first.value.dtype;
  row_stride_ = first.value.out_stride;
  group_stride_ = 8 * row_stride_;
  in_stride_ = first.value.in_stride;
  if (bias.present()) bias_dtype_ = bias.dtype, bias_stride_ = bias.in_stride;
  for (size_t i = 0; i < sources.size(); ++i) {
    const LinearSource& source = sources[i];
    if (!SameLayout(source.value, first.value) ||
        (gated_ && !SameLayout(source.pair, first.value)) ||
        (source.value_bias.present() && !SameLayout(source.value_bias, bias)) ||
        (source.pair_bias.present() && !SameLayout(source.pair_bias, bias))) {
      return Unsupported(
          "BORROW_WEIGHTS with gate and up, or experts, of several dtypes or strides");
    }
    for (const WeightMatrix* weight :
         {&source.value, &source.pair, &source.value_bias, &source.pair_bias}) {
      MOERT_RETURN_IF_ERROR(CheckReachable(device, *weight));
    }
    entries_[i] = {source.value.data, source.pair.data, source.value_bias.data,
                   source.pair_bias.data};
  }
  return Status();
}

// All biases of an entry in a row: value's, then pair's, interleaved if they were.
Status LinearWeights::MakeBiases(const GpuDevice& device, WeightLoader& loader,
                                 const std::pmr::vector<LinearSource>& sources) {
  if (!sources[0].value_bias.present() && !sources[0].pair_bias.present()) return Status();
  const int64_t entry_elements = (gated_ ? 2 : 1) * outputs_;
  biases_interleaved_ = IsInterleavedBias(sources[0].value_bias, sources[0].pair_bias);
  bias_stride_ = biases_interleaved_ ? 2 : 1;
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(
      device, sources.size() * static_cast<uint64_t>(entry_elements * ElementSize(bias_dtype_)),
      &biases_));
  // A vector is [1, in]; written as [in, 1] its elements become rows of `bias_stride_` elements.
  const auto add = [&](const WeightMatrix& bias, void* destination) {
    PackTarget target;
    target.destination = destination;
    target.dtype = bias_dtype_;
    target.stride = bias_stride_;
    target.padded_out = outputs_;
    target.padded_in = 1;
    WeightMatrix turned = bias;
    turned.out_stride = bias.in_stride;
    turned.in_stride = 1;
    loader.Add(turned, outputs_, 1, target);
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    void* value = Offset(biases_.data(), bias_dtype_, static_cast<int64_t>(i) * entry_elements);
    if (sources[i].value_bias.present()) {
      entries_[i].value_bias = value;
      add(sources[i].value_bias, value);
    }
    if (sources[i].pair_bias.present()) {
      void* pair = Offset(value, bias_dtype_, biases_interleaved_ ? 1 : outputs_);
      entries_[i].pair_bias = pair;
      add(sources[i].pair_bias, pair);
    }
  }
  return Status();
}

void LinearWeights::CheckAlignment(moert_dtype compute_dtype) {
  matrix_ready_ = ElementSize(compute_dtype) == 2 && dtype_ == compute_dtype && in_stride_ == 1 &&
                  row_stride_ % 8 == 0 && depth_ % 8 == 0;
  // Packed rows are padded with zeros, so their depth may be anything.
  if (ElementSize(compute_dtype) == 2 && dtype_ == compute_dtype && in_stride_ == 1 &&
      row_stride_ % MOERT_KERNEL_DEPTH_UNIT == 0 && row_stride_ >= depth_ &&
      values_.data() != nullptr) {
    matrix_ready_ = true;
  }
  for (const moert_weight_entry& entry : entries_) {
    if (reinterpret_cast<uintptr_t>(entry.value) % 16 != 0 ||
        reinterpret_cast<uintptr_t>(entry.pair) % 16 != 0) {
      matrix_ready_ = false;
    }
  }
}

void LinearWeights::Describe(moert_linear_kernel_args* args) const {
  args->weights = static_cast<const moert_weight_entry*>(table_.data());
  args->outputs = outputs_;
  args->depth = args->row_depth = depth_;
  args->weight_row_stride = row_stride_;
  args->weight_group_stride = group_stride_;
  args->weight_in_stride = in_stride_;
  args->weight_dtype = dtype_;
  args->bias_dtype = bias_dtype_;
  args->bias_stride = bias_stride_;
  args->gated = gated_ ? 1 : 0;
  args->activation = -1;
  args->product_scale = 1.0f;
  args->padded_outputs = outputs_;
}

Status LinearWeights::View(Part part, bool bias, int64_t entry, moert_matrix* out) const {
  const moert_weight_entry& e = entries_[static_cast<size_t>(entry)];
  const void* first = bias ? e.value_bias : e.value;
  const void* second = bias ? e.pair_bias : e.pair;
  const void* data = part == Part::kPair ? second : first;
  if (data == nullptr || (part == Part::kBoth && second == nullptr)) {
    return NotFound("the layer has no weight of that role");
  }
  *out = MOERT_MATRIX_INIT;
  out->data = const_cast<void*>(data);
  out->dtype = bias ? bias_dtype_ : dtype_;
  const int64_t outputs = part == Part::kBoth ? 2 * outputs_ : outputs_;
  if (bias) {
    if (biases_interleaved_ && part != Part::kBoth) {
      return Unsupported("a view of one half of an interleaved bias; ask for the packed role");
    }
    out->rows = 1;
    out->cols = out->row_stride = outputs;
  } else {
    out->rows = outputs;
    out->cols = depth_;
    out->row_stride = part == Part::kBoth && interleaved_ ? row_stride_ / 2 : row_stride_;
  }
  return Status();
}

int32_t TilePositions(int64_t mean) {
  return mean <= 12 ? 16 : mean <= 24 ? 32 : mean <= 48 ? 64 : 128;
}

int32_t StreamPositions(int64_t most) {
  return most <= 8 ? 8 : most <= 16 ? 16 : most <= 32 ? 32 : 64;
}

bool HasVectorRows(const Matrix& matrix) {
  return reinterpret_cast<uintptr_t>(matrix.data) % 16 == 0 && matrix.cols % 8 == 0 &&
         (matrix.rows <= 1 || matrix.row_stride * ElementSize(matrix.dtype) % 16 == 0);
}

Status CopyRows(const GpuDevice& device, GpuStreamHandle stream, const Matrix& source,
                int64_t padded_cols, void* destination, moert_linear_kernel_args* args) {
  moert_rows_kernel_args copy = {};
  copy.source = source.data;
  copy.destination = destination;
  copy.max_rows = source.rows;
  copy.cols = source.cols;
  copy.padded_cols = padded_cols;
  copy.source_stride = source.row_stride;
  copy.destination_stride = padded_cols;
  copy.dtype = source.dtype;
  LaunchShape shape;
  shape.grid_x = std::min<int64_t>(source.rows, 1 << 20);
  MOERT_RETURN_IF_ERROR(
      device.Launch(OfDtype(Kernel::copy_rows_f32, source.dtype), stream, shape, &copy));
  args->rows = destination;
  args->row_stride_in = padded_cols;
  args->row_depth = padded_cols;
  return Status();
}

LinearPath DensePath(const LinearWeights& weights, moert_dtype row_dtype, int64_t rows,
                     int32_t* tile_positions) {
  if (!weights.matrix_ready() || row_dtype == MOERT_DTYPE_FLOAT32) {
    *tile_positions = kGenericPositions;
    return LinearPath::kGeneric;
  }
  if (rows <= kMostStreamRows) {
    *tile_positions = StreamPositions(rows);
    return LinearPath::kStream;
  }
  *tile_positions = rows <= 2048 ? 64 : 128;
  return LinearPath::kTile;
}

Status LaunchLinear(const GpuDevice& device, GpuStreamHandle stream, LinearPath path,
                    const moert_linear_kernel_args& args, int64_t max_tiles) {
  const int64_t tiles =
      args.tiles != nullptr ? max_tiles : DivideUp(args.dense_rows, args.tile_positions);
  const bool gated = args.gated != 0;
  LaunchShape shape;
  if (path == LinearPath::kGeneric) {
    shape.grid_x = tiles;
    shape.grid_y = DivideUp(args.padded_outputs, kGenericPositions);
    return device.Launch(Kernel::linear_generic, stream, shape, &args);
  }
  int32_t size = 0;  // index among the kernels' sizes
  const int32_t smallest = path == LinearPath::kTile ? 16 : 8;
  while (smallest << size < args.tile_positions) ++size;
  if (path == LinearPath::kStream) {
    shape.block_x = 128;
    shape.grid_x = tiles * DivideUp(args.padded_outputs, gated ? kUnitRows / 2 : kUnitRows);
    const Kernel first =
        gated ? Kernel::linear_stream_gated_1_bf16 : Kernel::linear_stream_plain_1_bf16;
    return device.Launch(KernelAfter(Of16Bit(first, args.weight_dtype), size), stream, shape,
                         &args);
  }
  constexpr uint32_t kStages[] = {4, 4, 4, 3};
  shape.grid_x = tiles * DivideUp(args.padded_outputs, gated ? kMmaRows / 2 : kMmaRows);
  shape.block_x = 128;
  shape.shared_bytes = kStages[size] * (static_cast<uint32_t>(kMmaRows) + (16u << size)) * 128;
  const Kernel first = gated ? Kernel::linear_mma_gated_16_bf16 : Kernel::linear_mma_plain_16_bf16;
  return device.Launch(KernelAfter(Of16Bit(first, args.weight_dtype), size), stream, shape, &args);
}

}  // namespace moert
