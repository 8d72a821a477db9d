// SPDX-License-Identifier: Apache-2.0
// The kernels of a kernel file by name. All are loaded when a device is opened.
#ifndef MOERT_BACKEND_GPU_KERNEL_LIST_H_
#define MOERT_BACKEND_GPU_KERNEL_LIST_H_

#include "core/dtype.h"

namespace moert {

#define MOERT_KERNELS_OF_DTYPE(X, D) \
  X(gate_multiply_##D)               \
  X(gate_multiply_rows_##D)          \
  X(gate_add_rows_##D)               \
  X(gate_add_linear_##D)             \
  X(copy_rows_##D)
#define MOERT_KERNELS_OF_16_BIT(X, D) \
  X(linear_mma_gated_16_##D)          \
  X(linear_mma_gated_32_##D)          \
  X(linear_mma_gated_64_##D)          \
  X(linear_mma_gated_128_##D)         \
  X(linear_mma_plain_16_##D)          \
  X(linear_mma_plain_32_##D)          \
  X(linear_mma_plain_64_##D)          \
  X(linear_mma_plain_128_##D)         \
  X(linear_stream_gated_1_##D)        \
  X(linear_stream_gated_2_##D)        \
  X(linear_stream_gated_4_##D)        \
  X(linear_stream_gated_8_##D)        \
  X(linear_stream_plain_1_##D)        \
  X(linear_stream_plain_2_##D)        \
  X(linear_stream_plain_4_##D)        \
  X(linear_stream_plain_8_##D)        \
  X(down_sum_1_##D)                   \
  X(down_sum_2_##D)                   \
  X(down_sum_4_##D)                   \
  X(down_sum_8_##D)
// In the order of moert_dtype, so that a kernel of a dtype is an offset away.
#define MOERT_KERNELS(X)           \
  MOERT_KERNELS_OF_DTYPE(X, f32)   \
  MOERT_KERNELS_OF_DTYPE(X, bf16)  \
  MOERT_KERNELS_OF_DTYPE(X, f16)   \
  MOERT_KERNELS_OF_16_BIT(X, bf16) \
  MOERT_KERNELS_OF_16_BIT(X, f16)  \
  X(top_k_32)                      \
  X(top_k_128)                     \
  X(top_k_256)                     \
  X(top_k_512)                     \
  X(top_k_1024)                    \
  X(choose_and_group_128)          \
  X(choose_and_group_256)          \
  X(choose_and_group_512)          \
  X(group_small)                   \
  X(group_count)                   \
  X(group_scan)                    \
  X(group_scatter)                 \
  X(pack_weight)                   \
  X(row_scale)                     \
  X(logits)                        \
  X(linear_generic)                \
  X(combine)                       \
  X(ceiling_read)                  \
  X(ceiling_copy)

enum class Kernel : int32_t {
#define MOERT_KERNEL_ENUM(name) name,
  MOERT_KERNELS(MOERT_KERNEL_ENUM)
#undef MOERT_KERNEL_ENUM
      kCount,
};
constexpr int32_t kNumKernels = static_cast<int32_t>(Kernel::kCount);

// The kernel `steps` after `first`.
constexpr Kernel KernelAfter(Kernel first, int32_t steps) {
  return static_cast<Kernel>(static_cast<int32_t>(first) + steps);
}

// From the kernel for float32, the one for `dtype`.
constexpr Kernel OfDtype(Kernel f32, moert_dtype dtype) {
  constexpr int32_t kStep = static_cast<int32_t>(Kernel::gate_multiply_bf16) -
                            static_cast<int32_t>(Kernel::gate_multiply_f32);
  return KernelAfter(f32, (dtype - MOERT_DTYPE_FLOAT32) * kStep);
}
// From the kernel for bfloat16, the one for `dtype`, which is of 16 bits.
constexpr Kernel Of16Bit(Kernel bf16, moert_dtype dtype) {
  constexpr int32_t kStep = static_cast<int32_t>(Kernel::linear_mma_gated_16_f16) -
                            static_cast<int32_t>(Kernel::linear_mma_gated_16_bf16);
  return KernelAfter(bf16, dtype == MOERT_DTYPE_FLOAT16 ? kStep : 0);
}

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_KERNEL_LIST_H_
