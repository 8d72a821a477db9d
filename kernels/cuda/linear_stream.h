// SPDX-License-Identifier: Apache-2.0
// Products of few tokens, bound by reading each needed weight once; 16-bit operands, sm_80 and up.
//
// A unit is 16 weight rows (8 gate and 8 up rows when gated) of one expert. Weights go from memory
// into mma fragments without a stop in shared memory: a lane reads 16 bytes of row lane / 4 and of
// row lane / 4 + 8, which fill two m16n8k16 products over the same 32 elements of depth in an order
// that weights and activations share. Two loads of a lane for each of kBatch steps are in flight.
#ifndef MOERT_KERNELS_CUDA_LINEAR_STREAM_H_
#define MOERT_KERNELS_CUDA_LINEAR_STREAM_H_

#include "kernels/common/linear_generic.h"
#include "kernels/cuda/mma.h"

namespace moert {

constexpr int kStreamWarps = 4;
constexpr int kStreamThreads = kStreamWarps * 32;
constexpr int kDownWarps = 16;
constexpr int kDownThreads = kDownWarps * 32;
constexpr int kStreamDepth = 32;  // elements of a step
constexpr int kUnitRows = 16;
// Blocks that a multiprocessor shall hold.
constexpr int StreamBlocks(int tiles) { return tiles == 1 ? 6 : tiles == 2 ? 3 : 2; }

// Rows lane / 4 and lane / 4 + 8 of a unit, from the lane's 8 elements on.
template <class T>
struct UnitRows {
  const T *low, *high;
  bool low_valid, high_valid;
};

template <class T, bool kGated>
__device__ __forceinline__ UnitRows<T> FindUnit(const moert_linear_kernel_args& args,
                                                const moert_weight_entry& entry, int64_t unit) {
  const int lane = threadIdx.x % 32, g = lane / 4;
  const int64_t low = kGated ? unit * 8 + g : unit * 16 + g;
  const int64_t high = kGated ? low : low + 8;
  UnitRows<T> rows;
  rows.low_valid = low < args.outputs;
  rows.high_valid = high < args.outputs;
  rows.low = static_cast<const T*>(entry.value) + lane % 4 * 8;
  rows.high = static_cast<const T*>(kGated ? entry.pair : entry.value) + lane % 4 * 8;
  if (rows.low_valid) rows.low += WeightRow(args, low);
  if (rows.high_valid) rows.high += WeightRow(args, high);
  return rows;
}

// c[j] += the unit's rows times positions j * 8 .. of the tile, over steps first, first + stride,
// ... below `end`.
template <class T, int kTiles, int kBatch>
__device__ __forceinline__ void MultiplyUnit(const moert_linear_kernel_args& args,
                                             const UnitRows<T>& unit, const moert_tile& tile,
                                             int first, int stride, int end,
                                             float (&c)[kTiles][4]) {
  const int lane = threadIdx.x % 32;
  const uint4 zero = make_uint4(0, 0, 0, 0);
  const T* rows[kTiles];
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int n = j * 8 + lane / 4;
    rows[j] = n < tile.count ? static_cast<const T*>(args.rows) + lane % 4 * 8 +
                                   RowOfPosition(args, int64_t{tile.first} + n) * args.row_stride_in
                             : nullptr;
  }
  const int depth = static_cast<int>(args.depth) - lane % 4 * 8;
  const int row_depth = static_cast<int>(args.row_depth) - lane % 4 * 8;
#pragma unroll 1
  for (int s0 = first; s0 < end; s0 += stride * kBatch) {
    uint4 low[kBatch], high[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int s = s0 + u * stride, k = s * kStreamDepth;
      low[u] = s < end && unit.low_valid && k < depth ? LoadOnce(unit.low + k) : zero;
      high[u] = s < end && unit.high_valid && k < depth ? LoadOnce(unit.high + k) : zero;
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      if (j * 8 >= tile.count) break;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        const int s = s0 + u * stride, k = s * kStreamDepth;
        const uint4 x = s < end && rows[j] != nullptr && k < row_depth
                            ? *reinterpret_cast<const uint4*>(rows[j] + k)
                            : zero;
        Mma<T>(c[j], low[u].x, high[u].x, low[u].y, high[u].y, x.x, x.y);
        Mma<T>(c[j], low[u].z, high[u].z, low[u].w, high[u].w, x.z, x.w);
      }
    }
  }
}

// Brings steps first..end of a unit of plain rows into L2; by a warp. Where kernels don't overlap
// there is nothing to gain.
template <class T>
__device__ __forceinline__ void PrefetchUnit(const moert_linear_kernel_args& args,
                                             const moert_weight_entry& entry, int64_t unit,
                                             int first, int end) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const int lane = threadIdx.x % 32;
  const int64_t row = unit * kUnitRows + lane;
  const int64_t from = int64_t{first} * kStreamDepth;
  const int64_t to = min(int64_t{end} * kStreamDepth, args.depth);
  if (lane >= kUnitRows || row >= args.outputs || to - from < 8) return;
  const T* start = static_cast<const T*>(entry.value) + WeightRow(args, row) + from;
  const auto bytes = static_cast<uint32_t>((to - from) * sizeof(T)) / 16 * 16;
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(start), "r"(bytes) : "memory");
#endif
}

// One unit of one tile a block; the warps share the depth.
template <class T, int kTiles, bool kGated>
__device__ __forceinline__ void LinearStream(const moert_linear_kernel_args& args) {
  __shared__ float4 parts[kStreamWarps][kTiles][32];
  constexpr int kOutputs = kGated ? 8 : 16;
  const int units = static_cast<int>((args.padded_outputs + kOutputs - 1) / kOutputs);
  moert_tile tile;
  if (!FindTile(args, blockIdx.x / units, &tile)) return;
  const int unit = blockIdx.x % units;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const moert_weight_entry entry = args.weights[tile.expert];
  const int steps = static_cast<int>((args.depth + kStreamDepth - 1) / kStreamDepth);
  float c[kTiles][4] = {};
  MultiplyUnit<T, kTiles, 4>(args, FindUnit<T, kGated>(args, entry, unit), tile, warp, kStreamWarps,
                             steps, c);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    parts[warp][j][lane] = make_float4(c[j][0], c[j][1], c[j][2], c[j][3]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kOutputs * tile.count; i += kStreamThreads) {
    const int r = i % kOutputs, n = i / kOutputs;
    const int from = (r % 8 * 4 + n % 8 / 2) * 4 + n % 2 + r / 8 * 2;
    float value[1] = {}, pair[1] = {};
#pragma unroll
    for (int w = 0; w < kStreamWarps; ++w) {
      const float* part = reinterpret_cast<const float*>(parts[w][n / 8]);
      value[0] += part[from];
      if (kGated) pair[0] += part[from + 2];
    }
    const int64_t output = int64_t{unit} * kOutputs + r, position = int64_t{tile.first} + n;
    if (output >= args.padded_outputs) continue;
    Finish<1, true>(args, entry, output, position, value, pair);
    StoreElement(args.out, args.out_dtype, position * args.out_stride + output,
                 output < args.outputs ? value[0] : 0.0f);
  }
}

// fc2: a block takes 16 outputs of every expert and token. Its warps share tiles and pieces of the
// depth; each slot's sum lies in shared memory, [position][split][output], until the slots of a
// token are added in their order. So the bits of a token do not depend on other tokens.
template <class T, int kTiles>
__device__ __forceinline__ void DownSum(const moert_down_sum_kernel_args& args) {
  extern __shared__ float slot_sums[];
  __shared__ int positions[MOERT_KERNEL_SMALL_SLOTS];
  __shared__ float scales[MOERT_KERNEL_SMALL_SLOTS];
  const moert_linear_kernel_args& linear = args.linear;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int steps = static_cast<int>((linear.depth + kStreamDepth - 1) / kStreamDepth);
  const int steps_of_piece = (steps + args.splits - 1) / args.splits;
  const int64_t o0 = int64_t{blockIdx.x} * kUnitRows;
  const int pieces = *linear.num_tiles * args.splits;
  // The tiles were written before the kernel in front of this one began, so the first weights can
  // be on their way while it ends.
  if (warp < pieces) {
    const int first = warp % args.splits * steps_of_piece;
    PrefetchUnit<T>(linear, linear.weights[linear.tiles[warp / args.splits].expert], blockIdx.x,
                    first, min(steps, first + steps_of_piece));
  }
  BeginKernel();
  // Asked for now, needed after the products.
  for (int slot = threadIdx.x; slot < args.tokens * args.top_k; slot += kDownThreads) {
    CopyWordAsync(&positions[slot], args.position_of + slot);
    if (args.weights == nullptr) {
      scales[slot] = 1.0f;
      continue;
    }
    const int token = slot / args.top_k;
    CopyWordAsync(&scales[slot],
                  args.weights + token * args.weights_stride + (slot - token * args.top_k));
  }
  CommitCopies();
  for (int piece = warp; piece < pieces; piece += kDownWarps) {
    const moert_tile tile = linear.tiles[piece / args.splits];
    const moert_weight_entry entry = linear.weights[tile.expert];
    const int split = piece % args.splits;
    float c[kTiles][4] = {};
    const UnitRows<T> unit = FindUnit<T, false>(linear, entry, blockIdx.x);
    const int first = split * steps_of_piece, end = min(steps, first + steps_of_piece);
    if (kTiles > 2 || pieces <= kDownWarps) {
      MultiplyUnit<T, kTiles, 4>(linear, unit, tile, first, 1, end, c);
    } else {  // not in L2 yet, so more has to be under way
      MultiplyUnit<T, kTiles, 8>(linear, unit, tile, first, 1, end, c);
    }
    const int r = lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t output = o0 + r + half * 8;
      float bias = 0.0f;
      if (split == 0 && entry.value_bias != nullptr && output < linear.outputs) {
        bias = Bias(linear, entry.value_bias, output);
      }
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int n = j * 8 + lane % 4 * 2 + e;
          if (n >= tile.count) continue;
          slot_sums[((tile.first + n) * args.splits + split) * kUnitRows + r + half * 8] =
              c[j][half * 2 + e] + bias;
        }
      }
    }
  }
  WaitCopies<0>();
  __syncthreads();
  for (int i = threadIdx.x; i < args.tokens * kUnitRows; i += kDownThreads) {
    const int token = i / kUnitRows, r = i % kUnitRows;
    const int64_t output = o0 + r;
    if (output >= linear.padded_outputs) continue;
    float sum = 0.0f;
    if (output < linear.outputs) {
      for (int s = 0; s < args.top_k; ++s) {
        const int position = positions[token * args.top_k + s];
        if (position < 0) continue;
        float slot = 0.0f;
        for (int split = 0; split < args.splits; ++split) {
          slot += slot_sums[(position * args.splits + split) * kUnitRows + r];
        }
        sum += slot * scales[token * args.top_k + s];
      }
      if (args.addend != nullptr) {
        const float scale = args.addend_scale != nullptr ? args.addend_scale[token] : 1.0f;
        sum += scale * args.addend[token * args.addend_stride + output];
      }
      if (args.accumulate != 0) {
        sum += LoadElement(args.y, linear.out_dtype, token * args.y_stride + output);
      }
    }
    StoreElement(args.y, linear.out_dtype, token * args.y_stride + output, sum);
  }
}

}  // namespace moert

// linear_stream: grid tiles at most * DivideUp(padded outputs, 16, or 8 when gated).
// down_sum: grid DivideUp(padded outputs, 16); dynamic shared memory: slots * splits * 64 bytes.
#define MOERT_STREAM_KERNEL(SUFFIX, T, TILES)                                                     \
  extern "C" __global__ void __launch_bounds__(moert::kStreamThreads, moert::StreamBlocks(TILES)) \
      moert_linear_stream_gated_##TILES##_##SUFFIX(                                               \
          MOERT_GRID_CONSTANT moert_linear_kernel_args args) {                                    \
    moert::BeginKernel();                                                                         \
    moert::LinearStream<T, TILES, true>(args);                                                    \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(moert::kStreamThreads, moert::StreamBlocks(TILES)) \
      moert_linear_stream_plain_##TILES##_##SUFFIX(                                               \
          MOERT_GRID_CONSTANT moert_linear_kernel_args args) {                                    \
    moert::BeginKernel();                                                                         \
    moert::LinearStream<T, TILES, false>(args);                                                   \
  }                                                                                               \
  extern "C" __global__ void __launch_bounds__(moert::kDownThreads)                               \
      moert_down_sum_##TILES##_##SUFFIX(MOERT_GRID_CONSTANT moert_down_sum_kernel_args args) {    \
    moert::DownSum<T, TILES>(args);                                                               \
  }
#define MOERT_STREAM_KERNELS(SUFFIX, T) \
  MOERT_STREAM_KERNEL(SUFFIX, T, 1)     \
  MOERT_STREAM_KERNEL(SUFFIX, T, 2)     \
  MOERT_STREAM_KERNEL(SUFFIX, T, 4)     \
  MOERT_STREAM_KERNEL(SUFFIX, T, 8)
MOERT_STREAM_KERNELS(bf16, moert::bfloat16)
MOERT_STREAM_KERNELS(f16, moert::float16)

#endif  // MOERT_KERNELS_CUDA_LINEAR_STREAM_H_
