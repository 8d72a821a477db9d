// SPDX-License-Identifier: Apache-2.0
#include "numbers.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace moert::test {
namespace {

// A 16-bit float format.
struct Format {
  int mantissa_bits;
  int exponent_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

Format FormatOf(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_BFLOAT16 ? Format{7, 8} : Format{10, 5};
}

uint16_t EncodeHalf(Format format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int infinity = ((1 << format.exponent_bits) - 1) << format.mantissa_bits;
  if (std::isnan(value))
    return static_cast<uint16_t>(sign | infinity | 1 << (format.mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | infinity);
  const int exponent = std::max(std::ilogb(magnitude), 1 - format.bias());
  const double steps = std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent));
  // A subnormal has the least exponent and fewer steps than 2^mantissa_bits; a carry moves up by
  // itself.
  const double code = std::ldexp(exponent + format.bias() - 1, format.mantissa_bits) + steps;
  return static_cast<uint16_t>(sign | static_cast<int>(std::min<double>(code, infinity)));
}

double DecodeHalf(Format format, uint16_t bits) {
  const int mantissa = bits & ((1 << format.mantissa_bits) - 1);
  const int exponent = (bits & 0x7fff) >> format.mantissa_bits;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << format.exponent_bits) - 1) {
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  const int implied = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return sign * std::ldexp(implied + mantissa,
                           std::max(exponent, 1) - format.bias() - format.mantissa_bits);
}

uint64_t FreshSeed() {
  const char* given = std::getenv("MOERT_TEST_SEED");
  if (given != nullptr) return std::strtoull(given, nullptr, 0);
  std::random_device device;
  return device();
}

}  // namespace

Mat RowVector(std::vector<double> values) {
  const auto cols = static_cast<int64_t>(values.size());
  return Mat(1, cols, std::move(values));
}

size_t DtypeBytes(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_BFLOAT16 || dtype == MOERT_DTYPE_FLOAT16 ? 2 : 4;
}

double RoundTo(moert_dtype dtype, double value) {
  if (dtype == MOERT_DTYPE_FLOAT32) return static_cast<float>(value);
  return DecodeHalf(FormatOf(dtype), EncodeHalf(FormatOf(dtype), value));
}

Mat RoundTo(moert_dtype dtype, Mat values) {
  for (double& value : values.v) value = RoundTo(dtype, value);
  return values;
}

void Encode(moert_dtype dtype, double value, void* element) {
  if (dtype == MOERT_DTYPE_FLOAT32) {
    const auto single = static_cast<float>(value);
    std::memcpy(element, &single, sizeof single);
  } else {
    const uint16_t half = EncodeHalf(FormatOf(dtype), value);
    std::memcpy(element, &half, sizeof half);
  }
}

double Decode(moert_dtype dtype, const void* element) {
  if (dtype == MOERT_DTYPE_FLOAT32) {
    float single;
    std::memcpy(&single, element, sizeof single);
    return single;
  }
  uint16_t half;
  std::memcpy(&half, element, sizeof half);
  return DecodeHalf(FormatOf(dtype), half);
}

double RelativeError(const Mat& got, const Mat& want) {
  if (got.rows != want.rows || got.cols != want.cols)
    return std::numeric_limits<double>::infinity();
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < want.v.size(); ++i) {
    if (std::isnan(got.v[i]) && std::isnan(want.v[i])) continue;
    if (got.v[i] == want.v[i] && std::isinf(want.v[i])) continue;
    difference += (got.v[i] - want.v[i]) * (got.v[i] - want.v[i]);
    size += want.v[i] * want.v[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / size);
}

double Tolerance(moert_dtype dtype) {
  if (dtype == MOERT_DTYPE_FLOAT32) return 1e-5;
  return dtype == MOERT_DTYPE_BFLOAT16 ? 1e-2 : 2e-3;
}

Rng::Rng() : Rng(FreshSeed()) {}

int64_t Rng::Int(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(engine_);
}

bool Rng::Chance(double probability) { return Uniform(0, 1) < probability; }

double Rng::Uniform(double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(engine_);
}

double Rng::Normal() { return std::normal_distribution<double>()(engine_); }

Mat Rng::NormalMat(int64_t rows, int64_t cols, double scale, moert_dtype dtype) {
  Mat out(rows, cols);
  for (double& value : out.v) value = RoundTo(dtype, scale * Normal());
  return out;
}

int Scaled(int count) {
  const char* given = std::getenv("MOERT_TEST_SCALE");
  const double scale = given != nullptr ? std::strtod(given, nullptr) : 1.0;
  return std::max(1, static_cast<int>(count * scale));
}

}  // namespace moert::test
