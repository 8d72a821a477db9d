// SPDX-License-Identifier: Apache-2.0
// Opening a manifest: each fault of its bytes has its own code and is named, and files come from
// the disk, from memory or from the host.
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "manifest/check.h"
#include "manifest_generated.h"
#include "manifest_support.h"

namespace moert {
namespace {

// A packed mixtral checkpoint whose manifest can be changed at will.
struct Packed {
  TemporaryFolder folder;
  ManifestFixture fixture;
  std::string bytes;

  Packed() {
    folder.Write("config.json", kMixtralConfig);
    folder.Write("model.safetensors", MakeSafetensors(MixtralTensors()));
    CheckOk(fixture.Pack(folder.path()));
    bytes = folder.Read("model.moem");
  }

  Status Open(const std::string& manifest) { return fixture.OpenBytes(manifest, folder.path()); }
  Status OpenChanged(const std::function<void(schema::ManifestT&)>& change) {
    const std::unique_ptr<schema::ManifestT> manifest = schema::UnPackManifest(bytes.data());
    change(*manifest);
    flatbuffers::FlatBufferBuilder builder;
    schema::FinishManifestBuffer(builder, schema::CreateManifest(builder, manifest.get()));
    return Open(
        std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()));
  }
};

using Change = std::function<void(schema::ManifestT&)>;

schema::WeightT& WeightOf(schema::ManifestT& manifest, schema::Role role) {
  for (auto& weight : manifest.layers[0]->weights) {
    if (weight->role == role) return *weight;
  }
  FAIL("no such role");
  return *manifest.layers[0]->weights[0];
}

TEST_CASE("bytes that are no manifest are refused") {
  Packed packed;
  CheckOk(packed.Open(packed.bytes));
  CheckCorrupt(packed.Open("MOEM"), MOERT_CORRUPTION_TRUNCATED, "4");
  CheckCorrupt(packed.Open(std::string(64, 'x')), MOERT_CORRUPTION_IDENTIFIER, "MOEM");
  std::string other = packed.bytes;
  other[4] = 'N';
  CheckCorrupt(packed.Open(other), MOERT_CORRUPTION_IDENTIFIER, "MOEM");
  const uint32_t size = static_cast<uint32_t>(packed.bytes.size());
  CheckCorrupt(packed.Open(std::string(reinterpret_cast<const char*>(&size), 4) + packed.bytes),
               MOERT_CORRUPTION_IDENTIFIER, "MOEM");
  std::string root = packed.bytes;
  root[3] = '\x7f';
  CheckCorrupt(packed.Open(root), MOERT_CORRUPTION_STRUCTURE, "verifier");
}

TEST_CASE("a manifest cut anywhere is refused or complete, and never read past its end") {
  Packed packed;
  for (size_t size = 0; size < packed.bytes.size(); ++size) {
    // Its own block, so that a sanitizer sees a read past the end.
    const std::string cut(packed.bytes.data(), size);
    const Status status = packed.Open(cut);
    // The last bytes may be padding.
    CHECK((status.code() == MOERT_STATUS_CORRUPT_DATA ||
           (status.ok() && size + 4 > packed.bytes.size())));
  }
}

TEST_CASE("random damage never does more than fail") {
  Packed packed;
  const uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = packed.bytes;
    for (uint32_t i = random() % 4 + 1; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const Status status = packed.Open(bytes);
    if (!status.ok()) CHECK(status.message()[0] != '\0');
  }
}

TEST_CASE("each fault of a manifest has its code and is named") {
  Packed packed;
  const schema::Role kUp = schema::Role::ExpertUp;
  const struct {
    moert_corruption code;
    const char* part;
    Change change;
  } cases[] = {
      {MOERT_CORRUPTION_FEATURE, "'time-travel'",
       [](auto& m) { m.required_features.push_back("time-travel"); }},
      {MOERT_CORRUPTION_PATH, "'../model.safetensors'",
       [](auto& m) { m.files[0]->path = "../model.safetensors"; }},
      {MOERT_CORRUPTION_PATH, "'/etc/passwd'", [](auto& m) { m.files[0]->path = "/etc/passwd"; }},
      {MOERT_CORRUPTION_PATH, "empty", [](auto& m) { m.files[0]->path = ""; }},
      {MOERT_CORRUPTION_OVERFLOW, "63 bits", [](auto& m) { m.files[0]->bytes = UINT64_MAX; }},
      {MOERT_CORRUPTION_DUPLICATE_KEY, "stands twice",
       [](auto& m) { m.tensors[1]->name = m.tensors[0]->name; }},
      {MOERT_CORRUPTION_FIELD, "ascending", [](auto& m) { m.tensors[1]->name = "a"; }},
      {MOERT_CORRUPTION_FIELD, "NUL", [](auto& m) { m.tensors[1]->name.push_back('\0'); }},
      {MOERT_CORRUPTION_INDEX, "file 1 of 1", [](auto& m) { m.tensors[0]->file = 1; }},
      {MOERT_CORRUPTION_DTYPE, "dtype 99",
       [](auto& m) { m.tensors[0]->dtype = static_cast<schema::Dtype>(99); }},
      {MOERT_CORRUPTION_FIELD, "extent 0 is -4", [](auto& m) { m.tensors[0]->shape[0] = -4; }},
      {MOERT_CORRUPTION_OVERFLOW, "64 bits",
       [](auto& m) {
         m.tensors[0]->shape = {INT64_MAX, INT64_MAX};
       }},
      {MOERT_CORRUPTION_SIZE_MISMATCH, "shape and dtype give 100",
       [](auto& m) {
         m.tensors[0]->shape = {5, 5};
       }},
      {MOERT_CORRUPTION_OVERFLOW, "passes 64 bits",
       [](auto& m) { m.tensors[0]->offset = UINT64_MAX; }},
      {MOERT_CORRUPTION_OFFSETS, "ends at byte",
       [](auto& m) { m.tensors[0]->offset = m.files[0]->bytes - 1; }},
      {MOERT_CORRUPTION_FIELD, "layer -2", [](auto& m) { m.layers[0]->model_layer = -2; }},
      {MOERT_CORRUPTION_FIELD, "hidden", [](auto& m) { m.layers[0]->hidden = 0; }},
      {MOERT_CORRUPTION_FIELD, "latent", [](auto& m) { m.layers[0]->latent = -1; }},
      {MOERT_CORRUPTION_FIELD, "top_k is 4", [](auto& m) { m.layers[0]->routing->top_k = 4; }},
      {MOERT_CORRUPTION_FIELD, "num_experts is 0",
       [](auto& m) { m.layers[0]->routing->num_experts = 0; }},
      {MOERT_CORRUPTION_FIELD, "num_groups is 2",
       [](auto& m) { m.layers[0]->routing->num_groups = 2; }},
      {MOERT_CORRUPTION_FIELD, "routed_scaling_factor",
       [](auto& m) { m.layers[0]->routing->routed_scaling_factor = NAN; }},
      {MOERT_CORRUPTION_DTYPE, "score 9",
       [](auto& m) { m.layers[0]->routing->score = static_cast<schema::Score>(9); }},
      {MOERT_CORRUPTION_DTYPE, "activation",
       [](auto& m) { m.layers[0]->activation->kind = static_cast<schema::ActivationKind>(-1); }},
      {MOERT_CORRUPTION_FIELD, "not finite",
       [](auto& m) { m.layers[0]->activation->limit = INFINITY; }},
      {MOERT_CORRUPTION_ROLES, "EXPERT_GATE stands twice",
       [=](auto& m) { WeightOf(m, kUp).role = schema::Role::ExpertGate; }},
      {MOERT_CORRUPTION_DTYPE, "role 77",
       [=](auto& m) { WeightOf(m, kUp).role = static_cast<schema::Role>(77); }},
      {MOERT_CORRUPTION_ROLES, "ROUTER is missing",
       [](auto& m) { m.layers[0]->weights.erase(m.layers[0]->weights.begin()); }},
      {MOERT_CORRUPTION_ROLES, "SHARED_GATE is missing",
       [](auto& m) { m.layers[0]->shared_intermediate = 4; }},
      {MOERT_CORRUPTION_ROLES, "the layer needs [3, 5]",
       [=](auto& m) { WeightOf(m, kUp).rows = 4; }},
      {MOERT_CORRUPTION_ROLES, "2 tensors", [=](auto& m) { WeightOf(m, kUp).tensors.pop_back(); }},
      {MOERT_CORRUPTION_INDEX, "tensor 11 of 11",
       [=](auto& m) { WeightOf(m, kUp).tensors[1] = 11; }},
      {MOERT_CORRUPTION_ROLES, "for two experts",
       [=](auto& m) { WeightOf(m, kUp).tensors[1] = WeightOf(m, kUp).tensors[0]; }},
      {MOERT_CORRUPTION_ROLES, "experts.0.w2.weight",
       [=](auto& m) { WeightOf(m, kUp).tensors = WeightOf(m, schema::Role::ExpertDown).tensors; }},
      {MOERT_CORRUPTION_ROLES, "3 times [3, 5]", [=](auto& m) { WeightOf(m, kUp).tensors = {1}; }},
      {MOERT_CORRUPTION_ROLES, "is BF16",
       [=](auto& m) { WeightOf(m, kUp).dtype = schema::Dtype::Bfloat16; }},
      {MOERT_CORRUPTION_DTYPE, "orientation 5",
       [=](auto& m) { WeightOf(m, kUp).orientation = static_cast<schema::Orientation>(5); }},
      {MOERT_CORRUPTION_ROLES, "quant without a scheme", [=](auto& m) {
         schema::WeightT& weight = WeightOf(m, kUp);
         weight.quant = std::make_unique<schema::QuantT>();
         weight.quant->storage_elements = 1;
         weight.quant->storage_bytes = 4;
         weight.quant->scales = weight.tensors;
       }}};
  for (const auto& entry : cases)
    CheckCorrupt(packed.OpenChanged(entry.change), entry.code, entry.part);
}

TEST_CASE("strings and lists that are shared to cost time are refused") {
  // Tensors that all use one long name, and layers' lists by the thousand, in few bytes.
  flatbuffers::FlatBufferBuilder builder;
  const auto path = builder.CreateString(std::string(4000, 'p'));
  std::vector<flatbuffers::Offset<schema::File>> files(20000, schema::CreateFile(builder, path, 1));
  const auto name = builder.CreateString("x");
  const auto files_offset = builder.CreateVector(files);
  const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<schema::Tensor>>());
  const auto layers = builder.CreateVector(std::vector<flatbuffers::Offset<schema::Layer>>());
  schema::FinishManifestBuffer(
      builder, schema::CreateManifest(builder, 0, name, name, files_offset, tensors, layers));
  const schema::Manifest* manifest = nullptr;
  CheckCorrupt(CheckManifest(builder.GetBufferPointer(), builder.GetSize(), &manifest),
               MOERT_CORRUPTION_STRUCTURE, "");
}

TEST_CASE("a vector that claims more than the buffer holds is refused") {
  Packed packed;
  const schema::Manifest* manifest = schema::GetManifest(packed.bytes.data());
  for (const void* vector :
       {static_cast<const void*>(manifest->tensors()), static_cast<const void*>(manifest->layers()),
        static_cast<const void*>(manifest->files()->Get(0)->path())}) {
    std::string bytes = packed.bytes;
    const size_t at = static_cast<size_t>(static_cast<const char*>(vector) - packed.bytes.data());
    const uint32_t count = 1u << 30;
    memcpy(bytes.data() + at, &count, sizeof count);
    CheckCorrupt(packed.Open(bytes), MOERT_CORRUPTION_STRUCTURE, "verifier");
  }
}

// A host whose files are strings; `fail` makes one of its calls fail.
struct Host {
  std::map<std::string, std::string> files;
  std::string fail;
  int open = 0;
  int reads = 0;
};
int32_t HostOpen(void* user_data, const char* path, void** file, uint64_t* size) {
  auto& host = *static_cast<Host*>(user_data);
  const auto found = host.files.find(path);
  if (host.fail == "open" || found == host.files.end()) return 41;
  ++host.open;
  *file = &found->second;
  *size = found->second.size();
  return 0;
}
int32_t HostRead(void* user_data, void* file, uint64_t offset, void* buffer, uint64_t bytes) {
  auto& host = *static_cast<Host*>(user_data);
  if (host.fail == "read") return 42;
  ++host.reads;
  const std::string& contents = *static_cast<std::string*>(file);
  CHECK(offset + bytes <= contents.size());
  memcpy(buffer, contents.data() + offset, bytes);
  return 0;
}
void HostClose(void* user_data, void*) { --static_cast<Host*>(user_data)->open; }

TEST_CASE("a host's files serve manifest and tensors, and its failures are reported") {
  Packed packed;
  Host host;
  host.files["archive/m.moem"] = packed.bytes;
  host.files["model.safetensors"] = packed.folder.Read("model.safetensors");
  moert_file_source source = MOERT_FILE_SOURCE_INIT;
  source.user_data = &host;
  source.open = HostOpen;
  source.read = HostRead;
  source.close = HostClose;
  moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
  desc.path = "archive/m.moem";
  desc.files = &source;
  ManifestFixture& fixture = packed.fixture;
  const auto open = [&] {
    fixture.manifest.reset();
    return Manifest::Open(fixture.allocator, fixture.log, desc, &fixture.manifest);
  };
  CheckOk(open());
  const int reads = host.reads;
  const void* data = nullptr;
  CheckOk(fixture.manifest->TensorData(3, &data));
  CheckOk(fixture.manifest->TensorData(4, &data));
  CHECK(host.reads == reads + 1);
  moert_tensor_info info = MOERT_TENSOR_INFO_INIT;
  CheckOk(fixture.manifest->Tensor(4, &info));
  CHECK(host.files["model.safetensors"].compare(info.offset, info.bytes,
                                                static_cast<const char*>(data), info.bytes) == 0);
  CheckOk(fixture.manifest->Verify(nullptr, nullptr));

  CheckOk(open());
  host.fail = "read";
  Status status = fixture.manifest->TensorData(0, &data);
  CheckFails(status, MOERT_STATUS_IO_ERROR, "code 42");
  CHECK(status.native_code() == 42);
  CheckFails(fixture.manifest->Verify(nullptr, nullptr), MOERT_STATUS_IO_ERROR, "code 42");
  CheckFails(open(), MOERT_STATUS_IO_ERROR, "code 42");
  host.fail = "open";
  CheckFails(open(), MOERT_STATUS_IO_ERROR, "code 41");
  host.fail.clear();
  host.files["game/model.safetensors"] = host.files["model.safetensors"];
  host.files.erase("model.safetensors");
  CheckFails(open(), MOERT_STATUS_IO_ERROR, "model.safetensors");
  desc.base_dir = "game";
  CheckOk(open());
  fixture.manifest.reset();
  CHECK(host.open == 0);
}

TEST_CASE("lookups outside the manifest say what it has") {
  Packed packed;
  CheckOk(packed.Open(packed.bytes));
  const Manifest& manifest = *packed.fixture.manifest;
  uint64_t tensor = 0;
  uint32_t layer = 0;
  CheckFails(manifest.FindTensor("lm_head", &tensor), MOERT_STATUS_NOT_FOUND, "'lm_head'");
  CheckFails(manifest.FindLayer(4, &layer), MOERT_STATUS_NOT_FOUND, "it has 0");
  moert_tensor_info info = MOERT_TENSOR_INFO_INIT;
  CheckFails(manifest.Tensor(11, &info), MOERT_STATUS_INVALID_ARGUMENT, "11");
  ManifestLayer out(&packed.fixture.allocator);
  CheckFails(manifest.Layer(1, {}, &out), MOERT_STATUS_INVALID_ARGUMENT, "layer index 1");
}

}  // namespace
}  // namespace moert
