// SPDX-License-Identifier: Apache-2.0
// Router logits of few tokens: a block takes an expert and up to four tokens, so that an expert's
// row is read once by 128 threads.
#ifndef MOERT_KERNELS_COMMON_LOGITS_H_
#define MOERT_KERNELS_COMMON_LOGITS_H_

#include "kernels/common/element.h"
#include "kernels/common/top_k.h"

namespace moert {

constexpr int kLogitsTokens = 4;

__device__ __forceinline__ void Logits(const moert_logits_kernel_args& args) {
  __shared__ float scratch[32];
  const int e = blockIdx.x, first = blockIdx.y * kLogitsTokens;
  const int tokens = min(kLogitsTokens, args.tokens - first);
  const void* w = ElementAt(args.w, args.w_dtype, e * args.w_stride);
  const void* x = ElementAt(args.x, args.x_dtype, first * args.x_stride);
  float sums[kLogitsTokens] = {};
  // The order of additions does not depend on how x lies.
  for (int64_t c = threadIdx.x * 8; c < args.width; c += blockDim.x * 8) {
    const int64_t left = args.width - c;
    const bool vectors = args.vectors != 0;
    float a[8], b[8];
    LoadUpToEight(ElementAt(w, args.w_dtype, c), args.w_dtype, true, left, a);
#pragma unroll
    for (int t = 0; t < kLogitsTokens; ++t) {
      if (t >= tokens) break;
      LoadUpToEight(ElementAt(x, args.x_dtype, t * args.x_stride + c), args.x_dtype, vectors, left,
                    b);
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[t] += a[i] * b[i];
    }
  }
#pragma unroll
  for (int t = 0; t < kLogitsTokens; ++t) {
    if (t >= tokens) break;
    float sum = BlockSum(sums[t], scratch);
    if (threadIdx.x != 0) continue;
    const int token = first + t;
    sum *= args.product_scale;
    if (args.row_scale != nullptr) sum *= args.row_scale[token];
    if (args.bias != nullptr) sum += LoadElement(args.bias, args.bias_dtype, e);
    args.logits[token * args.logits_stride + e] = SoftCap(sum, args.soft_cap);
  }
}

}  // namespace moert

extern "C" __global__ void __launch_bounds__(128)
    moert_logits(MOERT_GRID_CONSTANT moert_logits_kernel_args args) {
  moert::BeginKernel();
  moert::Logits(args);
}

#endif  // MOERT_KERNELS_COMMON_LOGITS_H_
