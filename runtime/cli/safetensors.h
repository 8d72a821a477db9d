// SPDX-License-Identifier: Apache-2.0
// One tensor out of a safetensors file, and a safetensors file written whole or not at all.
#ifndef MOERT_CLI_SAFETENSORS_H_
#define MOERT_CLI_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

struct Tensor {
  std::string name;
  moert_dtype dtype = MOERT_DTYPE_NONE;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

// Reads one tensor; the header is checked as far as that tensor needs.
Status ReadTensor(const std::string& path, const std::string& name, Tensor* out);

// As WriteWholeFile.
Status WriteTensors(const std::string& path, std::span<const Tensor> tensors);

}  // namespace moert::cli

#endif  // MOERT_CLI_SAFETENSORS_H_
