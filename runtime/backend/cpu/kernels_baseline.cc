// SPDX-License-Identifier: Apache-2.0
// The kernels for every CPU of the architecture: SSE2 on x86-64, NEON on aarch64.
#include <math.h>
#include <stddef.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "backend/cpu/kernels.h"

#define MOERT_CPU_LEVEL 0

namespace moert::cpu {
namespace {

#include "backend/cpu/vector.inc"
// After vector.inc.
#include "backend/cpu/kernels.inc"
#include "backend/cpu/route.inc"

}  // namespace

#if defined(__aarch64__)
const Kernels kKernelsBaseline = MakeTable("neon");
#else
const Kernels kKernelsBaseline = MakeTable("baseline");
#endif

}  // namespace moert::cpu
