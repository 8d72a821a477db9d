// SPDX-License-Identifier: Apache-2.0
// Times packing and opening of a checkpoint of 100,000 tiny tensors (87 layers of 384 experts),
// made in a temporary folder, as: manifest_bench [LAYERS]. Prints milliseconds, the best of five.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/allocator.h"
#include "core/log.h"
#include "manifest/manifest.h"

namespace {

constexpr int kExperts = 384;

// Layers of the qwen3_moe family, hidden and intermediate 2.
void WriteCheckpoint(const std::string& folder, int layers) {
  std::ofstream(folder + "/config.json")
      << R"({"model_type": "qwen3_moe", "hidden_size": 2, "moe_intermediate_size": 2, "num_experts": )"
      << kExperts << R"(, "num_experts_per_tok": 8, "num_hidden_layers": )" << layers << "}";
  std::string header = "{";
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, int rows) {
    const uint64_t end = offset + static_cast<uint64_t>(rows) * 2 * 2;
    header += (header.size() == 1 ? "\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" +
              std::to_string(rows) + ",2],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(end) + "]}";
    offset = end;
  };
  for (int layer = 0; layer < layers; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
    add(at + "gate.weight", kExperts);
    for (int expert = 0; expert < kExperts; ++expert) {
      for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
        add(at + "experts." + std::to_string(expert) + "." + part + ".weight", 2);
      }
    }
  }
  header += "}";
  const uint64_t length = header.size();
  std::ofstream file(folder + "/model.safetensors", std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file << header << std::string(offset, '\0');
}

// Milliseconds of the fastest of five runs; ends the program if one fails.
template <class F>
double Best(const F& run) {
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const moert::Status status = run();
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    if (!status.ok()) {
      fprintf(stderr, "%s\n", status.message());
      exit(1);
    }
    best = std::min(best, spent.count());
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "manifest_bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  WriteCheckpoint(folder, argc > 1 ? atoi(argv[1]) : 87);
  moert::Allocator allocator(nullptr);
  const moert::Logger log(nullptr);
  moert_pack_result result = MOERT_PACK_RESULT_INIT;
  moert_pack_desc pack = MOERT_PACK_DESC_INIT;
  pack.directory = folder.c_str();
  pack.flags = MOERT_PACK_FLAG_SKIP_HASHES;
  const double unhashed =
      Best([&] { return moert::PackCheckpoint(allocator, log, pack, &result); });
  pack.flags = 0;
  const double hashed = Best([&] { return moert::PackCheckpoint(allocator, log, pack, &result); });
  const std::string path = folder + "/model.moem";
  moert_manifest_desc open = MOERT_MANIFEST_DESC_INIT;
  open.path = path.c_str();
  const double opened = Best([&] {
    moert::Owned<moert::Manifest> manifest;
    return moert::Manifest::Open(allocator, log, open, &manifest);
  });
  printf(
      "tensors %llu  pack_ms %.1f  pack_with_hashes_ms %.1f  open_ms %.1f  manifest_bytes %llu\n",
      static_cast<unsigned long long>(result.num_tensors), unhashed, hashed, opened,
      static_cast<unsigned long long>(std::filesystem::file_size(path)));
  std::filesystem::remove_all(folder);
  return 0;
}
