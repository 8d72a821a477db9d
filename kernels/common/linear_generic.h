// SPDX-License-Identifier: Apache-2.0
// The grouped product for everything the matrix units do not take: float32, unpacked weights of any
// stride, dtype and alignment. Tile: 64 outputs x 64 positions x 16 deep, 256 threads of 4 x 4, FMA
// in float32. Gate and up are two products of one tile.
#ifndef MOERT_KERNELS_COMMON_LINEAR_GENERIC_H_
#define MOERT_KERNELS_COMMON_LINEAR_GENERIC_H_

#include "kernels/common/activation.h"
#include "kernels/common/element.h"
#include "kernels/common/top_k.h"

namespace moert {

constexpr int kGenericTile = 64;
constexpr int kGenericDepth = 16;

// Tile `index` of a product: its entry, or false beyond the last.
__device__ __forceinline__ bool FindTile(const moert_linear_kernel_args& args, int64_t index,
                                         moert_tile* tile) {
  if (args.tiles != nullptr) {
    // Read beside the count rather than after it; the list has room for every index of the grid.
    *tile = args.tiles[index];
    return index < *args.num_tiles;
  }
  const int64_t first = index * args.tile_positions;
  if (first >= args.dense_rows) return false;
  const int64_t left = args.dense_rows - first;
  *tile =
      moert_tile{0, static_cast<int32_t>(first),
                 static_cast<int32_t>(left < args.tile_positions ? left : args.tile_positions), 0};
  return true;
}

__device__ __forceinline__ int64_t RowOfPosition(const moert_linear_kernel_args& args,
                                                 int64_t position) {
  return args.row_index != nullptr ? args.row_index[position] / args.row_index_divisor : position;
}

// Offset of output o's first element in a weight.
__device__ __forceinline__ int64_t WeightRow(const moert_linear_kernel_args& args, int64_t o) {
  return o / 8 * args.weight_group_stride + o % 8 * args.weight_row_stride;
}

__device__ __forceinline__ float Bias(const moert_linear_kernel_args& args, const void* bias,
                                      int64_t o) {
  return LoadElement(bias, args.bias_dtype, o * args.bias_stride);
}

// From the products of outputs o, o + 1, ... of a position to the values to store.
template <int kCount, bool kFast>
__device__ __forceinline__ void Finish(const moert_linear_kernel_args& args,
                                       const moert_weight_entry& weight, int64_t o,
                                       int64_t position, float (&value)[kCount],
                                       float (&pair)[kCount]) {
  if (args.product_scale != 1.0f || args.row_scale != nullptr) {
    const float scale = args.row_scale != nullptr ? args.product_scale * args.row_scale[position]
                                                  : args.product_scale;
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] *= scale;
  }
  if (weight.value_bias != nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (o + i < args.outputs) value[i] += Bias(args, weight.value_bias, o + i);
    }
  }
  if (weight.pair_bias != nullptr) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (o + i < args.outputs) pair[i] += Bias(args, weight.pair_bias, o + i);
    }
  }
  ActivateAll<kCount, kFast>(args, value, pair);
  if (args.soft_cap != 0.0f) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] = SoftCap(value[i], args.soft_cap);
  }
  if (args.position_scale != nullptr) {
    const float scale = args.position_scale[position];
#pragma unroll
    for (int i = 0; i < kCount; ++i) value[i] *= scale;
  }
}

// One depth step of the tile's operands into shared memory, [depth][outputs or positions].
struct GenericStage {
  float value[kGenericDepth][kGenericTile + 4];
  float pair[kGenericDepth][kGenericTile + 4];
  float rows[kGenericDepth][kGenericTile + 4];
};

__device__ __forceinline__ void LoadWeightStage(const moert_linear_kernel_args& args,
                                                const void* weight, int64_t o0, int64_t k0,
                                                float (&out)[kGenericDepth][kGenericTile + 4]) {
  // Threads run along the contiguous dimension.
  const bool in_contiguous = args.weight_in_stride == 1;
  for (int i = threadIdx.x; i < kGenericDepth * kGenericTile; i += blockDim.x) {
    const int o = in_contiguous ? i / kGenericDepth : i % kGenericTile;
    const int k = in_contiguous ? i % kGenericDepth : i / kGenericTile;
    float value = 0.0f;
    if (o0 + o < args.outputs && k0 + k < args.depth) {
      value = LoadElement(weight, args.weight_dtype,
                          WeightRow(args, o0 + o) + (k0 + k) * args.weight_in_stride);
    }
    out[k][o] = value;
  }
}

__device__ __forceinline__ void LinearGeneric(const moert_linear_kernel_args& args) {
  __shared__ GenericStage stage;
  __shared__ int64_t row_offsets[kGenericTile];
  moert_tile tile;
  if (!FindTile(args, blockIdx.x, &tile)) return;
  const int64_t o0 = int64_t{blockIdx.y} * kGenericTile;
  const moert_weight_entry weight = args.weights[tile.expert];
  const bool gated = args.gated != 0;
  if (threadIdx.x < kGenericTile) {
    const int p = min(static_cast<int>(threadIdx.x), tile.count - 1);
    row_offsets[threadIdx.x] = RowOfPosition(args, int64_t{tile.first} + p) * args.row_stride_in;
  }
  __syncthreads();

  const int to = threadIdx.x % 16 * 4, tp = threadIdx.x / 16 * 4;
  float values[4][4] = {}, pairs[4][4] = {};
  for (int64_t k0 = 0; k0 < args.depth; k0 += kGenericDepth) {
    LoadWeightStage(args, weight.value, o0, k0, stage.value);
    if (gated) LoadWeightStage(args, weight.pair, o0, k0, stage.pair);
    for (int i = threadIdx.x; i < kGenericDepth * kGenericTile; i += blockDim.x) {
      const int p = i / kGenericDepth, k = i % kGenericDepth;
      stage.rows[k][p] = p < tile.count && k0 + k < args.row_depth
                             ? LoadElement(args.rows, args.row_dtype, row_offsets[p] + k0 + k)
                             : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kGenericDepth; ++k) {
      float row[4];
#pragma unroll
      for (int p = 0; p < 4; ++p) row[p] = stage.rows[k][tp + p];
#pragma unroll
      for (int o = 0; o < 4; ++o) {
        const float value = stage.value[k][to + o];
#pragma unroll
        for (int p = 0; p < 4; ++p) values[o][p] += value * row[p];
        if (gated) {
          const float pair = stage.pair[k][to + o];
#pragma unroll
          for (int p = 0; p < 4; ++p) pairs[o][p] += pair * row[p];
        }
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < 4; ++p) {
    if (tp + p >= tile.count) break;
    const int64_t position = int64_t{tile.first} + tp + p;
    float value[4], pair[4];
#pragma unroll
    for (int o = 0; o < 4; ++o) value[o] = values[o][p], pair[o] = pairs[o][p];
    Finish<4, false>(args, weight, o0 + to, position, value, pair);
#pragma unroll
    for (int o = 0; o < 4; ++o) {
      const int64_t output = o0 + to + o;
      if (output >= args.padded_outputs) break;
      StoreElement(args.out, args.out_dtype, position * args.out_stride + output,
                   output < args.outputs ? value[o] : 0.0f);
    }
  }
}

}  // namespace moert

// Grid: (tiles at most, DivideUp(padded outputs, 64)).
extern "C" __global__ void __launch_bounds__(256)
    moert_linear_generic(MOERT_GRID_CONSTANT moert_linear_kernel_args args) {
  moert::BeginKernel();
  moert::LinearGeneric(args);
}

#endif  // MOERT_KERNELS_COMMON_LINEAR_GENERIC_H_
