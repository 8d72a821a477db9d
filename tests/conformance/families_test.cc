// SPDX-License-Identifier: Apache-2.0
// The model families of tests/data/families: each tiny checkpoint is packed and opened, each of its
// MoE blocks runs in float32 on the reference's input and must give the reference's output, and its
// ids must be those that the checkpoint's own router weights give in float64 by the family's
// published formula.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/layers.h"
#include "support/safetensors.h"

namespace moert::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A family's router, stated here independently of the library's descriptions.
struct FamilyRouter {
  std::vector<std::string> families;
  std::string weight;          // end of the tensor's name
  std::string bias;            // "": none
  std::string selection_bias;  // "": none
  std::string top_k;           // key in config.json
  moert_score score;
  void (*rest)(const Json& config, moert_routing* routing);
};

void SumIfAsked(const Json& config, moert_routing* routing) {
  if (config.value("norm_topk_prob", false)) routing->renormalize = MOERT_RENORMALIZE_SUM;
}
void Sum(const Json&, moert_routing* routing) { routing->renormalize = MOERT_RENORMALIZE_SUM; }
void Nothing(const Json&, moert_routing*) {}

void Groups(const Json& config, moert_routing* routing) {
  routing->num_groups = config.at("n_group");
  routing->top_k_groups = config.at("topk_group");
  routing->routed_scaling_factor = config.at("routed_scaling_factor");
}
void DeepseekV2(const Json& config, moert_routing* routing) {
  Groups(config, routing);
  if (config.at("topk_method") == "greedy") routing->num_groups = 0;
}
void DeepseekV3(const Json& config, moert_routing* routing) {
  Groups(config, routing);
  routing->group_score = MOERT_GROUP_SCORE_TOP2_SUM;
  if (!config.at("norm_topk_prob")) return;
  routing->renormalize = MOERT_RENORMALIZE_SUM_EPSILON;
  routing->renormalize_value = 1e-20f;
}
void Phimoe(const Json& config, moert_routing* routing) {
  routing->sparsemixer_epsilon = config.at("router_jitter_noise");
}
void Dbrx(const Json& config, moert_routing* routing) {
  routing->renormalize = MOERT_RENORMALIZE_P_NORM;
  routing->renormalize_value = config.at("ffn_config").at("moe_normalize_expert_weights");
}

const std::string kPerToken = "num_experts_per_tok";
const FamilyRouter kRouters[] = {
    {{"mixtral", "minimax"}, "gate.weight", "", "", kPerToken, MOERT_SCORE_SOFTMAX, Sum},
    {{"qwen2_moe", "qwen3_moe", "qwen3_next", "olmoe"},
     "mlp.gate.weight",
     "",
     "",
     kPerToken,
     MOERT_SCORE_SOFTMAX,
     SumIfAsked},
    {{"qwen3_5_moe_text"}, "mlp.gate.weight", "", "", kPerToken, MOERT_SCORE_SOFTMAX, Sum},
    {{"jamba"}, "router.weight", "", "", kPerToken, MOERT_SCORE_SOFTMAX, Nothing},
    {{"deepseek_v2"}, "mlp.gate.weight", "", "", kPerToken, MOERT_SCORE_SOFTMAX, DeepseekV2},
    {{"deepseek_v3", "glm4_moe", "glm4_moe_lite"},
     "mlp.gate.weight",
     "",
     "gate.e_score_correction_bias",
     kPerToken,
     MOERT_SCORE_SIGMOID,
     DeepseekV3},
    {{"gpt_oss"},
     "router.weight",
     "router.bias",
     "",
     kPerToken,
     MOERT_SCORE_SOFTMAX_TOP_K,
     Nothing},
    {{"granitemoe", "granitemoeshared"},
     "router.layer.weight",
     "",
     "",
     kPerToken,
     MOERT_SCORE_SOFTMAX_TOP_K,
     Nothing},
    {{"phimoe"}, "gate.weight", "", "", kPerToken, MOERT_SCORE_SPARSEMIXER, Phimoe},
    {{"llama4_text"}, "router.weight", "", "", kPerToken, MOERT_SCORE_SIGMOID_TOP_K, Nothing},
    {{"dbrx"}, "router.layer.weight", "", "", "moe_top_k", MOERT_SCORE_SOFTMAX, Dbrx},
    {{"minimax_m2"},
     "gate.weight",
     "",
     "e_score_correction_bias",
     kPerToken,
     MOERT_SCORE_SIGMOID,
     Sum},
    {{"aria_text"}, "router.weight", "", "", "moe_topk", MOERT_SCORE_SOFTMAX_TOP_K, Nothing}};

// A checkpoint's folder and what the test reads of it by itself.
struct Checkpoint {
  explicit Checkpoint(const fs::path& folder_in)
      : folder(folder_in),
        name(folder.filename().string()),
        weights(ReadSafetensors((folder / "model.safetensors").string())),
        reference(ReadSafetensors((folder / "reference.safetensors").string())) {
    std::ifstream(folder / "config.json") >> config;
  }
  // The tensor of that layer whose name ends so; empty if there is none.
  Mat Find(int32_t layer, const std::string& end) const {
    const std::string number = "." + std::to_string(layer) + ".";
    for (const auto& [tensor, mat] : weights) {
      if (tensor.find(number) != std::string::npos && tensor.ends_with("." + end) &&
          tensor.find(".experts.") == std::string::npos) {
        return mat;
      }
    }
    return Mat();
  }
  // The layer's block of the reference; "" if there is none.
  std::string Block(int32_t layer) const {
    const std::string number = "." + std::to_string(layer) + ".";
    for (const auto& [tensor, mat] : reference) {
      if (tensor.starts_with("grad.") || !tensor.ends_with(".in")) continue;
      if (tensor.find(number) != std::string::npos) return tensor.substr(0, tensor.size() - 3);
    }
    return "";
  }
  uint32_t NumBlocks() const {
    uint32_t count = 0;
    for (const auto& [tensor, mat] : reference) {
      count += !tensor.starts_with("grad.") && tensor.ends_with(".in");
    }
    return count;
  }

  fs::path folder;
  std::string name;
  std::map<std::string, Mat> weights, reference;
  Json config;
};

RefRouter RouterOf(const Checkpoint& checkpoint, int32_t layer) {
  for (const FamilyRouter& row : kRouters) {
    const auto& names = row.families;
    if (std::find(names.begin(), names.end(), checkpoint.name) == names.end()) continue;
    RefRouter out;
    out.weight = checkpoint.Find(layer, row.weight);
    REQUIRE(!out.weight.empty());
    if (!row.bias.empty()) out.bias = checkpoint.Find(layer, row.bias);
    if (!row.selection_bias.empty()) {
      out.selection_bias = checkpoint.Find(layer, row.selection_bias);
      REQUIRE(!out.selection_bias.empty());
    }
    out.routing.score = row.score;
    out.routing.num_experts = static_cast<int32_t>(out.weight.rows);
    const Json& config = checkpoint.config.contains(row.top_k) ? checkpoint.config
                                                               : checkpoint.config.at("ffn_config");
    out.routing.top_k = config.at(row.top_k);
    row.rest(checkpoint.config, &out.routing);
    return out;
  }
  FAIL("no router is stated here for family ", checkpoint.name);
  return {};
}

// A folder that goes when this does.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "moert-families-XXXXXX").string();
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path = pattern;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  fs::path path;
};

ManifestHandle PackAndOpen(Device& device, const Checkpoint& checkpoint, const fs::path& folder) {
  const std::string from = checkpoint.folder.string(), to = (folder / "model.moem").string();
  moert_pack_desc pack = MOERT_PACK_DESC_INIT;
  pack.directory = from.c_str();
  pack.output = to.c_str();
  moert_pack_result result = MOERT_PACK_RESULT_INIT;
  REQUIRE_OK(moert_manifest_pack(device.runtime, &pack, &result, &error));
  CHECK(result.num_layers == checkpoint.NumBlocks());
  CHECK(result.num_tensors == checkpoint.weights.size());
  moert_manifest_desc desc = MOERT_MANIFEST_DESC_INIT;
  desc.path = to.c_str();
  desc.base_dir = from.c_str();
  ManifestHandle out;
  REQUIRE_OK(moert_manifest_open(device.runtime, &desc, out.out(), &error));
  return out;
}

void CheckBlock(Device& device, const Checkpoint& checkpoint, const moert_manifest* manifest,
                uint32_t index) {
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  REQUIRE_OK(moert_manifest_layer(manifest, index, &info, &error));
  const std::string block = checkpoint.Block(info.model_layer);
  INFO(checkpoint.name, " ", block);
  REQUIRE(!block.empty());
  const RefRouter router = RouterOf(checkpoint, info.model_layer);
  Layer layer;
  moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
  desc.dtype = MOERT_DTYPE_FLOAT32;
  REQUIRE_OK(moert_layer_open(device.handle, manifest, index, &desc, layer.out(), &error));

  RefLayer shape;  // of the arguments only
  shape.hidden = info.hidden;
  shape.router.routing = router.routing;
  ForwardInput input;
  input.x = checkpoint.reference.at(block + ".in");
  // Its shared expert is a module of its own, outside of the block.
  input.skip_shared = checkpoint.name == "granitemoeshared";
  const auto out = RunForward(device, layer, shape, input);
  CHECK(RelativeError(out.y, checkpoint.reference.at(block + ".out")) < 1e-5);
  const Mat logits = RefLogits(router, input.x);
  CheckLogits(out.logits, logits);
  CHECK(out.ids == RefChoose(router, logits).ids);
  CHECK(RelativeError(out.weights, RefChoose(router, logits).weights) < 1e-5);
}

TEST_CASE("every family's blocks give the outputs and ids of its reference") {
  int tested = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(MOERT_TEST_DATA) / "families")) {
    const Checkpoint checkpoint(entry.path());
    CAPTURE(checkpoint.name);
    ForEachDevice([&](Device& device) {
      const TemporaryFolder folder;
      const ManifestHandle manifest = PackAndOpen(device, checkpoint, folder.path);
      moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
      REQUIRE_OK(moert_manifest_get_info(manifest, &info, &error));
      CHECK(std::string(info.model_type) == checkpoint.config.at("model_type").get<std::string>());
      CHECK(info.num_layers == checkpoint.NumBlocks());
      for (uint32_t i = 0; i < info.num_layers; ++i) CheckBlock(device, checkpoint, manifest, i);
    });
    ++tested;
  }
  CHECK(tested == 20);
}

TEST_CASE("a layer of a manifest outlives the manifest's handle") {
  const Checkpoint checkpoint(fs::path(MOERT_TEST_DATA) / "families" / "mixtral");
  ForEachDevice([&](Device& device) {
    const TemporaryFolder folder;
    ManifestHandle manifest = PackAndOpen(device, checkpoint, folder.path);
    Layer layer;
    REQUIRE_OK(moert_layer_open(device.handle, manifest, 0, nullptr, layer.out(), &error));
    manifest = ManifestHandle();
    RefLayer shape;
    shape.hidden = 48;
    shape.router = RouterOf(checkpoint, 0);
    ForwardInput input;
    const std::string block = checkpoint.Block(0);
    input.x = checkpoint.reference.at(block + ".in");
    CHECK(RelativeError(RunForward(device, layer, shape, input).y,
                        checkpoint.reference.at(block + ".out")) < 1e-5);
  });
}

TEST_CASE("ranks that open some of a manifest's experts add up to the whole layer") {
  const Checkpoint checkpoint(fs::path(MOERT_TEST_DATA) / "families" / "gpt_oss");
  ForEachDevice([&](Device& device) {
    const TemporaryFolder folder;
    const ManifestHandle manifest = PackAndOpen(device, checkpoint, folder.path);
    const std::string block = checkpoint.Block(0);
    RefLayer shape;
    shape.hidden = 48;
    shape.router = RouterOf(checkpoint, 0);
    ForwardInput input;
    input.x = checkpoint.reference.at(block + ".in");
    Mat sum(input.x.rows, 48);
    const std::vector<std::vector<int32_t>> ranks = {{7, 0, 3}, {1}, {2, 4, 6, 5}};
    for (const auto& experts : ranks) {
      moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
      desc.num_local_experts = static_cast<uint32_t>(experts.size());
      desc.local_experts = experts.data();
      Layer layer;
      REQUIRE_OK(moert_layer_open(device.handle, manifest, 0, &desc, layer.out(), &error));
      const Mat y = RunForward(device, layer, shape, input).y;
      for (size_t i = 0; i < sum.v.size(); ++i) sum.v[i] += y.v[i];
    }
    CHECK(RelativeError(sum, checkpoint.reference.at(block + ".out")) < 1e-5);
  });
}

}  // namespace
}  // namespace moert::test
