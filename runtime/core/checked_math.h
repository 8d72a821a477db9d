// SPDX-License-Identifier: Apache-2.0
// Products and sums of sizes that come from outside: false on overflow.
#ifndef MOERT_CORE_CHECKED_MATH_H_
#define MOERT_CORE_CHECKED_MATH_H_

#include <cstdint>

namespace moert {

template <class T>
[[nodiscard]] bool CheckedAdd(T a, T b, T* out) {
  return !__builtin_add_overflow(a, b, out);
}
template <class T>
[[nodiscard]] bool CheckedMultiply(T a, T b, T* out) {
  return !__builtin_mul_overflow(a, b, out);
}
constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace moert

#endif  // MOERT_CORE_CHECKED_MATH_H_
