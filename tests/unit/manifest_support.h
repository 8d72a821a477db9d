// SPDX-License-Identifier: Apache-2.0
// For tests of manifests: a folder that goes away, safetensors files written byte by byte, an
// allocator, and calls that keep the status.
#ifndef MOERT_TESTS_UNIT_MANIFEST_SUPPORT_H_
#define MOERT_TESTS_UNIT_MANIFEST_SUPPORT_H_

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/log.h"
#include "core/status.h"
#include "manifest/manifest.h"

namespace moert {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "moert-manifest-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  const std::string& path() const { return path_; }

  void Write(std::string_view name, std::string_view bytes) const {
    const std::string file = *this / name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  std::string Read(std::string_view name) const {
    std::ifstream stream(*this / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
  }
  // Names of everything in the folder, sorted.
  std::vector<std::string> List() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::string path_;
};

// A safetensors file: header length, header, data.
inline std::string Safetensors(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  return file.append(header).append(data);
}

struct TestTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  int element_bytes = 4;
};

// Tensors in the order given, without holes; byte i of the data is i * 7 + seed.
inline std::string MakeSafetensors(const std::vector<TestTensor>& tensors, int seed = 1) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const TestTensor& tensor : tensors) {
    uint64_t bytes = static_cast<uint64_t>(tensor.element_bytes);
    std::string shape;
    for (const int64_t extent : tensor.shape) {
      bytes *= static_cast<uint64_t>(extent);
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    header += (header.size() == 1 ? "\"" : ",\"") + tensor.name + "\":{\"dtype\":\"" +
              tensor.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(offset) + "," + std::to_string(offset + bytes) + "]}";
    offset += bytes;
  }
  header += "}";
  std::string data(offset, '\0');
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<char>(i * 7 + static_cast<size_t>(seed));
  return Safetensors(header, data);
}

// A mixtral checkpoint of one layer: 3 experts, top 2, hidden 5, intermediate 3.
inline constexpr char kMixtralConfig[] =
    R"({"model_type": "mixtral", "num_hidden_layers": 1, "hidden_size": 5, "intermediate_size": 3,
        "num_local_experts": 3, "num_experts_per_tok": 2, "hidden_act": "silu"})";
inline std::vector<TestTensor> MixtralTensors() {
  const std::string prefix = "model.layers.0.block_sparse_moe.";
  std::vector<TestTensor> tensors = {{"model.embed_tokens.weight", {4, 5}},
                                     {prefix + "gate.weight", {3, 5}}};
  for (int expert = 0; expert < 3; ++expert) {
    const std::string at = prefix + "experts." + std::to_string(expert);
    tensors.push_back({at + ".w1.weight", {3, 5}});
    tensors.push_back({at + ".w2.weight", {5, 3}});
    tensors.push_back({at + ".w3.weight", {3, 5}});
  }
  return tensors;
}

// One runtime's worth of what manifests need.
struct ManifestFixture {
  Allocator allocator{nullptr};
  Logger log{nullptr};
  moert_pack_result packed = MOERT_PACK_RESULT_INIT;
  Owned<Manifest> manifest;

  Status Pack(const std::string& directory, const char* output = nullptr, uint32_t flags = 0,
              const char* family = nullptr, moert_progress_fn progress = nullptr,
              void* user_data = nullptr) {
    moert_pack_desc desc = MOERT_PACK_DESC_INIT;
    desc.directory = directory.c_str();
    desc.output = output;
    desc.flags = flags;
    desc.family_path = family;
    desc.progress = progress;
    desc.user_data = user_data;
    return PackCheckpoint(allocator, log, desc, &packed);
  }
  Status Open(const std::string& path, uint32_t flags = 0, const char* base_dir = nullptr) {
    moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
    desc.path = path.c_str();
    desc.flags = flags;
    desc.base_dir = base_dir;
    manifest.reset();
    return Manifest::Open(allocator, log, desc, &manifest);
  }
  Status OpenBytes(std::string_view bytes, const std::string& base_dir) {
    moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
    desc.data = bytes.data();
    desc.size = bytes.size();
    desc.base_dir = base_dir.c_str();
    manifest.reset();
    return Manifest::Open(allocator, log, desc, &manifest);
  }
};

inline void CheckOk(const Status& status) {
  INFO(std::string(status.message()));
  REQUIRE(status.code() == MOERT_STATUS_OK);
}
// A failure with that code, whose message holds `part`.
inline void CheckFails(const Status& status, moert_status code, std::string_view part) {
  INFO(std::string(status.message()));
  INFO(std::string(part));
  CHECK(status.code() == code);
  CHECK(std::string_view(status.message()).find(part) != std::string_view::npos);
}
inline void CheckCorrupt(const Status& status, moert_corruption what, std::string_view part) {
  CheckFails(status, MOERT_STATUS_CORRUPT_DATA, part);
  CHECK(status.native_code() == what);
}

}  // namespace moert

#endif  // MOERT_TESTS_UNIT_MANIFEST_SUPPORT_H_
