// SPDX-License-Identifier: Apache-2.0
// Facts about dtypes, and conversion between float32 and the 16-bit formats on the host.
#ifndef MOERT_CORE_DTYPE_H_
#define MOERT_CORE_DTYPE_H_

#include <bit>
#include <cstdint>

#include "moert/moert.h"

namespace moert {

constexpr bool IsComputeDtype(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_FLOAT32 || dtype == MOERT_DTYPE_BFLOAT16 ||
         dtype == MOERT_DTYPE_FLOAT16;
}
// Bytes of one element of a compute dtype or INT32.
constexpr int64_t ElementSize(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_BFLOAT16 || dtype == MOERT_DTYPE_FLOAT16 ? 2 : 4;
}
// Every value of `from` is exactly a value of `to`.
constexpr bool Widens(moert_dtype from, moert_dtype to) {
  return from == to || (to == MOERT_DTYPE_FLOAT32 && IsComputeDtype(from));
}

inline float Bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
// Round to nearest even; NaN stays NaN.
inline uint16_t FloatToBfloat16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
float Float16ToFloat(uint16_t bits);
uint16_t FloatToFloat16(float value);  // round to nearest even, overflow to infinity

// Element `index` of an array of a compute dtype, however aligned.
float LoadFloat(const void* data, moert_dtype dtype, int64_t index);

}  // namespace moert

#endif  // MOERT_CORE_DTYPE_H_
