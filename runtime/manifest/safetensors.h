// SPDX-License-Identifier: Apache-2.0
// Reads the header of a safetensors file without trusting it: every field, offset and size is
// checked, and each refusal has a moert_corruption code of its own and names the tensor.
#ifndef MOERT_MANIFEST_SAFETENSORS_H_
#define MOERT_MANIFEST_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "manifest/files.h"
#include "moert/moert.h"

namespace moert {

struct SafetensorsTensor {
  std::string name;
  moert_dtype dtype = MOERT_DTYPE_NONE;
  std::vector<int64_t> shape;
  uint64_t offset = 0;  // in the file
  uint64_t bytes = 0;
};

// The longest header that is read, the limit of the format's own library.
constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

// A header's JSON; data begins at 8 + json.size() of a file of `file_size` bytes. `name` is the
// file's, for messages. Holes, bytes that belong to no tensor, are refused unless allowed. Tensors
// come in the header's order.
Status ParseSafetensorsHeader(const char* name, std::string_view json, uint64_t file_size,
                              bool allow_holes, std::vector<SafetensorsTensor>* out);
Status ReadSafetensorsHeader(const char* name, const File& file, bool allow_holes,
                             std::vector<SafetensorsTensor>* out);

// Elements and bytes of a tensor. False on overflow, or on bits that fill no whole byte.
bool TensorBytes(moert_dtype dtype, const int64_t* shape, uint64_t rank, uint64_t* elements,
                 uint64_t* bytes);

// The weight_map of a model.safetensors.index.json: tensor name and shard.
struct ShardEntry {
  std::string tensor;
  std::string shard;
};
Status ParseShardIndex(const char* name, std::string_view json, std::vector<ShardEntry>* out);

}  // namespace moert

#endif  // MOERT_MANIFEST_SAFETENSORS_H_
