// SPDX-License-Identifier: Apache-2.0
// Elements of the compute dtypes: loads and stores as float32, one at a time or in 16-byte vectors,
// with the dtype known when compiled or when run.
#ifndef MOERT_KERNELS_COMMON_ELEMENT_H_
#define MOERT_KERNELS_COMMON_ELEMENT_H_

#include "kernels/common/portability.h"

namespace moert {

// Values of moert_dtype.
constexpr int kFloat32 = 1;
constexpr int kBfloat16 = 2;
constexpr int kFloat16 = 3;

__device__ __forceinline__ float ToFloat(float value) { return value; }
__device__ __forceinline__ float ToFloat(bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float ToFloat(float16 value) { return __half2float(value); }

template <class T>
__device__ __forceinline__ T FromFloat(float value);
template <>
__device__ __forceinline__ float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ bfloat16 FromFloat<bfloat16>(float value) {
  return __float2bfloat16(value);
}
template <>
__device__ __forceinline__ float16 FromFloat<float16>(float value) {
  return __float2half_rn(value);
}

// Element `index` of an array of a dtype known at run time.
__device__ __forceinline__ float LoadElement(const void* data, int dtype, int64_t index) {
  switch (dtype) {
    case kBfloat16:
      return ToFloat(static_cast<const bfloat16*>(data)[index]);
    case kFloat16:
      return ToFloat(static_cast<const float16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

// The same at any address.
__device__ __forceinline__ float LoadUnaligned(const void* data, int dtype, int64_t index) {
  const auto* bytes = static_cast<const unsigned char*>(data) + index * (dtype == kFloat32 ? 4 : 2);
  uint32_t bits = bytes[0] | bytes[1] << 8;
  if (dtype == kFloat32) {
    bits |= bytes[2] << 16 | static_cast<uint32_t>(bytes[3]) << 24;
    return __uint_as_float(bits);
  }
  const auto half = static_cast<unsigned short>(bits);
  return LoadElement(&half, dtype, 0);
}

__device__ __forceinline__ void StoreElement(void* data, int dtype, int64_t index, float value) {
  switch (dtype) {
    case kBfloat16:
      static_cast<bfloat16*>(data)[index] = FromFloat<bfloat16>(value);
      break;
    case kFloat16:
      static_cast<float16*>(data)[index] = FromFloat<float16>(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

// Address of element `index`.
__device__ __forceinline__ const void* ElementAt(const void* data, int dtype, int64_t index) {
  return static_cast<const char*>(data) + index * (dtype == kFloat32 ? 4 : 2);
}
__device__ __forceinline__ void* ElementAt(void* data, int dtype, int64_t index) {
  return static_cast<char*>(data) + index * (dtype == kFloat32 ? 4 : 2);
}

// Elements of a 16-byte vector.
template <class T>
constexpr int kVector = 16 / sizeof(T);

template <class T>
struct alignas(16) Vector {
  T element[kVector<T>];
};

template <class T>
__device__ __forceinline__ Vector<T> LoadVector(const T* data) {
  return *reinterpret_cast<const Vector<T>*>(data);
}
template <class T>
__device__ __forceinline__ void StoreVector(T* data, const Vector<T>& vector) {
  *reinterpret_cast<Vector<T>*>(data) = vector;
}

// Eight elements as float32 from a 16-byte aligned place, dtype known at run time.
__device__ __forceinline__ void LoadEight(const void* data, int dtype, float (&out)[8]) {
  if (dtype == kFloat32) {
    const float4* vectors = static_cast<const float4*>(data);
    const float4 a = vectors[0], b = vectors[1];
    out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
    out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
  } else if (dtype == kBfloat16) {
    const Vector<bfloat16> v = LoadVector(static_cast<const bfloat16*>(data));
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = ToFloat(v.element[i]);
  } else {
    const Vector<float16> v = LoadVector(static_cast<const float16*>(data));
#pragma unroll
    for (int i = 0; i < 8; ++i) out[i] = ToFloat(v.element[i]);
  }
}

// The same where `aligned` is false and up to `count` elements only; the rest is zero.
__device__ __forceinline__ void LoadUpToEight(const void* data, int dtype, bool aligned,
                                              int64_t count, float (&out)[8]) {
  if (aligned && count >= 8) return LoadEight(data, dtype, out);
#pragma unroll
  for (int i = 0; i < 8; ++i) out[i] = i < count ? LoadElement(data, dtype, i) : 0.0f;
}

__device__ __forceinline__ void StoreEight(void* data, int dtype, const float (&in)[8]) {
  if (dtype == kFloat32) {
    float4* vectors = static_cast<float4*>(data);
    vectors[0] = make_float4(in[0], in[1], in[2], in[3]);
    vectors[1] = make_float4(in[4], in[5], in[6], in[7]);
  } else if (dtype == kBfloat16) {
    Vector<bfloat16> v;
#pragma unroll
    for (int i = 0; i < 8; ++i) v.element[i] = FromFloat<bfloat16>(in[i]);
    StoreVector(static_cast<bfloat16*>(data), v);
  } else {
    Vector<float16> v;
#pragma unroll
    for (int i = 0; i < 8; ++i) v.element[i] = FromFloat<float16>(in[i]);
    StoreVector(static_cast<float16*>(data), v);
  }
}

}  // namespace moert

#endif  // MOERT_KERNELS_COMMON_ELEMENT_H_
