// SPDX-License-Identifier: Apache-2.0
// What differs between CUDA and HIP: types, warp width, warp-wide operations. Code in common/ uses
// these names and nothing of a vendor's.
#ifndef MOERT_KERNELS_COMMON_PORTABILITY_H_
#define MOERT_KERNELS_COMMON_PORTABILITY_H_

#include <stdint.h>

#if defined(__HIPCC__)
#include <hip/hip_bf16.h>
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>
#define MOERT_GRID_CONSTANT const
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define MOERT_GRID_CONSTANT const __grid_constant__
#endif

#include "kernels/args.h"

namespace moert {

#if defined(__HIPCC__)
using bfloat16 = __hip_bfloat16;
#else
using bfloat16 = __nv_bfloat16;
#endif
using float16 = __half;

#if defined(__HIPCC__)
#if defined(__GFX9__)
constexpr int kWarp = 64;
#else
constexpr int kWarp = 32;
#endif
using LaneMask = unsigned long long;
template <class T>
__device__ __forceinline__ T ShuffleXor(T value, int lanes) {
  return __shfl_xor(value, lanes, kWarp);
}
template <class T>
__device__ __forceinline__ T ShuffleUp(T value, int lanes) {
  return __shfl_up(value, lanes, kWarp);
}
template <class T>
__device__ __forceinline__ T ShuffleFrom(T value, int lane) {
  return __shfl(value, lane, kWarp);
}
__device__ __forceinline__ void SyncWarp() { __builtin_amdgcn_wave_barrier(); }
__device__ __forceinline__ void FenceSystem() { __threadfence_system(); }
#else
constexpr int kWarp = 32;
using LaneMask = unsigned;
template <class T>
__device__ __forceinline__ T ShuffleXor(T value, int lanes) {
  return __shfl_xor_sync(~0u, value, lanes);
}
template <class T>
__device__ __forceinline__ T ShuffleUp(T value, int lanes) {
  return __shfl_up_sync(~0u, value, lanes);
}
template <class T>
__device__ __forceinline__ T ShuffleFrom(T value, int lane) {
  return __shfl_sync(~0u, value, lane);
}
__device__ __forceinline__ void SyncWarp() { __syncwarp(); }
__device__ __forceinline__ void FenceSystem() { __threadfence_system(); }
#endif

// What a kernel does before it reads what the kernel in front of it wrote: waits until that has
// ended and its writes are seen, and lets the kernel behind start. Kernels may be launched to
// overlap so.
__device__ __forceinline__ void BeginKernel() {
#if !defined(__HIPCC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ float WarpSum(float value) {
#pragma unroll
  for (int i = kWarp / 2; i > 0; i >>= 1) value += ShuffleXor(value, i);
  return value;
}

__device__ __forceinline__ uint32_t WarpMax(uint32_t value) {
#if defined(__HIPCC__)
  for (int i = kWarp / 2; i > 0; i >>= 1) value = max(value, ShuffleXor(value, i));
  return value;
#else
  return __reduce_max_sync(~0u, value);
#endif
}

__device__ __forceinline__ uint32_t WarpMin(uint32_t value) {
#if defined(__HIPCC__)
  for (int i = kWarp / 2; i > 0; i >>= 1) value = min(value, ShuffleXor(value, i));
  return value;
#else
  return __reduce_min_sync(~0u, value);
#endif
}

__device__ __forceinline__ float WarpMax(float value) {  // ignores NaN
#pragma unroll
  for (int i = kWarp / 2; i > 0; i >>= 1) value = fmaxf(value, ShuffleXor(value, i));
  return value;
}

// The sum over all threads of the block, for every thread; `scratch` holds 32 floats. The order of
// additions is fixed.
__device__ __forceinline__ float BlockSum(float value, float* scratch) {
  value = WarpSum(value);
  const int warps = (blockDim.x + kWarp - 1) / kWarp;
  if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < warps; ++i) sum += scratch[i];
  __syncthreads();
  return sum;
}

}  // namespace moert

#endif  // MOERT_KERNELS_COMMON_PORTABILITY_H_
