// SPDX-License-Identifier: Apache-2.0
// Activations in float32. NaN passes through clamps.
#ifndef MOERT_KERNELS_COMMON_ACTIVATION_H_
#define MOERT_KERNELS_COMMON_ACTIVATION_H_

#include "kernels/common/portability.h"

namespace moert {

// Values of moert_activation_kind; kNoActivation in kernel arguments.
constexpr int kNoActivation = -1;
constexpr int kSilu = 0;
constexpr int kGelu = 1;
constexpr int kGeluTanh = 2;
constexpr int kRelu2 = 3;

__device__ __forceinline__ float Sigmoid(float value) { return 1.0f / (1.0f + expf(-value)); }

// kFast: for results that are narrowed to 16 bits.
template <int kKind, bool kFast>
__device__ __forceinline__ float Activate(float alpha, float value) {
  if constexpr (kKind == kSilu) {
    // A quotient, so that inf * 0 does not arise where the exponential overflows.
    if constexpr (kFast) return __fdividef(value, 1.0f + __expf(fminf(-alpha * value, 80.0f)));
    return value / (1.0f + expf(-alpha * value));
  } else if constexpr (kKind == kGelu) {
    return 0.5f * value * (1.0f + erff(value * 0.70710678118654752f));
  } else if constexpr (kKind == kGeluTanh) {
    const float inner = 0.79788456080286536f * (value + 0.044715f * value * value * value);
    return 0.5f * value * (1.0f + tanhf(inner));
  } else {
    const float positive = value > 0.0f ? value : value * 0.0f;  // NaN stays NaN
    return positive * positive;
  }
}

// value[i] = act(value[i], pair[i]) as moert_activation defines it; an infinite limit clamps
// nothing.
template <int kKind, int kCount, bool kFast>
__device__ __forceinline__ void ActivateKind(const moert_linear_kernel_args& args,
                                             float (&value)[kCount], const float (&pair)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    if (args.gated == 0) {
      value[i] = Activate<kKind, kFast>(args.alpha, value[i]);
      continue;
    }
    const float gate = value[i] > args.limit ? args.limit : value[i];
    const float up = pair[i] > args.limit    ? args.limit
                     : pair[i] < -args.limit ? -args.limit
                                             : pair[i];
    value[i] = Activate<kKind, kFast>(args.alpha, gate) * (up + args.up_offset);
  }
}

template <int kCount, bool kFast>
__device__ __forceinline__ void ActivateAll(const moert_linear_kernel_args& args,
                                            float (&value)[kCount], const float (&pair)[kCount]) {
  switch (args.activation) {
    case kSilu:
      return ActivateKind<kSilu, kCount, kFast>(args, value, pair);
    case kGelu:
      return ActivateKind<kGelu, kCount, kFast>(args, value, pair);
    case kGeluTanh:
      return ActivateKind<kGeluTanh, kCount, kFast>(args, value, pair);
    case kRelu2:
      return ActivateKind<kRelu2, kCount, kFast>(args, value, pair);
    default:
      return;
  }
}

}  // namespace moert

#endif  // MOERT_KERNELS_COMMON_ACTIVATION_H_
