// SPDX-License-Identifier: Apache-2.0
// Number formats and random numbers of the tests, written apart from the library's own: formats by
// arithmetic on doubles, random numbers with a seed that a failure prints.
#ifndef MOERT_TESTS_SUPPORT_NUMBERS_H_
#define MOERT_TESTS_SUPPORT_NUMBERS_H_

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "moert/moert.h"

namespace moert::test {

// A row-major matrix of doubles; a vector has one row.
struct Mat {
  Mat() = default;
  Mat(int64_t rows_in, int64_t cols_in) : rows(rows_in), cols(cols_in) {
    v.assign(static_cast<size_t>(rows * cols), 0.0);
  }
  Mat(int64_t rows_in, int64_t cols_in, std::vector<double> values)
      : rows(rows_in), cols(cols_in), v(std::move(values)) {}
  double& operator()(int64_t r, int64_t c) { return v[static_cast<size_t>(r * cols + c)]; }
  double operator()(int64_t r, int64_t c) const { return v[static_cast<size_t>(r * cols + c)]; }
  bool empty() const { return v.empty(); }

  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<double> v;
};
Mat RowVector(std::vector<double> values);

using Ints = std::vector<int32_t>;

// Bytes of an element of a compute dtype or INT32.
size_t DtypeBytes(moert_dtype dtype);
// The nearest value of a compute dtype, ties to even.
double RoundTo(moert_dtype dtype, double value);
Mat RoundTo(moert_dtype dtype, Mat values);
// Writes or reads one element at any address.
void Encode(moert_dtype dtype, double value, void* element);
double Decode(moert_dtype dtype, const void* element);

// ||got - want|| / ||want||, 0 when both are zero; NaN or infinity where `got` has what `want` has
// not.
double RelativeError(const Mat& got, const Mat& want);
// The bound of DESIGN on RelativeError for results of that dtype.
double Tolerance(moert_dtype dtype);

// The seed is MOERT_TEST_SEED if that is set, else fresh; tests CAPTURE it.
class Rng {
 public:
  Rng();
  explicit Rng(uint64_t seed_in) : seed(seed_in), engine_(seed_in) {}
  int64_t Int(int64_t low, int64_t high);  // both included
  bool Chance(double probability);
  double Uniform(double low, double high);
  double Normal();
  Mat NormalMat(int64_t rows, int64_t cols, double scale, moert_dtype dtype);
  template <class T>
  T Pick(std::initializer_list<T> values) {
    return values.begin()[Int(0, static_cast<int64_t>(values.size()) - 1)];
  }

  const uint64_t seed;

 private:
  std::mt19937_64 engine_;
};

// `count` scaled by MOERT_TEST_SCALE (1 unless set), at least 1: fewer rounds under sanitizers.
int Scaled(int count);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_NUMBERS_H_
