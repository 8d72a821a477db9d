// SPDX-License-Identifier: Apache-2.0
// The kernels for AVX-512 F, BW, DQ, VL and BF16; compiled with those flags (CMakeLists.txt).
#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <stddef.h>

#include "backend/cpu/kernels.h"

#define MOERT_CPU_LEVEL 3

namespace moert::cpu {
namespace {

#include "backend/cpu/vector.inc"
// After vector.inc.
#include "backend/cpu/kernels.inc"
#include "backend/cpu/route.inc"

}  // namespace

const Kernels kKernelsAvx512Bf16 = MakeTable("avx512_bf16");

}  // namespace moert::cpu

#endif  // __x86_64__
