// SPDX-License-Identifier: Apache-2.0
// The sum over a token's slots, in slot order, with the shared expert and what y held before;
// float32 inside, narrowed once. A block a token.
#ifndef MOERT_KERNELS_COMMON_COMBINE_H_
#define MOERT_KERNELS_COMMON_COMBINE_H_

#include "kernels/common/activation.h"
#include "kernels/common/element.h"

namespace moert {

__device__ __forceinline__ float AddendScale(const moert_combine_kernel_args& args, int64_t token,
                                             float* scratch) {
  if (args.gate_w == nullptr) return 1.0f;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < args.gate_width; c += blockDim.x) {
    sum += LoadElement(args.gate_x, args.y_dtype, token * args.gate_x_stride + c) *
           LoadElement(args.gate_w, args.gate_w_dtype, c);
  }
  return Sigmoid(BlockSum(sum, scratch));
}

__device__ __forceinline__ void Combine(const moert_combine_kernel_args& args) {
  __shared__ float scratch[32];
  for (int64_t token = blockIdx.x; token < args.tokens; token += gridDim.x) {
    const float scale = args.addend != nullptr ? AddendScale(args, token, scratch) : 0.0f;
    const int32_t* positions = args.position_of + token * args.top_k;
    void* y = ElementAt(args.y, args.y_dtype, token * args.y_stride);
    const float* addend = args.addend + token * args.addend_stride;
    int64_t done = 0;
    if (args.vectors != 0) {
      done = args.width / 8 * 8;
      for (int64_t c = threadIdx.x * 8; c < done; c += blockDim.x * 8) {
        float sum[8] = {}, value[8];
        for (int s = 0; s < args.top_k; ++s) {
          const int64_t position = args.position_of != nullptr ? positions[s] : token;
          if (position < 0) continue;
          LoadEight(ElementAt(args.parts, args.parts_dtype, position * args.parts_stride + c),
                    args.parts_dtype, value);
#pragma unroll
          for (int i = 0; i < 8; ++i) sum[i] += value[i];
        }
        if (args.addend != nullptr) {
          LoadEight(addend + c, kFloat32, value);
#pragma unroll
          for (int i = 0; i < 8; ++i) sum[i] += scale * value[i];
        }
        if (args.accumulate != 0) {
          LoadEight(ElementAt(y, args.y_dtype, c), args.y_dtype, value);
#pragma unroll
          for (int i = 0; i < 8; ++i) sum[i] += value[i];
        }
        StoreEight(ElementAt(y, args.y_dtype, c), args.y_dtype, sum);
      }
    }
    for (int64_t c = done + threadIdx.x; c < args.padded_width; c += blockDim.x) {
      float sum = 0.0f;
      if (c < args.width) {
        for (int s = 0; s < args.top_k; ++s) {
          const int64_t position = args.position_of != nullptr ? positions[s] : token;
          if (position < 0) continue;
          sum += LoadElement(args.parts, args.parts_dtype, position * args.parts_stride + c);
        }
        if (args.addend != nullptr) sum += scale * addend[c];
        if (args.accumulate != 0) sum += LoadElement(y, args.y_dtype, c);
      }
      StoreElement(y, args.y_dtype, c, sum);
    }
  }
}

}  // namespace moert

extern "C" __global__ void __launch_bounds__(256)
    moert_combine(MOERT_GRID_CONSTANT moert_combine_kernel_args args) {
  moert::BeginKernel();
  moert::Combine(args);
}

#endif  // MOERT_KERNELS_COMMON_COMBINE_H_
