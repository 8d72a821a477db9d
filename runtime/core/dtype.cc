// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <cstring>

namespace moert {

float Float16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  // Zero and denormals: mantissa * 2^-24 is exact in float32.
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
}

uint16_t FloatToFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | (bits >> 13 & 0x1ffu));
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 rounds the mantissa to units of 2^-24.
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u));
  }
  const uint32_t odd = magnitude >> 13 & 1u;
  return static_cast<uint16_t>(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

float LoadFloat(const void* data, moert_dtype dtype, int64_t index) {
  const char* at = static_cast<const char*>(data) + index * ElementSize(dtype);
  if (dtype == MOERT_DTYPE_FLOAT32) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return dtype == MOERT_DTYPE_BFLOAT16 ? Bfloat16ToFloat(bits) : Float16ToFloat(bits);
}

}  // namespace moert
