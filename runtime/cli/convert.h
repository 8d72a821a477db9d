// SPDX-License-Identifier: Apache-2.0
// Conversion between float32 and the float formats that tensors are stored in.
#ifndef MOERT_CLI_CONVERT_H_
#define MOERT_CLI_CONVERT_H_

#include <cstdint>

#include "moert/moert.h"

namespace moert::cli {

// Whether Widen takes it: the 64-, 32- and 16-bit formats, and the two 8-bit ones with a sign.
bool IsFloatDtype(moert_dtype dtype);

// Every element as float32; float64 is rounded. `data` need not be aligned.
void Widen(const void* data, moert_dtype dtype, int64_t count, float* out);

// To a compute dtype, rounded to nearest even.
void Narrow(const float* data, int64_t count, moert_dtype dtype, void* out);

}  // namespace moert::cli

#endif  // MOERT_CLI_CONVERT_H_
