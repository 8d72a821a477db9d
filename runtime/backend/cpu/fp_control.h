// SPDX-License-Identifier: Apache-2.0
// The floating-point control word of a task: saved, set to round-to-nearest with denormals kept and
// exceptions masked, and restored, whatever the host's thread had.
#ifndef MOERT_BACKEND_CPU_FP_CONTROL_H_
#define MOERT_BACKEND_CPU_FP_CONTROL_H_

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace moert::cpu {

class FpControl {
 public:
#if defined(__x86_64__)
  FpControl() : saved_(_mm_getcsr()) { Set(kMaskedNearest); }
  ~FpControl() { Set(static_cast<uint32_t>(saved_)); }

 private:
  static constexpr uint32_t kMaskedNearest = 0x1f80;
  static void Set(uint32_t value) {
    if (_mm_getcsr() != value) _mm_setcsr(value);
  }
#elif defined(__aarch64__)
  FpControl() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
  }
  ~FpControl() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
#endif
  FpControl(const FpControl&) = delete;
  FpControl& operator=(const FpControl&) = delete;

  uint64_t saved_ = 0;
};

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_FP_CONTROL_H_
