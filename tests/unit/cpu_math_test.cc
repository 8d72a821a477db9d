// SPDX-License-Identifier: Apache-2.0
// The vector functions and conversions of each instruction level, against double precision and the
// scalar conversions.
#include <cmath>
#include <limits>

#include "unit/cpu_support.h"

namespace moert::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the wanted value, denormals included.
double Ulps(float got, double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : 1e9;
  const auto nearest = static_cast<float>(want);
  if (got == nearest) return 0;
  if (std::isinf(got) || std::isinf(nearest)) return 1e9;
  const double unit = std::max(std::ldexp(1.0, std::ilogb(want) - 23), std::ldexp(1.0, -149));
  return std::fabs(static_cast<double>(got) - want) / unit;
}

struct Function {
  const char* name;
  void (*cpu::Kernels::*run)(float*, int64_t);
  double (*exact)(double);
  double ulps;
};

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double NormalCdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }

const Function kFunctions[] = {
    {"exp", &cpu::Kernels::exp, [](double x) { return std::exp(x); }, 2},
    {"sigmoid", &cpu::Kernels::sigmoid, Sigmoid, 4},
    {"tanh", &cpu::Kernels::tanh, [](double x) { return std::tanh(x); }, 4},
    {"normal_cdf", &cpu::Kernels::normal_cdf, NormalCdf, 8},
};

TEST_CASE("the functions are accurate over their range, and right where it ends") {
  Random random;
  CAPTURE(random.seed);
  std::vector<float> inputs = {0.0f,    -0.0f,    1e-45f, -1e-45f,   1e-38f,     -87.3f,
                               -87.4f,  -88.0f,   -95.0f, -100.0f,   -103.0f,    -103.9f,
                               -104.0f, -1000.0f, 88.7f,  88.73f,    89.0f,      1000.0f,
                               1e30f,   -1e30f,   3e38f,  kInfinity, -kInfinity, kNan};
  for (float scale : {1e-4f, 0.3f, 2.0f, 10.0f, 50.0f}) {
    for (int i = 0; i < 4000; ++i) inputs.push_back(random.Normal(scale));
  }
  for (const cpu::Kernels* kernels : Levels()) {
    for (const Function& function : kFunctions) {
      CAPTURE(kernels->name);
      CAPTURE(function.name);
      std::vector<float> values = inputs;
      (kernels->*function.run)(values.data(), static_cast<int64_t>(values.size()));
      double worst = 0;
      float worst_at = 0;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const double ulps = Ulps(values[i], function.exact(inputs[i]));
        if (ulps > worst) worst = ulps, worst_at = inputs[i];
      }
      CAPTURE(worst_at);
      CHECK(worst <= function.ulps);
    }
  }
}

TEST_CASE("the sigmoid of -100 is the denormal that it is") {
  for (const cpu::Kernels* kernels : Levels()) {
    float value = -100.0f;
    kernels->sigmoid(&value, 1);
    CHECK(value == doctest::Approx(3.7835e-44).epsilon(0.05));
    CHECK(value > 0);
  }
}

TEST_CASE("every 16-bit value widens as the scalar conversion says, and narrows back to itself") {
  std::vector<uint16_t> bits(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  for (const cpu::Kernels* kernels : Levels()) {
    CAPTURE(kernels->name);
    for (moert_dtype dtype : {MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16}) {
      std::vector<float> wide(bits.size());
      std::vector<uint16_t> back(bits.size());
      kernels->load(wide.data(), bits.data(), dtype, 1, 65536);
      kernels->store(back.data(), dtype, wide.data(), false, 65536);
      int wrong = 0;
      for (size_t i = 0; i < bits.size(); ++i) {
        const float want = LoadFloat(bits.data(), dtype, static_cast<int64_t>(i));
        if (std::isnan(want)) {
          wrong += !std::isnan(wide[i]) || !std::isnan(LoadFloat(&back[i], dtype, 0));
        } else {
          wrong += std::memcmp(&want, &wide[i], 4) != 0 || back[i] != bits[i];
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("floats narrow to the nearest 16-bit value, ties to even") {
  Random random;
  CAPTURE(random.seed);
  std::vector<float> values = {65504.0f, 65519.99f, 65520.0f,  65536.0f,  -65520.0f,
                               1e38f,    6e-8f,     2.98e-8f,  2.99e-8f,  5.96e-8f,
                               6.1e-5f,  3.39e38f,  kInfinity, -kInfinity};
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<uint32_t>(random.engine());
    float value;
    std::memcpy(&value, &bits, 4);
    if (!std::isnan(value)) values.push_back(value);
    values.push_back(std::ldexp(1.0f + static_cast<float>(random.Int(0, 4095)) / 4096.0f,
                                static_cast<int>(random.Int(-28, 17))));
  }
  const auto n = static_cast<int64_t>(values.size());
  for (const cpu::Kernels* kernels : Levels()) {
    CAPTURE(kernels->name);
    std::vector<uint16_t> out(values.size());
    kernels->store(out.data(), MOERT_DTYPE_FLOAT16, values.data(), false, n);
    int wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) wrong += out[i] != FloatToFloat16(values[i]);
    CHECK(wrong == 0);
    kernels->store(out.data(), MOERT_DTYPE_BFLOAT16, values.data(), false, n);
    wrong = 0;
    for (size_t i = 0; i < values.size(); ++i) wrong += out[i] != FloatToBfloat16(values[i]);
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace moert::test
