// SPDX-License-Identifier: Apache-2.0
// Any bytes as a manifest: refused, or sound enough to be looked at in every way. The files that it
// names are made up with the sizes that it says.
#include <cstring>

#include "core/allocator.h"
#include "core/log.h"
#include "manifest/check.h"
#include "manifest/manifest.h"

namespace {

constexpr uint64_t kMaxFile = 1 << 20;

// A file of the size that the manifest under test gives it, filled with zeros.
int32_t Open(void* manifest, const char* path, void** file, uint64_t* size) {
  for (const auto* entry : *static_cast<const moert::schema::Manifest*>(manifest)->files()) {
    if (strcmp(entry->path()->c_str(), path) == 0) *size = entry->bytes();
  }
  *file = nullptr;
  return *size > kMaxFile ? 1 : 0;
}
int32_t Read(void*, void*, uint64_t, void* buffer, uint64_t bytes) {
  memset(buffer, 0, bytes);
  return 0;
}
void Close(void*, void*) {}

void Look(moert::Allocator& allocator, const moert::Manifest& manifest) {
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  manifest.Info(&info);
  volatile uint8_t sum = 0;
  for (uint64_t i = 0; i < info.num_tensors; ++i) {
    moert_tensor_info tensor = MOERT_TENSOR_INFO_INIT;
    if (!manifest.Tensor(i, &tensor).ok()) __builtin_trap();
    uint64_t found = 0;
    if (!manifest.FindTensor(tensor.name, &found).ok() || found != i) __builtin_trap();
    const void* data = nullptr;
    if (!manifest.TensorData(i, &data).ok() || tensor.bytes == 0) continue;
    const auto* bytes = static_cast<const uint8_t*>(data);
    sum = static_cast<uint8_t>(sum + bytes[0] + bytes[tensor.bytes - 1]);
  }
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    moert_layer_info layer = MOERT_LAYER_INFO_INIT;
    if (!manifest.LayerInfo(i, &layer).ok()) __builtin_trap();
    for (uint32_t w = 0; w < layer.num_weights; ++w) {
      moert_weight_info weight = MOERT_WEIGHT_INFO_INIT;
      if (!manifest.LayerWeight(i, w, &weight).ok()) __builtin_trap();
    }
    moert::ManifestLayer out(&allocator);
    (void)manifest.Layer(i, {}, &out).ok();
  }
  (void)manifest.Verify(nullptr, nullptr).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  moert::Allocator allocator(nullptr);
  const moert::Logger log(nullptr);
  // A copy that is aligned as the library's own is, for the sizes of the files.
  moert::Buffer copy;
  if (size == 0 || !copy.Allocate(allocator, size)) return 0;
  memcpy(copy.data(), data, size);
  const moert::schema::Manifest* checked = nullptr;
  if (!moert::CheckManifest(copy.data(), size, &checked).ok()) return 0;
  moert_file_source source = MOERT_FILE_SOURCE_INIT;
  source.user_data = const_cast<moert::schema::Manifest*>(checked);
  source.open = Open;
  source.read = Read;
  source.close = Close;
  moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
  desc.data = data;
  desc.size = size;
  desc.files = &source;
  moert::Owned<moert::Manifest> manifest;
  if (moert::Manifest::Open(allocator, log, desc, &manifest).ok()) Look(allocator, *manifest);
  return 0;
}
