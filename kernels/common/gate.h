// SPDX-License-Identifier: Apache-2.0
// The gate ops. Blocks take rows; with few rows the element-wise kinds also split the columns
// (blockIdx.y). out may be x or acc: each element is read by the thread that writes it.
#ifndef MOERT_KERNELS_COMMON_GATE_H_
#define MOERT_KERNELS_COMMON_GATE_H_

#include "kernels/common/activation.h"
#include "kernels/common/element.h"

namespace moert {

// Values of moert_gate_kind.
constexpr int kMultiply = 0;
constexpr int kMultiplyRows = 1;
constexpr int kAddRows = 2;
constexpr int kAddLinear = 3;

// h . w of one row, by the whole block.
template <class T>
__device__ __forceinline__ float RowDot(const T* h, const T* w, int64_t width, bool vectors,
                                        float* scratch) {
  float sum = 0.0f;
  // The order of additions does not depend on how h and w lie.
  for (int64_t c = int64_t{threadIdx.x} * kVector<T>; c < width; c += blockDim.x * kVector<T>) {
    if (vectors && c + kVector<T> <= width) {
      const Vector<T> a = LoadVector(h + c), b = LoadVector(w + c);
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) sum += ToFloat(a.element[i]) * ToFloat(b.element[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kVector<T>; ++i) {
        if (c + i < width) sum += ToFloat(h[c + i]) * ToFloat(w[c + i]);
      }
    }
  }
  return BlockSum(sum, scratch);
}

template <class T, int kKind>
__device__ __forceinline__ void Gate(const moert_gate_kernel_args& args) {
  __shared__ float scratch[32];
  const int64_t first = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.y} * blockDim.x;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const T* x = static_cast<const T*>(args.x) + row * args.x_stride;
    const T* g = static_cast<const T*>(args.g) + row * args.g_stride;
    const T* acc = static_cast<const T*>(args.acc) + row * args.acc_stride;
    T* out = static_cast<T*>(args.out) + row * args.out_stride;
    float scale = 0.0f;
    if (kKind == kMultiplyRows || kKind == kAddRows) scale = Sigmoid(ToFloat(g[0]));
    if (kKind == kAddLinear) {
      scale = Sigmoid(RowDot(static_cast<const T*>(args.h) + row * args.h_stride,
                             static_cast<const T*>(args.w), args.linear_width,
                             args.linear_vectors != 0, scratch));
    }
    int64_t done = 0;
    if (args.vectors != 0) {
      done = args.width / kVector<T> * kVector<T>;
      for (int64_t c = first * kVector<T>; c < done; c += step * kVector<T>) {
        Vector<T> value = LoadVector(x + c), other;
        if (kKind == kMultiply) other = LoadVector(g + c);
        if (kKind == kAddRows || kKind == kAddLinear) other = LoadVector(acc + c);
#pragma unroll
        for (int i = 0; i < kVector<T>; ++i) {
          float v = ToFloat(value.element[i]);
          if (kKind == kMultiply) v *= Sigmoid(ToFloat(other.element[i]));
          if (kKind == kMultiplyRows) v *= scale;
          if (kKind == kAddRows || kKind == kAddLinear) v = ToFloat(other.element[i]) + v * scale;
          value.element[i] = FromFloat<T>(v);
        }
        StoreVector(out + c, value);
      }
    }
    for (int64_t c = done + first; c < args.width; c += step) {
      float v = ToFloat(x[c]);
      if (kKind == kMultiply) v *= Sigmoid(ToFloat(g[c]));
      if (kKind == kMultiplyRows) v *= scale;
      if (kKind == kAddRows || kKind == kAddLinear) v = ToFloat(acc[c]) + v * scale;
      out[c] = FromFloat<T>(v);
    }
  }
}

}  // namespace moert

#define MOERT_GATE_KERNEL(NAME, T, KIND)                      \
  extern "C" __global__ void __launch_bounds__(512)           \
      NAME(MOERT_GRID_CONSTANT moert_gate_kernel_args args) { \
    moert::BeginKernel();                                     \
    moert::Gate<T, KIND>(args);                               \
  }
#define MOERT_GATE_KERNELS(SUFFIX, T)                                           \
  MOERT_GATE_KERNEL(moert_gate_multiply_##SUFFIX, T, moert::kMultiply)          \
  MOERT_GATE_KERNEL(moert_gate_multiply_rows_##SUFFIX, T, moert::kMultiplyRows) \
  MOERT_GATE_KERNEL(moert_gate_add_rows_##SUFFIX, T, moert::kAddRows)           \
  MOERT_GATE_KERNEL(moert_gate_add_linear_##SUFFIX, T, moert::kAddLinear)
MOERT_GATE_KERNELS(f32, float)
MOERT_GATE_KERNELS(bf16, moert::bfloat16)
MOERT_GATE_KERNELS(f16, moert::float16)

#endif  // MOERT_KERNELS_COMMON_GATE_H_
