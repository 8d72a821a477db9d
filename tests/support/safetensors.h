// SPDX-License-Identifier: Apache-2.0
// A reader of safetensors files for tests, apart from the library's: FLOAT32 tensors as doubles.
#ifndef MOERT_TESTS_SUPPORT_SAFETENSORS_H_
#define MOERT_TESTS_SUPPORT_SAFETENSORS_H_

#include <map>
#include <string>

#include "numbers.h"

namespace moert::test {

// The file's FLOAT32 tensors by name, the first extent as rows. Throws std::runtime_error.
std::map<std::string, Mat> ReadSafetensors(const std::string& path);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_SAFETENSORS_H_
