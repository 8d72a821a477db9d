// SPDX-License-Identifier: Apache-2.0
// Packing a checkpoint: what is written, and that a failure names its cause and leaves nothing
// behind.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "manifest/files.h"
#include "manifest/hash.h"
#include "manifest_support.h"

namespace moert {
namespace {

using Names = std::vector<std::string>;

void WriteMixtral(const TemporaryFolder& folder) {
  folder.Write("config.json", kMixtralConfig);
  folder.Write("model.safetensors", MakeSafetensors(MixtralTensors()));
}

// The same checkpoint in two shards.
void WriteShards(const TemporaryFolder& folder) {
  const std::vector<TestTensor> tensors = MixtralTensors();
  std::vector<TestTensor> parts[2];
  std::string map;
  for (size_t i = 0; i < tensors.size(); ++i) {
    parts[i % 2].push_back(tensors[i]);
    map += (i == 0 ? "\"" : ",\"") + tensors[i].name + "\":\"part-" + std::to_string(i % 2) +
           ".safetensors\"";
  }
  folder.Write("config.json", kMixtralConfig);
  folder.Write("part-0.safetensors", MakeSafetensors(parts[0], 2));
  folder.Write("part-1.safetensors", MakeSafetensors(parts[1], 3));
  folder.Write("model.safetensors.index.json", R"({"weight_map":{)" + map + "}}");
}

const Names kUnpacked = {"config.json", "model.safetensors"};

TEST_CASE("a packed checkpoint opens, and its layer points at the tensors' bytes") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CHECK(folder.List() == Names{"config.json", "model.moem", "model.safetensors"});
  CHECK(fixture.packed.num_layers == 1);
  CHECK(fixture.packed.num_skipped_layers == 0);
  CHECK(fixture.packed.num_files == 1);
  CHECK(fixture.packed.num_tensors == 11);
  CHECK(fixture.packed.total_bytes == folder.Read("model.safetensors").size());

  for (const uint32_t flags : {0, int{MOERT_MANIFEST_FLAG_READ}}) {
    CheckOk(fixture.Open(folder / "model.moem", flags));
    const Manifest& manifest = *fixture.manifest;
    ManifestLayer layer(&fixture.allocator);
    CheckOk(manifest.Layer(0, {}, &layer));
    REQUIRE(layer.desc.num_weights == 4);
    for (const moert_weight& weight : layer.weights) {
      if (weight.role == MOERT_ROLE_ROUTER) {
        CHECK(weight.data != nullptr);
        continue;
      }
      REQUIRE(weight.experts != nullptr);
      for (int expert = 0; expert < 3; ++expert) {
        const char* part = weight.role == MOERT_ROLE_EXPERT_GATE ? "w1"
                           : weight.role == MOERT_ROLE_EXPERT_UP ? "w3"
                                                                 : "w2";
        const std::string name = "model.layers.0.block_sparse_moe.experts." +
                                 std::to_string(expert) + "." + part + ".weight";
        uint64_t index = 0;
        const void* data = nullptr;
        CheckOk(manifest.FindTensor(name, &index));
        CheckOk(manifest.TensorData(index, &data));
        CHECK(weight.experts[expert] == data);
        moert_tensor_info info = MOERT_TENSOR_INFO_INIT;
        CheckOk(manifest.Tensor(index, &info));
        CHECK(folder.Read("model.safetensors")
                  .compare(info.offset, info.bytes, static_cast<const char*>(data), info.bytes) ==
              0);
      }
    }
  }
}

TEST_CASE("local experts of per-expert and of stacked tensors are the right ones") {
  const TemporaryFolder folder;
  folder.Write("config.json", kMixtralConfig);
  folder.Write("model.safetensors",
               MakeSafetensors({{"model.layers.0.mlp.gate.weight", {3, 5}},
                                {"model.layers.0.mlp.experts.gate_up_proj", {3, 6, 5}},
                                {"model.layers.0.mlp.experts.down_proj", {3, 5, 3}}}));
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CheckOk(fixture.Open(folder / "model.moem"));
  ManifestLayer all(&fixture.allocator), some(&fixture.allocator);
  CheckOk(fixture.manifest->Layer(0, {}, &all));
  const int32_t local[] = {2, 0};
  CheckOk(fixture.manifest->Layer(0, local, &some));
  CHECK(some.desc.num_local_experts == 2);
  REQUIRE(all.weights[1].role == MOERT_ROLE_EXPERT_GATE_UP);
  CHECK(all.weights[1].experts == nullptr);
  const char* data = static_cast<const char*>(all.weights[1].data);
  REQUIRE(some.weights[1].experts != nullptr);
  CHECK(some.weights[1].data == nullptr);
  CHECK(some.weights[1].experts[0] == data + 2 * 6 * 5 * 4);
  CHECK(some.weights[1].experts[1] == data);
  const int32_t wrong[] = {0, 3};
  CheckFails(fixture.manifest->Layer(0, wrong, &some), MOERT_STATUS_INVALID_ARGUMENT,
             "local expert 3");
}

TEST_CASE("a sharded checkpoint packs all its tensors, by name") {
  const TemporaryFolder folder;
  WriteShards(folder);
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CHECK(fixture.packed.num_files == 2);
  CHECK(fixture.packed.num_tensors == 11);
  CheckOk(fixture.Open(folder / "model.moem"));
  CheckOk(fixture.manifest->Verify(nullptr, nullptr));
  std::string previous;
  for (uint64_t i = 0; i < 11; ++i) {
    moert_tensor_info info = MOERT_TENSOR_INFO_INIT;
    CheckOk(fixture.manifest->Tensor(i, &info));
    CHECK(previous < info.name);
    previous = info.name;
  }
}

TEST_CASE("what is missing is named") {
  const TemporaryFolder folder;
  ManifestFixture fixture;
  CheckFails(fixture.Pack(folder / "nowhere"), MOERT_STATUS_NOT_FOUND, "nowhere");
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND, "config.json");
  folder.Write("config.json", kMixtralConfig);
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND, "model.safetensors.index.json");
  CheckFails(fixture.Pack(folder / "config.json"), MOERT_STATUS_INVALID_ARGUMENT, "not a folder");
  WriteShards(folder);
  unlink((folder / "part-1.safetensors").c_str());
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND, "part-1.safetensors");
  CHECK(folder.List() ==
        Names{"config.json", "model.safetensors.index.json", "part-0.safetensors"});
}

TEST_CASE("an index that lies about a tensor is refused") {
  const TemporaryFolder folder;
  WriteShards(folder);
  ManifestFixture fixture;
  const std::string index = folder.Read("model.safetensors.index.json");
  folder.Write("model.safetensors.index.json",
               index.substr(0, index.size() - 2) + R"(,"more":"part-0.safetensors"}})");
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND, "'more'");
  for (const char* path :
       {"../x.safetensors", "/etc/passwd", "a/../../x", "a//b", "./x", "a\\\\b"}) {
    folder.Write("model.safetensors.index.json",
                 R"({"weight_map":{"t":")" + std::string(path) + "\"}}");
    CHECK(fixture.Pack(folder.path()).native_code() == MOERT_CORRUPTION_PATH);
  }
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"a":"part-0.safetensors","b":"copy.safetensors"}})");
  folder.Write("copy.safetensors", folder.Read("part-0.safetensors"));
  CheckCorrupt(fixture.Pack(folder.path()), MOERT_CORRUPTION_DUPLICATE_KEY, "copy.safetensors");
}

TEST_CASE("an unknown model type lists the known ones") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  folder.Write("config.json", R"({"model_type": "mistery"})");
  ManifestFixture fixture;
  const Status status = fixture.Pack(folder.path());
  CheckFails(status, MOERT_STATUS_NOT_FOUND, "'mistery'");
  CheckFails(status, MOERT_STATUS_NOT_FOUND, "qwen2_moe");
  CHECK(folder.List() == kUnpacked);
}

TEST_CASE("a config that lacks what the family needs is refused by the key's name") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  const struct {
    const char* config;
    moert_status code;
    const char* part;
  } cases[] = {{"{", MOERT_STATUS_CORRUPT_DATA, "JSON"},
               {"[]", MOERT_STATUS_CORRUPT_DATA, "not an object"},
               {R"({"model_type": 3})", MOERT_STATUS_CORRUPT_DATA, "model_type"},
               {R"({"model_type": "mixtral"})", MOERT_STATUS_CORRUPT_DATA, "num_hidden_layers"},
               {R"({"model_type": "mixtral", "num_hidden_layers": 1, "num_experts_per_tok": 2,
           "hidden_size": 5, "intermediate_size": 3})",
                MOERT_STATUS_CORRUPT_DATA, "num_local_experts"},
               {R"({"model_type": "mixtral", "num_hidden_layers": 1, "num_experts_per_tok": 4,
           "hidden_size": 5, "intermediate_size": 3, "num_local_experts": 3})",
                MOERT_STATUS_CORRUPT_DATA, "top_k is 4"},
               {R"({"model_type": "mixtral", "num_hidden_layers": 1, "num_experts_per_tok": "two",
           "hidden_size": 5, "intermediate_size": 3, "num_local_experts": 3})",
                MOERT_STATUS_CORRUPT_DATA, "\"two\""},
               {R"({"model_type": "mixtral", "num_hidden_layers": 1, "num_experts_per_tok": 2,
           "hidden_size": 5, "intermediate_size": 3, "num_local_experts": 3, "hidden_act": "tan"})",
                MOERT_STATUS_UNSUPPORTED, "\"tan\""},
               {R"({"model_type": "mixtral", "num_hidden_layers": 2, "num_experts_per_tok": 2,
           "hidden_size": 5, "intermediate_size": 3, "num_local_experts": 3})",
                MOERT_STATUS_NOT_FOUND, "layer 1"}};
  for (const auto& entry : cases) {
    folder.Write("config.json", entry.config);
    CheckFails(fixture.Pack(folder.path()), entry.code, entry.part);
    CHECK(folder.List() == kUnpacked);
  }
}

TEST_CASE("a config whose lists or objects nest without end is refused") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  const int depth = 1'000'000;
  for (const char* key : {"num_hidden_layers", "hidden_act", "num_local_experts"}) {
    for (const bool lists : {true, false}) {
      std::string config = R"({"model_type": "mixtral", "num_hidden_layers": 1, ")";
      config += std::string(key) + "\": ";
      for (int i = 0; i < depth; ++i) config += lists ? "[" : "{\"a\":";
      config += "1" + std::string(depth, lists ? ']' : '}') + "}";
      folder.Write("config.json", config);
      CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_CORRUPT_DATA, "nested too deep");
    }
  }
}

TEST_CASE("brackets inside a config's strings do not count as nesting") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  std::string config = folder.Read("config.json");
  config.insert(config.find('{') + 1, R"("note": ")" + std::string(1000, '[') + R"(\"{{\\",)");
  folder.Write("config.json", config);
  CheckOk(fixture.Pack(folder.path()));
}

TEST_CASE("an expert that is missing, left over or of another shape is named") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  const auto pack = [&](const std::vector<TestTensor>& tensors) {
    folder.Write("model.safetensors", MakeSafetensors(tensors));
    return fixture.Pack(folder.path());
  };
  std::vector<TestTensor> tensors = MixtralTensors();
  const std::string experts = "model.layers.0.block_sparse_moe.experts.";
  tensors.back().name = experts + "7.w3.weight";
  CheckFails(pack(tensors), MOERT_STATUS_NOT_FOUND, experts + "2.w3.weight");
  tensors = MixtralTensors();
  tensors.push_back({experts + "3.w1.weight", {3, 5}});
  CheckCorrupt(pack(tensors), MOERT_CORRUPTION_ROLES, experts + "3.w1.weight");
  tensors = MixtralTensors();
  tensors.back().shape = {5, 3};
  CheckCorrupt(pack(tensors), MOERT_CORRUPTION_ROLES, experts + "2.w3.weight");
  tensors = MixtralTensors();
  tensors.back() = {tensors.back().name, {3, 5}, "BF16", 2};
  CheckCorrupt(pack(tensors), MOERT_CORRUPTION_ROLES, experts + "2.w3.weight");
  tensors = MixtralTensors();
  tensors.back() = {tensors.back().name, {3, 5}, "U8", 1};
  CHECK_FALSE(pack(tensors).ok());
  // Stacked where one an expert is said, in shape.
  CheckCorrupt(pack({{"model.layers.0.mlp.gate.weight", {3, 5}},
                     {"model.layers.0.mlp.experts.gate_up_proj", {6, 5}},
                     {"model.layers.0.mlp.experts.down_proj", {3, 5, 3}}}),
               MOERT_CORRUPTION_ROLES, "gate_up_proj");
  CHECK(folder.List() == kUnpacked);
}

struct Progress {
  std::vector<uint64_t> done;
  uint64_t total = 0;
  size_t stop_after = SIZE_MAX;
};
int32_t Report(void* user_data, uint64_t done, uint64_t total) {
  auto& progress = *static_cast<Progress*>(user_data);
  progress.done.push_back(done);
  progress.total = total;
  return progress.done.size() > progress.stop_after ? 77 : 0;
}

TEST_CASE("progress ascends to the total, and can stop the call without a trace") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  folder.Write("model.safetensors", MakeSafetensors([] {
                 std::vector<TestTensor> tensors = MixtralTensors();
                 tensors.push_back({"big", {3, 1000001}});
                 return tensors;
               }()));
  ManifestFixture fixture;
  Progress stopped;
  stopped.stop_after = 0;
  const Status status = fixture.Pack(folder.path(), nullptr, 0, nullptr, Report, &stopped);
  CheckFails(status, MOERT_STATUS_CALLBACK_FAILED, "77");
  CHECK(status.native_code() == 77);
  CHECK(folder.List() == kUnpacked);

  Progress whole;
  CheckOk(fixture.Pack(folder.path(), nullptr, 0, nullptr, Report, &whole));
  CHECK(std::is_sorted(whole.done.begin(), whole.done.end()));
  CHECK(whole.done.back() == folder.Read("model.safetensors").size());
  CHECK(whole.total == whole.done.back());

  CheckOk(fixture.Open(folder / "model.moem"));
  stopped.done.clear();
  CheckFails(fixture.manifest->Verify(Report, &stopped), MOERT_STATUS_CALLBACK_FAILED, "77");
}

TEST_CASE("threads that hash files take no signals from the host's") {
  class Watched final : public File {
   public:
    Watched() { size_ = uint64_t{64} << 20; }
    Status Read(uint64_t, void* buffer, uint64_t bytes) const override {
      std::memset(buffer, 1, bytes);
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      const bool takes = sigismember(&mask, SIGALRM) == 0;
      if (takes != (std::this_thread::get_id() == caller)) ++wrong;
      return Status();
    }
    const std::thread::id caller = std::this_thread::get_id();
    mutable std::atomic<int> wrong{0};
  } file;
  FileHash hash{&file, {0, 0}};
  CheckOk(HashFiles({&hash, 1}, nullptr, nullptr));
  CHECK(file.wrong == 0);
}

TEST_CASE("a disk that fills up leaves no half file and the old one as it was") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  folder.Write("model.moem", "old");
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // A write past the limit then fails, as on a full disk, with EFBIG instead of ENOSPC.
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    ManifestFixture fixture;
    const Status status = fixture.Pack(folder.path());
    const bool right = status.code() == MOERT_STATUS_IO_ERROR && status.native_code() == EFBIG;
    _exit(right ? 0 : 1);
  }
  int result = 0;
  REQUIRE(waitpid(child, &result, 0) == child);
  CHECK(result == 0);
  CHECK(folder.List() == Names{"config.json", "model.moem", "model.safetensors"});
  CHECK(folder.Read("model.moem") == "old");
}

TEST_CASE("an output that cannot be written is refused") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  CheckFails(fixture.Pack(folder.path(), (folder / "none/x.moem").c_str()), MOERT_STATUS_NOT_FOUND,
             "none/x.moem");
  CheckFails(fixture.Pack(folder.path(), folder.path().c_str()), MOERT_STATUS_INVALID_ARGUMENT,
             "not a regular file");
  CheckFails(fixture.Pack(folder.path(), "/dev/full"), MOERT_STATUS_INVALID_ARGUMENT, "/dev/full");
  CHECK(folder.List() == kUnpacked);
}

TEST_CASE("an output that would replace a file of the checkpoint is refused") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  std::filesystem::create_symlink("model.safetensors", folder / "link");
  std::filesystem::create_hard_link(folder / "config.json", folder / "other");
  const auto before = folder.Read("model.safetensors") + folder.Read("config.json");
  ManifestFixture fixture;
  for (const char* name : {"model.safetensors", "config.json", "./config.json", "link", "other"}) {
    CheckFails(fixture.Pack(folder.path(), (folder / name).c_str()), MOERT_STATUS_INVALID_ARGUMENT,
               "read from");
    CHECK(folder.Read("model.safetensors") + folder.Read("config.json") == before);
  }
  CheckOk(fixture.Pack(folder.path(), (folder / "model.moem").c_str()));
  CheckOk(fixture.Pack(folder.path(), (folder / "model.moem").c_str()));
}

TEST_CASE("a shard that changed since packing is found") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  std::string bytes = folder.Read("model.safetensors");
  bytes.back() ^= 1;
  folder.Write("model.safetensors", bytes);
  CheckOk(fixture.Open(folder / "model.moem"));
  const Status status = fixture.manifest->Verify(nullptr, nullptr);
  CheckFails(status, MOERT_STATUS_FILE_CHANGED, "model.safetensors");
  CHECK(status.native_code() == MOERT_CORRUPTION_HASH);
  // A header of the same length that says something else, without hashes.
  CheckOk(fixture.Pack(folder.path(), nullptr, MOERT_PACK_FLAG_SKIP_HASHES));
  CheckOk(fixture.Open(folder / "model.moem"));
  CheckOk(fixture.manifest->Verify(nullptr, nullptr));
  bytes.replace(bytes.find("embed"), 5, "EMBED");
  folder.Write("model.safetensors", bytes);
  CheckFails(fixture.manifest->Verify(nullptr, nullptr), MOERT_STATUS_FILE_CHANGED, "not the one");
  folder.Write("model.safetensors", bytes + "x");
  CheckFails(fixture.Open(folder / "model.moem"), MOERT_STATUS_FILE_CHANGED, "bytes");
  unlink((folder / "model.safetensors").c_str());
  CheckFails(fixture.Open(folder / "model.moem"), MOERT_STATUS_NOT_FOUND, "model.safetensors");
}

TEST_CASE("holes in a shard are packed only when allowed") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  folder.Write("model.safetensors", folder.Read("model.safetensors") + "12345678");
  ManifestFixture fixture;
  CheckCorrupt(fixture.Pack(folder.path()), MOERT_CORRUPTION_HOLE, "last 8 bytes");
  CheckOk(fixture.Pack(folder.path(), nullptr, MOERT_PACK_FLAG_ALLOW_HOLES));
  CheckOk(fixture.Open(folder / "model.moem"));
  CheckOk(fixture.manifest->Verify(nullptr, nullptr));
}

TEST_CASE("a symbolic link into a cache is followed, unless that is forbidden") {
  const TemporaryFolder cache;
  WriteMixtral(cache);
  std::filesystem::create_directories(cache / "blobs");
  std::filesystem::create_directories(cache / "snapshots/1");
  std::filesystem::rename(cache / "model.safetensors", cache / "blobs/abc");
  std::filesystem::rename(cache / "config.json", cache / "blobs/def");
  std::filesystem::create_symlink("../../blobs/abc", cache / "snapshots/1/model.safetensors");
  std::filesystem::create_symlink("../../blobs/def", cache / "snapshots/1/config.json");
  ManifestFixture fixture;
  CheckOk(fixture.Pack(cache / "snapshots/1"));
  const std::string path = cache / "snapshots/1/model.moem";
  CheckOk(fixture.Open(path));
  CheckOk(fixture.manifest->Verify(nullptr, nullptr));
  CheckFails(fixture.Open(path, MOERT_MANIFEST_FLAG_FORBID_SYMLINKS), MOERT_STATUS_IO_ERROR,
             "symbolic link");
  std::filesystem::remove(cache / "snapshots/1/model.safetensors");
  std::filesystem::copy_file(cache / "blobs/abc", cache / "snapshots/1/model.safetensors");
  CheckOk(fixture.Open(path, MOERT_MANIFEST_FLAG_FORBID_SYMLINKS));
}

TEST_CASE("a manifest above its checkpoint names the way down; elsewhere it needs to be told") {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  folder.Write("sub/config.json", kMixtralConfig);
  folder.Write("sub/model.safetensors", MakeSafetensors(MixtralTensors()));
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder / "sub", (folder / "m.moem").c_str()));
  CheckOk(fixture.Open(folder / "m.moem"));
  moert_file_info info = MOERT_FILE_INFO_INIT;
  CheckOk(fixture.manifest->File(0, &info));
  CHECK(std::string(info.path) == "sub/model.safetensors");

  CheckOk(fixture.Pack(folder / "sub", (elsewhere / "m.moem").c_str()));
  CheckFails(fixture.Open(elsewhere / "m.moem"), MOERT_STATUS_NOT_FOUND, "sub");
  CheckOk(fixture.Open(elsewhere / "m.moem", 0, (folder / "sub").c_str()));
  CheckOk(fixture.Open(elsewhere / "m.moem", MOERT_MANIFEST_FLAG_PACKED_DIRECTORY));
}

TEST_CASE("paths that are not readable files are refused") {
  const TemporaryFolder folder;
  WriteMixtral(folder);
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CheckFails(fixture.Open(folder.path()), MOERT_STATUS_IO_ERROR, "not a regular file");
  std::filesystem::remove(folder / "model.safetensors");
  REQUIRE(mkfifo((folder / "model.safetensors").c_str(), 0600) == 0);
  CheckFails(fixture.Open(folder / "model.moem"), MOERT_STATUS_IO_ERROR, "not a regular file");
}

}  // namespace
}  // namespace moert
