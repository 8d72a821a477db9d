// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: refused, or every tensor lies inside it. The first byte says
// whether holes are allowed. The JSON is also tried as an index of shards.
#include <cstring>

#include "manifest/files.h"
#include "manifest/safetensors.h"

namespace {

class BytesFile final : public moert::File {
 public:
  BytesFile(const uint8_t* data, uint64_t size) : data_(data) { size_ = size; }
  moert::Status Read(uint64_t offset, void* buffer, uint64_t bytes) const override {
    if (offset > size_ || bytes > size_ - offset) __builtin_trap();
    memcpy(buffer, data_ + offset, bytes);
    return {};
  }

 private:
  const uint8_t* data_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const BytesFile file(data + 1, size - 1);
  std::vector<moert::SafetensorsTensor> tensors;
  if (moert::ReadSafetensorsHeader("f", file, (data[0] & 1) != 0, &tensors).ok()) {
    for (const moert::SafetensorsTensor& tensor : tensors) {
      if (tensor.offset > file.size() || tensor.bytes > file.size() - tensor.offset) {
        __builtin_trap();
      }
    }
  }
  if (size > 9) {
    std::vector<moert::ShardEntry> entries;
    const std::string_view json(reinterpret_cast<const char*>(data) + 9, size - 9);
    (void)moert::ParseShardIndex("f", json, &entries).ok();
  }
  return 0;
}
