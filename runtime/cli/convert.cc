// SPDX-License-Identifier: Apache-2.0
#include "cli/convert.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace moert::cli {
namespace {

template <class T>
T Load(const void* data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  return value;
}

// A sign, `kExponentBits` of exponent and `kMantissaBits` of mantissa, with infinities and NaN in
// the last exponent, as in IEEE 754.
template <int kExponentBits, int kMantissaBits>
float WidenIeee(uint32_t bits) {
  constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  constexpr uint32_t kLast = (1u << kExponentBits) - 1;
  const uint32_t mantissa = bits & ((1u << kMantissaBits) - 1);
  const uint32_t exponent = (bits >> kMantissaBits) & kLast;
  const bool negative = ((bits >> (kMantissaBits + kExponentBits)) & 1u) != 0;
  float value = 0;
  if (exponent == kLast) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity()
                          : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
  } else {
    value = std::ldexp(static_cast<float>(mantissa | (1u << kMantissaBits)),
                       static_cast<int>(exponent) - kBias - kMantissaBits);
  }
  return negative ? -value : value;
}

// float8_e4m3fn: no infinities, and only all ones is NaN.
float WidenE4m3(uint32_t bits) {
  if ((bits & 0x7fu) == 0x7fu) return std::numeric_limits<float>::quiet_NaN();
  if ((bits & 0x78u) != 0x78u) return WidenIeee<4, 3>(bits);
  const float value = std::ldexp(static_cast<float>(8 + (bits & 7u)), 15 - 7 - 3);
  return (bits & 0x80u) != 0 ? -value : value;
}

float WidenOne(const void* data, moert_dtype dtype, int64_t index) {
  switch (dtype) {
    case MOERT_DTYPE_FLOAT64:
      return static_cast<float>(Load<double>(data, index));
    case MOERT_DTYPE_BFLOAT16:
      return std::bit_cast<float>(uint32_t{Load<uint16_t>(data, index)} << 16);
    case MOERT_DTYPE_FLOAT16:
      return WidenIeee<5, 10>(Load<uint16_t>(data, index));
    case MOERT_DTYPE_FLOAT8_E4M3:
      return WidenE4m3(Load<uint8_t>(data, index));
    case MOERT_DTYPE_FLOAT8_E5M2:
      return WidenIeee<5, 2>(Load<uint8_t>(data, index));
    default:
      return Load<float>(data, index);
  }
}

uint16_t ToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

uint16_t ToFloat16(float value) {
  const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 16) & 0x8000u;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00u);
  // In units of the last place: 2^-24 for subnormals. nearbyint rounds to even, and a mantissa that
  // rounds up to the next power of two carries into the exponent by itself.
  const int exponent = magnitude < 0x1p-14f ? -14 : std::ilogb(magnitude);
  const auto units = static_cast<uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + units));
}

}  // namespace

bool IsFloatDtype(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_FLOAT64 || dtype == MOERT_DTYPE_FLOAT32 ||
         dtype == MOERT_DTYPE_FLOAT16 || dtype == MOERT_DTYPE_BFLOAT16 ||
         dtype == MOERT_DTYPE_FLOAT8_E4M3 || dtype == MOERT_DTYPE_FLOAT8_E5M2;
}

void Widen(const void* data, moert_dtype dtype, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = WidenOne(data, dtype, i);
}

void Narrow(const float* data, int64_t count, moert_dtype dtype, void* out) {
  if (dtype == MOERT_DTYPE_FLOAT32) {
    if (count > 0) std::memcpy(out, data, count * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const uint16_t bits = dtype == MOERT_DTYPE_BFLOAT16 ? ToBfloat16(data[i]) : ToFloat16(data[i]);
    std::memcpy(static_cast<char*>(out) + i * 2, &bits, 2);
  }
}

}  // namespace moert::cli
