// SPDX-License-Identifier: Apache-2.0
// The grouped product on tensor cores by mma.sync, sm_80 and up, 16-bit operands.
//
// Tile: 128 weight rows (mma's m) x kPositions (mma's n) x 64 deep, cp.async in kStages stages of
// rows of 128 bytes whose 16-byte chunks are exchanged by (chunk ^ row % 8), so that ldmatrix meets
// no bank twice. Gate and up rows are interleaved by 8 in the tile. Results are turned through
// shared memory and stored row by row. Needs 16-byte aligned rows on both sides and depths that are
// multiples of 8.
#ifndef MOERT_KERNELS_CUDA_LINEAR_MMA_H_
#define MOERT_KERNELS_CUDA_LINEAR_MMA_H_

#include "kernels/common/linear_generic.h"
#include "kernels/cuda/mma.h"

namespace moert {

constexpr int kMmaRows = 128;
constexpr int kMmaDepth = 64;
constexpr int kChunks = kMmaDepth / 8;  // of 16 bytes in a row of a stage

template <int kPositions_, int kWarpsM_, int kWarpsN_, int kStages_, int kBlocks_>
struct MmaShape {
  static constexpr int kPositions = kPositions_, kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kWarpRows = kMmaRows / kWarpsM, kWarpPositions = kPositions / kWarpsN;
  static constexpr int kTilesM = kWarpRows / 16, kTilesN = kWarpPositions / 8;
  static constexpr int kRowsPerPass = kThreads / kChunks;  // rows copied by one pass of the block
  static constexpr int kStageBytes = (kMmaRows + kPositions) * kMmaDepth * 2;
};

template <class Shape>
struct MmaState {
  float c[Shape::kTilesM][Shape::kTilesN][4];
};

// Byte offset of a 16-byte chunk in a stage's operand.
__device__ __forceinline__ uint32_t ChunkOffset(int row, int chunk) {
  return row * (kMmaDepth * 2) + ((chunk ^ (row & 7)) << 4);
}

// What a thread copies: chunk threadIdx % 8 of every kRowsPerPass-th row.
template <class T, class Shape, bool kGated>
struct MmaLoader {
  static constexpr int kWeightPasses = kMmaRows / Shape::kRowsPerPass;
  static constexpr int kRowPasses =
      (Shape::kPositions + Shape::kRowsPerPass - 1) / Shape::kRowsPerPass;
  // Outputs and groups of 8 outputs from one pass to the next.
  static constexpr int kPassOutputs = kGated ? Shape::kRowsPerPass / 2 : Shape::kRowsPerPass;

  const T* weight;
  int64_t pass_stride;
  int output;  // of pass 0, relative to the end: >= 0 means beyond the last
  const T* rows[kRowPasses];
  int row, chunk;
  uint32_t base;

  __device__ __forceinline__ MmaLoader(const moert_linear_kernel_args& args,
                                       const moert_weight_entry& entry, const moert_tile& tile,
                                       int64_t row_tile, uint32_t shared) {
    row = threadIdx.x / kChunks;
    chunk = threadIdx.x % kChunks;
    base = shared;
    int64_t first;
    if (kGated) {
      first = row_tile * (kMmaRows / 2) + row / 16 * 8 + row % 8;
      weight = static_cast<const T*>((row & 8) != 0 ? entry.pair : entry.value);
    } else {
      first = row_tile * kMmaRows + row;
      weight = static_cast<const T*>(entry.value);
    }
    weight += WeightRow(args, first) + chunk * 8;
    pass_stride = args.weight_group_stride * (kPassOutputs / 8);
    output = static_cast<int>(first - args.outputs);
#pragma unroll
    for (int i = 0; i < kRowPasses; ++i) {
      const int position = min(row + i * Shape::kRowsPerPass, tile.count - 1);
      rows[i] = static_cast<const T*>(args.rows) + chunk * 8 +
                RowOfPosition(args, int64_t{tile.first} + position) * args.row_stride_in;
    }
  }

  __device__ __forceinline__ void Load(const moert_linear_kernel_args& args, int step, int stage) {
    const int k = step * kMmaDepth;
    const uint32_t to = base + stage * Shape::kStageBytes;
    const bool in_depth = k + chunk * 8 < args.depth;
#pragma unroll
    for (int i = 0; i < kWeightPasses; ++i) {
      const bool valid = in_depth && output + i * kPassOutputs < 0;
      // An address that is not read must still be one that could be.
      CopyAsync(to + ChunkOffset(row + i * Shape::kRowsPerPass, chunk),
                valid ? weight + i * pass_stride + k : args.rows, valid);
    }
    const bool in_row = k + chunk * 8 < args.row_depth;
#pragma unroll
    for (int i = 0; i < kRowPasses; ++i) {
      if (Shape::kPositions % Shape::kRowsPerPass != 0 &&
          row + i * Shape::kRowsPerPass >= Shape::kPositions) {
        break;
      }
      CopyAsync(to + kMmaRows * kMmaDepth * 2 + ChunkOffset(row + i * Shape::kRowsPerPass, chunk),
                in_row ? rows[i] + k : args.rows, in_row);
    }
  }
};

template <class T, class Shape>
__device__ __forceinline__ void MultiplyStage(MmaState<Shape>& state, uint32_t stage, int warp_m,
                                              int warp_n) {
  const int lane = threadIdx.x % 32;
  const uint32_t rows = stage + kMmaRows * kMmaDepth * 2;
#pragma unroll
  for (int k = 0; k < kMmaDepth / 16; ++k) {
    uint32_t a[Shape::kTilesM][4], b[(Shape::kTilesN + 1) / 2][4];
#pragma unroll
    for (int i = 0; i < Shape::kTilesM; ++i) {
      const int row = warp_m * Shape::kWarpRows + i * 16 + lane % 16;
      LoadMatrices(a[i], stage + ChunkOffset(row, k * 2 + lane / 16));
    }
#pragma unroll
    for (int i = 0; i < Shape::kTilesN / 2; ++i) {
      const int row = warp_n * Shape::kWarpPositions + i * 16 + (lane & 7) + (lane >> 4) * 8;
      LoadMatrices(b[i], rows + ChunkOffset(row, k * 2 + ((lane >> 3) & 1)));
    }
#pragma unroll
    for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kTilesN; ++j) {
        Mma<T>(state.c[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
               b[j / 2][j % 2 * 2 + 1]);
      }
    }
  }
}

// Float32 results of a tile in shared memory, [position][weight row].
constexpr int kStagingPitch = kMmaRows + 4;

template <class Shape>
__device__ __forceinline__ void StageResults(const MmaState<Shape>& state, float* staging,
                                             int warp_m, int warp_n) {
  const int lane = threadIdx.x % 32;
  float* to = staging + (warp_n * Shape::kWarpPositions + lane % 4 * 2) * kStagingPitch +
              warp_m * Shape::kWarpRows + lane / 4;
#pragma unroll
  for (int i = 0; i < Shape::kTilesM; ++i) {
#pragma unroll
    for (int j = 0; j < Shape::kTilesN; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        to[(j * 8 + c % 2) * kStagingPitch + i * 16 + c / 2 * 8] = state.c[i][j][c];
      }
    }
  }
}

// Finishes and stores staged results, four outputs of a position at a time.
template <class Out, class Shape, bool kGated>
__device__ __forceinline__ void StoreMmaTile(const moert_linear_kernel_args& args,
                                             const moert_weight_entry& weight,
                                             const moert_tile& tile, int64_t row_tile,
                                             const float* staging) {
  constexpr int kOutputs = kGated ? kMmaRows / 2 : kMmaRows;
  constexpr int kQuads = kOutputs / 4;
  const int64_t o0 = row_tile * kOutputs;
  Out* out = static_cast<Out*>(args.out) + tile.first * args.out_stride + o0;
  const bool aligned =
      (reinterpret_cast<uintptr_t>(out) % (4 * sizeof(Out))) == 0 && args.out_stride % 4 == 0;
#pragma unroll 1
  for (int i = threadIdx.x; i < tile.count * kQuads; i += Shape::kThreads) {
    const int n = i / kQuads, o = i % kQuads * 4;
    if (o0 + o >= args.padded_outputs) continue;
    const float* from = staging + n * kStagingPitch + (kGated ? o / 8 * 16 + o % 8 : o);
    const float4 values = *reinterpret_cast<const float4*>(from);
    float value[4] = {values.x, values.y, values.z, values.w}, pair[4] = {};
    if (kGated) {
      const float4 pairs = *reinterpret_cast<const float4*>(from + 8);
      pair[0] = pairs.x, pair[1] = pairs.y, pair[2] = pairs.z, pair[3] = pairs.w;
    }
    Finish<4, true>(args, weight, o0 + o, int64_t{tile.first} + n, value, pair);
    struct alignas(4 * sizeof(Out)) Quad {
      Out element[4];
    } quad;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      quad.element[c] = FromFloat<Out>(o0 + o + c < args.outputs ? value[c] : 0.0f);
    }
    Out* to = out + n * args.out_stride + o;
    if (aligned && o0 + o + 4 <= args.padded_outputs) {
      *reinterpret_cast<Quad*>(to) = quad;
    } else {
      for (int c = 0; c < 4 && o0 + o + c < args.padded_outputs; ++c) to[c] = quad.element[c];
    }
  }
}

template <class T, class Shape, bool kGated>
__device__ __forceinline__ void LinearMma(const moert_linear_kernel_args& args) {
  extern __shared__ __align__(128) unsigned char dynamic_shared[];
  constexpr int kOutputs = kGated ? kMmaRows / 2 : kMmaRows;
  const int row_tiles = static_cast<int>((args.padded_outputs + kOutputs - 1) / kOutputs);
  const int row_tile = blockIdx.x % row_tiles;
  moert_tile tile;
  if (!FindTile(args, blockIdx.x / row_tiles, &tile)) return;
  const moert_weight_entry weight = args.weights[tile.expert];
  const uint32_t shared = SharedAddress(dynamic_shared);
  MmaLoader<T, Shape, kGated> loader(args, weight, tile, row_tile, shared);
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / Shape::kWarpsN, warp_n = warp % Shape::kWarpsN;
  const int steps = static_cast<int>((args.depth + kMmaDepth - 1) / kMmaDepth);

  MmaState<Shape> state = {};
#pragma unroll
  for (int s = 0; s < Shape::kStages - 1; ++s) {
    if (s < steps) loader.Load(args, s, s);
    CommitCopies();
  }
  int stage = 0, load_stage = Shape::kStages - 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    WaitCopies<Shape::kStages - 2>();
    __syncthreads();
    if (step + Shape::kStages - 1 < steps) {
      loader.Load(args, step + Shape::kStages - 1, load_stage);
    }
    CommitCopies();
    MultiplyStage<T, Shape>(state, shared + stage * Shape::kStageBytes, warp_m, warp_n);
    stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
    load_stage = load_stage + 1 == Shape::kStages ? 0 : load_stage + 1;
  }
  WaitCopies<0>();
  __syncthreads();
  auto* staging = reinterpret_cast<float*>(dynamic_shared);
  StageResults<Shape>(state, staging, warp_m, warp_n);
  __syncthreads();
  if (args.out_dtype == kFloat32) {
    StoreMmaTile<float, Shape, kGated>(args, weight, tile, row_tile, staging);
  } else {
    StoreMmaTile<T, Shape, kGated>(args, weight, tile, row_tile, staging);
  }
}

using MmaShape16 = MmaShape<16, 4, 1, 4, 3>;
using MmaShape32 = MmaShape<32, 4, 1, 4, 2>;
using MmaShape64 = MmaShape<64, 2, 2, 4, 2>;
using MmaShape128 = MmaShape<128, 2, 2, 3, 2>;

}  // namespace moert

// Grid: tiles at most * DivideUp(padded outputs, 128, or 64 when gated); dynamic shared memory:
// kStages * kStageBytes.
#define MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, FORM, GATED, POSITIONS)                   \
  extern "C" __global__ void __launch_bounds__(moert::MmaShape##POSITIONS::kThreads, \
                                               moert::MmaShape##POSITIONS::kBlocks)  \
      moert_linear_mma_##FORM##_##POSITIONS##_##SUFFIX(                              \
          MOERT_GRID_CONSTANT moert_linear_kernel_args args) {                       \
    moert::BeginKernel();                                                            \
    moert::LinearMma<T, moert::MmaShape##POSITIONS, GATED>(args);                    \
  }
#define MOERT_LINEAR_MMA_KERNELS(SUFFIX, T)            \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, gated, true, 16)  \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, gated, true, 32)  \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, gated, true, 64)  \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, gated, true, 128) \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, plain, false, 16) \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, plain, false, 32) \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, plain, false, 64) \
  MOERT_LINEAR_MMA_KERNEL(SUFFIX, T, plain, false, 128)
MOERT_LINEAR_MMA_KERNELS(bf16, moert::bfloat16)
MOERT_LINEAR_MMA_KERNELS(f16, moert::float16)

#endif  // MOERT_KERNELS_CUDA_LINEAR_MMA_H_
