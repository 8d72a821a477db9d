// SPDX-License-Identifier: Apache-2.0
// Copies that bring operands into the form the fast products take: activation rows aligned and
// padded with zeros, weights packed row by row; and factors of single rows.
#ifndef MOERT_KERNELS_COMMON_ROWS_H_
#define MOERT_KERNELS_COMMON_ROWS_H_

#include "kernels/common/activation.h"
#include "kernels/common/element.h"

namespace moert {

// A block takes rows. The destination is aligned; the source need not be.
template <class T>
__device__ __forceinline__ void CopyRows(const moert_rows_kernel_args& args) {
  const int64_t rows = args.num_rows != nullptr ? *args.num_rows : args.max_rows;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t from = args.index != nullptr ? args.index[row] / args.index_divisor : row;
    const T* source = static_cast<const T*>(args.source) + from * args.source_stride;
    T* destination = static_cast<T*>(args.destination) + row * args.destination_stride;
    const float scale = args.scale != nullptr ? args.scale[row] : 1.0f;
    for (int64_t c = threadIdx.x; c < args.padded_cols; c += blockDim.x) {
      T value = FromFloat<T>(0.0f);
      if (c < args.cols) {
        value = source[c];
        if (args.scale != nullptr) value = FromFloat<T>(ToFloat(value) * scale);
      }
      destination[c] = value;
    }
  }
}

// Blocks of 32x32 elements, turned through shared memory, so that either orientation of the source
// is read along its contiguous dimension. blockDim (32, 8).
__device__ __forceinline__ void PackWeight(const moert_pack_kernel_args& args) {
  __shared__ float tile[32][33];
  const bool aligned =
      reinterpret_cast<uintptr_t>(args.source) % (args.source_dtype == kFloat32 ? 4 : 2) == 0;
  const bool in_contiguous = args.in_source_stride <= args.out_source_stride;
  const int64_t out_tiles = (args.padded_out + 31) / 32, in_tiles = (args.padded_in + 31) / 32;
  for (int64_t t = blockIdx.x; t < out_tiles * in_tiles; t += gridDim.x) {
    const int64_t o0 = t / in_tiles * 32, i0 = t % in_tiles * 32;
    for (int r = threadIdx.y; r < 32; r += 8) {
      const int64_t o = o0 + (in_contiguous ? r : threadIdx.x);
      const int64_t i = i0 + (in_contiguous ? threadIdx.x : r);
      float value = 0.0f;
      if (o < args.out && i < args.in) {
        const int64_t at = o * args.out_source_stride + i * args.in_source_stride;
        value = aligned ? LoadElement(args.source, args.source_dtype, at)
                        : LoadUnaligned(args.source, args.source_dtype, at);
        if (args.in_scale != nullptr) value *= args.in_scale[args.first_in + i];
      }
      tile[in_contiguous ? r : threadIdx.x][in_contiguous ? threadIdx.x : r] = value;
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
      if (o0 + r >= args.padded_out || i0 + threadIdx.x >= args.padded_in) continue;
      const int64_t o = args.first_out + o0 + r, i = args.first_in + i0 + threadIdx.x;
      StoreElement(args.destination, args.destination_dtype,
                   (o / 8 * args.group + o % 8 + args.first) * args.destination_stride + i,
                   tile[r][threadIdx.x]);
    }
    __syncthreads();
  }
}

// scale[row] = sigmoid(x . w), or 1 / rms(x); a block a row.
__device__ __forceinline__ void RowScale(const moert_row_scale_kernel_args& args) {
  __shared__ float scratch[32];
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    float sum = 0.0f;
    for (int64_t c = threadIdx.x; c < args.width; c += blockDim.x) {
      const float x = LoadElement(args.x, args.x_dtype, row * args.x_stride + c);
      sum += x * (args.w != nullptr ? LoadElement(args.w, args.w_dtype, c) : x);
    }
    sum = BlockSum(sum, scratch);
    if (threadIdx.x != 0) continue;
    args.scale[row] = args.w != nullptr
                          ? Sigmoid(sum)
                          : rsqrtf(sum / static_cast<float>(args.width) + args.epsilon);
  }
}

}  // namespace moert

extern "C" __global__ void __launch_bounds__(256)
    moert_copy_rows_f32(MOERT_GRID_CONSTANT moert_rows_kernel_args args) {
  moert::BeginKernel();
  moert::CopyRows<float>(args);
}
extern "C" __global__ void __launch_bounds__(256)
    moert_copy_rows_bf16(MOERT_GRID_CONSTANT moert_rows_kernel_args args) {
  moert::BeginKernel();
  moert::CopyRows<moert::bfloat16>(args);
}
extern "C" __global__ void __launch_bounds__(256)
    moert_copy_rows_f16(MOERT_GRID_CONSTANT moert_rows_kernel_args args) {
  moert::BeginKernel();
  moert::CopyRows<moert::float16>(args);
}
extern "C" __global__ void __launch_bounds__(256)
    moert_pack_weight(MOERT_GRID_CONSTANT moert_pack_kernel_args args) {
  moert::BeginKernel();
  moert::PackWeight(args);
}
extern "C" __global__ void __launch_bounds__(256)
    moert_row_scale(MOERT_GRID_CONSTANT moert_row_scale_kernel_args args) {
  moert::BeginKernel();
  moert::RowScale(args);
}

#endif  // MOERT_KERNELS_COMMON_ROWS_H_
