// SPDX-License-Identifier: Apache-2.0
// Family descriptions: a user's file and what can be wrong in it; the built-in families that have
// no checkpoint in tests/data, on made-up ones; quantised checkpoints.
#include <map>

#include "manifest/family.h"
#include "manifest_generated.h"
#include "manifest_support.h"

namespace moert {
namespace {

Status ParseText(const std::string& text) {
  Family family;
  return ParseFamily(text, "mine.json", &family);
}

TEST_CASE("every built-in family parses and is found by each of its model types") {
  REQUIRE(kNumBuiltInFamilies > 30);
  for (size_t i = 0; i < kNumBuiltInFamilies; ++i) {
    INFO(std::string(kBuiltInFamilies[i].name));
    Family family, found;
    CheckOk(ParseFamily(kBuiltInFamilies[i].json, kBuiltInFamilies[i].name, &family));
    CHECK(family.name == kBuiltInFamilies[i].name);
    for (const std::string& type : family.model_types) {
      std::string model_type;
      CheckOk(FindBuiltInFamily({"unheard-of", type}, &found, &model_type));
      CHECK(found.name == family.name);
      CHECK(model_type == type);
    }
  }
}

TEST_CASE("a fault of a description is named by its place") {
  const std::string rest = R"(, "extends": "mixtral"})";
  const struct {
    std::string text, part;
  } cases[] = {
      {"{", "not valid JSON"},
      {"[]", "must be an object"},
      {R"({"moert_family": 1, "name": )" + std::string(1'000'000, '['), "nested too deep"},
      {R"({"name": "x"})", "'moert_family' must be 1"},
      {R"({"moert_family": 2, "name": "x"})", "'moert_family' must be 1"},
      {R"({"moert_family": 1, "name": "x"})", "layers: is missing"},
      {R"({"moert_family": 1, "name": "x", "extends": "mixtrall"})", "extends"},
      {R"({"moert_family": 1, "name": "x", "rooting": {})" + rest, "unknown member 'rooting'"},
      {R"({"moert_family": 1, "name": "x", "routing": {"topk": 2})" + rest,
       "routing: unknown member 'topk'"},
      {R"({"moert_family": 1, "name": "x", "routing": {"top_k": [2]})" + rest, "routing.top_k"},
      {R"({"moert_family": 1, "name": "x", "routing": {"top_k": {"confg": "k"}})" + rest,
       "routing.top_k"},
      {R"({"moert_family": 1, "name": "x", "routing": {"top_k": {"cases": [{"if": true, "value": 1}]}})" +
           rest,
       "the last case"},
      {R"({"moert_family": 1, "name": "x", "layers": {"moe": {"lair": 1}})" + rest,
       "layers.moe: is not a condition"},
      {R"({"moert_family": 1, "name": "x", "layers": {"prefixes": "model."})" + rest, "{layer}"},
      {R"({"moert_family": 1, "name": "x", "weights": [{"role": "rooter", "name": "a"}])" + rest,
       "weights[0].role: accepted are router, "},
      {R"({"moert_family": 1, "name": "x", "weights": [{"role": "router"}])" + rest,
       "weights[0].name: is missing"},
      {R"({"moert_family": 1, "name": "x", "weights": [{"role": "router", "name": "a.{expert}"}])" +
           rest,
       "{expert}"},
      {R"({"moert_family": 1, "name": "x", "weights": [{"one_of": [[{"role": "router", "name": 3}]]}])" +
           rest,
       "weights[0].one_of[0][0].name"}};
  for (const auto& entry : cases) {
    INFO(entry.text);
    CheckFails(ParseText(entry.text), MOERT_STATUS_INVALID_ARGUMENT, entry.part);
    CheckFails(ParseText(entry.text), MOERT_STATUS_INVALID_ARGUMENT, "mine.json");
  }
  std::string deep = "true";
  for (int i = 0; i < 1000; ++i) deep = R"({"not": )" + deep + "}";
  CheckFails(
      ParseText(R"({"moert_family": 1, "name": "x", "layers": {"moe": )" + deep + "}" + rest),
      MOERT_STATUS_INVALID_ARGUMENT, "too deep");
}

TEST_CASE("a user's description packs a model that is not built in") {
  const TemporaryFolder folder;
  folder.Write("config.json", R"({"model_type": "mine", "layers": 2, "d": 5, "ff": [3, 4],
                                  "moe": "-E", "norm": 0.5})");
  folder.Write("model.safetensors", MakeSafetensors({{"block.1.r", {2, 5}},
                                                     {"block.1.0.in", {8, 5}},
                                                     {"block.1.0.out", {5, 4}},
                                                     {"block.1.1.in", {8, 5}},
                                                     {"block.1.1.out", {5, 4}}}));
  folder.Write("mine.json", R"({"moert_family": 1, "name": "mine",
    "layers": {"count": {"config": "layers"}, "prefixes": "block.{layer}.",
               "moe": {"config": "moe", "character_per_layer": true, "equals": "E"}},
    "sizes": {"hidden": {"config": "d"}, "intermediate": {"config": "ff"}},
    "routing": {"num_experts": 2, "top_k": 1, "renormalize": "p_norm",
                "renormalize_value": {"config": "norm", "power": 2, "times": 4}},
    "activation": {"kind": "gelu"},
    "weights": [{"role": "router", "name": ["q", "r"]},
                {"role": "expert_gate_up", "name": "{expert}.in", "packing": "interleaved"},
                {"role": "expert_down", "name": "{expert}.out"},
                {"role": "router_bias", "name": "b", "optional": true}]})");
  ManifestFixture fixture;
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND, "'mine'");
  CheckFails(fixture.Pack(folder.path(), nullptr, 0, (folder / "none.json").c_str()),
             MOERT_STATUS_NOT_FOUND, "none.json");
  CheckOk(fixture.Pack(folder.path(), nullptr, 0, (folder / "mine.json").c_str()));
  CHECK(fixture.packed.num_layers == 1);
  CHECK(fixture.packed.num_skipped_layers == 1);
  CheckOk(fixture.Open(folder / "model.moem"));
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  CheckOk(fixture.manifest->LayerInfo(0, &info));
  CHECK(info.model_layer == 1);
  CHECK(info.intermediate == 4);
  moert_routing routing = MOERT_ROUTING_INIT;
  CheckOk(fixture.manifest->LayerRouting(0, &routing));
  CHECK(routing.renormalize == MOERT_RENORMALIZE_P_NORM);
  CHECK(routing.renormalize_value == 1.0f);
}

// A checkpoint with one MoE layer: E 4, K 2, H 6, I 5.
struct MadeUp {
  const char* family;
  const char* config;               // beside what all have
  std::vector<TestTensor> tensors;  // with {e} for each expert
  moert_score score;
  moert_renormalize renormalize;
  int64_t shared;
  uint32_t num_weights;
};

std::vector<TestTensor> Expand(const std::vector<TestTensor>& tensors) {
  std::vector<TestTensor> all;
  for (const TestTensor& tensor : tensors) {
    const size_t at = tensor.name.find("{e}");
    for (int expert = 0; expert < (at == std::string::npos ? 1 : 4); ++expert) {
      all.push_back(tensor);
      if (at != std::string::npos) all.back().name.replace(at, 3, std::to_string(expert));
    }
  }
  return all;
}
// The usual three tensors an expert, and those of a shared expert of that width.
std::vector<TestTensor> Experts(const std::string& at, std::vector<TestTensor> more,
                                const std::string& shared = "", int64_t width = 0) {
  more.push_back({at + "experts.{e}.gate_proj.weight", {5, 6}});
  more.push_back({at + "experts.{e}.up_proj.weight", {5, 6}});
  more.push_back({at + "experts.{e}.down_proj.weight", {6, 5}});
  if (width != 0) {
    more.push_back({at + shared + ".gate_proj.weight", {width, 6}});
    more.push_back({at + shared + ".up_proj.weight", {width, 6}});
    more.push_back({at + shared + ".down_proj.weight", {6, width}});
  }
  return more;
}

// Packs the checkpoint, whose last layer is the only MoE one.
void CheckMadeUp(const MadeUp& entry, uint32_t layers) {
  INFO(std::string(entry.family));
  const TemporaryFolder folder;
  folder.Write("config.json", R"({"hidden_size": 6, "moe_intermediate_size": 5,
                   "num_experts_per_tok": 2, "hidden_act": "silu", "num_hidden_layers": )" +
                                  std::to_string(layers) + R"(, "model_type": ")" +
                                  std::string(entry.family) + "\", " + entry.config + "}");
  folder.Write("model.safetensors", MakeSafetensors(Expand(entry.tensors)));
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CHECK(fixture.packed.num_layers == 1);
  CHECK(fixture.packed.num_skipped_layers == layers - 1);
  CheckOk(fixture.Open(folder / "model.moem"));
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  moert_routing routing = MOERT_ROUTING_INIT;
  CheckOk(fixture.manifest->LayerInfo(0, &info));
  CheckOk(fixture.manifest->LayerRouting(0, &routing));
  CHECK(info.model_layer == static_cast<int32_t>(layers) - 1);
  CHECK(info.shared_intermediate == entry.shared);
  CHECK(info.num_weights == entry.num_weights);
  CHECK(routing.score == entry.score);
  CHECK(routing.renormalize == entry.renormalize);
}

TEST_CASE("families without a checkpoint here pack as their definitions say") {
  const std::string mlp = "model.layers.1.mlp.", ff = "model.layers.1.feed_forward.";
  const std::string sparse = "model.layers.1.block_sparse_moe.", mixer = "backbone.layers.1.mixer.";
  const TestTensor gate = {mlp + "gate.weight", {4, 6}};
  const TestTensor bias = {mlp + "gate.e_score_correction_bias", {4}};
  const std::vector<TestTensor> mixtral = {{sparse + "gate.weight", {4, 6}},
                                           {sparse + "experts.{e}.w1.weight", {5, 6}},
                                           {sparse + "experts.{e}.w3.weight", {5, 6}},
                                           {sparse + "experts.{e}.w2.weight", {6, 5}}};
  std::vector<TestTensor> kimi = mixtral;
  kimi.push_back({sparse + "gate.e_score_correction_bias", {4}});
  for (const auto& [part, shape] : std::map<std::string, std::vector<int64_t>>{
           {"gate", {5, 6}}, {"up", {5, 6}}, {"down", {6, 5}}}) {
    kimi.push_back({sparse + "shared_experts." + part + "_proj.weight", shape});
  }
  const MadeUp cases[] = {
      {"dots1",
       R"("n_routed_experts": 4, "n_shared_experts": 2, "first_k_dense_replace": 1,
          "norm_topk_prob": true)",
       Experts(mlp, {gate, bias}, "shared_experts", 10), MOERT_SCORE_SIGMOID,
       MOERT_RENORMALIZE_SUM_EPSILON, 10, 8},
      {"kimi_k2", R"("n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1)",
       Experts(mlp, {gate, bias}, "shared_experts", 5), MOERT_SCORE_SIGMOID,
       MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"kimi_linear", R"("num_experts": 4, "num_experts_per_token": 2, "num_shared_experts": 1,
                         "first_k_dense_replace": 1, "moe_layer_freq": 1)",
       kimi, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"bailing_moe_v2", R"("num_experts": 4, "num_shared_experts": 1, "first_k_dense_replace": 1)",
       Experts(mlp, {gate, {mlp + "gate.expert_bias", {4}}}, "shared_experts", 5),
       MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"ernie4_5_moe", R"("moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 2,
                          "moe_layer_start_index": 1, "moe_layer_end_index": 1)",
       Experts(mlp,
               {gate,
                {mlp + "moe_statics.e_score_correction_bias", {1, 4}},
                {mlp + "experts.{e}.gate_proj.bias", {5}},
                {mlp + "experts.{e}.up_proj.bias", {5}},
                {mlp + "experts.{e}.down_proj.bias", {6}}},
               "shared_experts", 10),
       MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM_MIN, 10, 11},
      {"lfm2_moe",
       R"("num_experts": 4, "num_dense_layers": 1, "use_expert_bias": true)",
       {{ff + "gate.weight", {4, 6}},
        {ff + "expert_bias", {4}},
        {ff + "experts.{e}.w1.weight", {5, 6}},
        {ff + "experts.{e}.w3.weight", {5, 6}},
        {ff + "experts.{e}.w2.weight", {6, 5}}},
       MOERT_SCORE_SIGMOID,
       MOERT_RENORMALIZE_SUM_EPSILON,
       0,
       5},
      {"nemotron_h",
       R"("n_routed_experts": 4, "hybrid_override_pattern": "ME", "moe_latent_size": 3,
                        "moe_shared_expert_intermediate_size": 7)",
       {{mixer + "gate.weight", {4, 6}},
        {mixer + "gate.e_score_correction_bias", {4}},
        {mixer + "experts.{e}.up_proj.weight", {5, 3}},
        {mixer + "experts.{e}.down_proj.weight", {3, 5}},
        {mixer + "fc1_latent_proj.weight", {3, 6}},
        {mixer + "fc2_latent_proj.weight", {6, 3}},
        {mixer + "shared_experts.up_proj.weight", {7, 6}},
        {mixer + "shared_experts.down_proj.weight", {6, 7}}},
       MOERT_SCORE_SIGMOID,
       MOERT_RENORMALIZE_SUM_EPSILON,
       7,
       8},
      {"arctic", R"("num_local_experts": 4, "intermediate_size": 5, "moe_layer_frequency": 2)",
       mixtral, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 0, 4},
      {"afmoe", R"("num_experts": 4, "num_shared_experts": 1, "num_dense_layers": 1)",
       Experts(mlp, {{mlp + "router.gate.weight", {4, 6}}, {mlp + "expert_bias", {4}}},
               "shared_experts", 5),
       MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"exaone_moe",
       R"("num_experts": 4, "num_shared_experts": 1, "mlp_layer_types": ["dense", "sparse"])",
       Experts(mlp, {gate, bias}, "shared_experts", 5), MOERT_SCORE_SIGMOID,
       MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"hy_v3", R"("num_experts": 4, "num_shared_experts": 1)",
       Experts(mlp, {gate, {mlp + "e_score_correction_bias", {4}}}, "shared_experts", 5),
       MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"laguna", R"("num_experts": 4, "shared_expert_intermediate_size": 8)",
       Experts(mlp, {gate, bias}, "shared_experts", 8), MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM,
       8, 8}};
  for (const MadeUp& entry : cases) CheckMadeUp(entry, 2);
}

TEST_CASE("families whose layers are all MoE pack a model of one layer") {
  const std::string mlp = "model.layers.0.mlp.", sparse = "model.layers.0.block_sparse_moe.";
  const TestTensor gate = {mlp + "gate.weight", {4, 6}};
  const MadeUp cases[] = {
      {"flex_olmo", R"("num_experts": 4, "intermediate_size": 5)", Experts(mlp, {gate}),
       MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_NONE, 0, 4},
      {"solar_open", R"("n_routed_experts": 4, "n_shared_experts": 1)",
       Experts(mlp, {gate, {mlp + "gate.e_score_correction_bias", {4}}}, "shared_experts", 5),
       MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 5, 8},
      {"granitemoehybrid",
       R"("num_local_experts": 4, "intermediate_size": 5, "shared_intermediate_size": 7)",
       {{sparse + "router.layer.weight", {4, 6}},
        {sparse + "input_linear.weight", {4, 10, 6}},
        {sparse + "output_linear.weight", {4, 6, 5}},
        {"model.layers.0.shared_mlp.input_linear.weight", {14, 6}},
        {"model.layers.0.shared_mlp.output_linear.weight", {6, 7}}},
       MOERT_SCORE_SOFTMAX_TOP_K,
       MOERT_RENORMALIZE_NONE,
       7,
       5},
      {"grok",
       R"("num_experts": 4, "intermediate_size": 5)",
       {{sparse + "gate.weight", {4, 6}},
        {sparse + "experts.{e}.w1.weight", {5, 6}},
        {sparse + "experts.{e}.w3.weight", {5, 6}},
        {sparse + "experts.{e}.w2.weight", {6, 5}}},
       MOERT_SCORE_SOFTMAX,
       MOERT_RENORMALIZE_NONE,
       0,
       4}};
  for (const MadeUp& entry : cases) CheckMadeUp(entry, 1);
}

TEST_CASE("experts and top_k that are lists are read at the layer's place") {
  const TemporaryFolder folder;
  folder.Write("config.json",
               R"({"model_type": "hunyuan_v1_moe", "num_hidden_layers": 2, "hidden_size": 6,
      "intermediate_size": 5, "num_experts": [2, 4], "moe_topk": [1, 3], "hidden_act": "silu"})");
  std::vector<TestTensor> tensors;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string at = "model.layers." + std::to_string(layer) + ".mlp.";
    const int experts = layer == 0 ? 2 : 4;
    tensors.push_back({at + "gate.wg.weight", {experts, 6}});
    for (int expert = -1; expert < experts; ++expert) {
      const std::string name =
          expert < 0 ? at + "shared_mlp." : at + "experts." + std::to_string(expert) + ".";
      tensors.push_back({name + "gate_proj.weight", {5, 6}});
      tensors.push_back({name + "up_proj.weight", {5, 6}});
      tensors.push_back({name + "down_proj.weight", {6, 5}});
    }
  }
  folder.Write("model.safetensors", MakeSafetensors(tensors));
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CheckOk(fixture.Open(folder / "model.moem"));
  for (uint32_t i = 0; i < 2; ++i) {
    moert_layer_info info = MOERT_LAYER_INFO_INIT;
    CheckOk(fixture.manifest->LayerInfo(i, &info));
    CHECK(info.num_experts == (i == 0 ? 2 : 4));
    CHECK(info.top_k == (i == 0 ? 1 : 3));
  }
}

TEST_CASE("gemma4's router is described with its norm, scales and multiplier") {
  const TemporaryFolder folder;
  folder.Write("config.json",
               R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text",
      "num_hidden_layers": 1, "hidden_size": 4, "moe_intermediate_size": 3, "num_experts": 2,
      "top_k_experts": 1, "enable_moe_block": true, "hidden_activation": "gelu_pytorch_tanh",
      "rms_norm_eps": 1e-5}})");
  const std::string at = "model.language_model.layers.0.";
  folder.Write("model.safetensors", MakeSafetensors({{at + "router.proj.weight", {2, 4}},
                                                     {at + "router.scale", {4}},
                                                     {at + "router.per_expert_scale", {2}},
                                                     {at + "experts.gate_up_proj", {2, 6, 4}},
                                                     {at + "experts.down_proj", {2, 4, 3}}}));
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CheckOk(fixture.Open(folder / "model.moem"));
  moert_routing routing = MOERT_ROUTING_INIT;
  CheckOk(fixture.manifest->LayerRouting(0, &routing));
  CHECK(routing.flags == MOERT_ROUTING_FLAG_RMS_NORM_INPUT);
  CHECK(routing.input_multiplier == 0.5f);
  CHECK(routing.input_rms_epsilon == 1e-5f);
  moert_activation activation = MOERT_ACTIVATION_INIT;
  CheckOk(fixture.manifest->LayerActivation(0, &activation, nullptr));
  CHECK(activation.kind == MOERT_ACTIVATION_KIND_GELU_TANH);
}

// Packs, finds the scheme and block of a weight, and checks that a layer names the scheme.
void CheckQuant(const TemporaryFolder& folder, moert_role role, moert_quant_scheme scheme,
                uint32_t block_rows, uint32_t block_cols, const char* name) {
  ManifestFixture fixture;
  CheckOk(fixture.Pack(folder.path()));
  CheckOk(fixture.Open(folder / "model.moem"));
  const std::string bytes = folder.Read("model.moem");
  bool found = false;
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  CheckOk(fixture.manifest->LayerInfo(0, &info));
  for (uint32_t i = 0; i < info.num_weights; ++i) {
    moert_weight_info weight = MOERT_WEIGHT_INFO_INIT;
    CheckOk(fixture.manifest->LayerWeight(0, i, &weight));
    if (weight.role != role) continue;
    found = true;
    CHECK(weight.quant_scheme == scheme);
    const schema::Weight& stored =
        *schema::GetManifest(bytes.data())->layers()->Get(0)->weights()->Get(i);
    CHECK(stored.quant()->block_rows() == block_rows);
    CHECK(stored.quant()->block_cols() == block_cols);
  }
  CHECK(found);
  ManifestLayer layer(&fixture.allocator);
  CheckFails(fixture.manifest->Layer(0, {}, &layer), MOERT_STATUS_UNSUPPORTED, name);
}

std::string Qwen3Config(const std::string& more, int hidden, int intermediate) {
  return R"({"model_type": "qwen3_moe", "num_hidden_layers": 1, "num_experts": 2,
             "num_experts_per_tok": 1, "hidden_size": )" +
         std::to_string(hidden) + ", \"moe_intermediate_size\": " + std::to_string(intermediate) +
         ", \"quantization_config\": " + more + "}";
}

TEST_CASE("fp8 weights with block scales are recorded") {
  const TemporaryFolder folder;
  folder.Write(
      "config.json",
      Qwen3Config(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", 200, 130));
  const std::string at = "model.layers.0.mlp.";
  std::vector<TestTensor> tensors = {{at + "gate.weight", {2, 200}, "BF16", 2}};
  for (int expert = 0; expert < 2; ++expert) {
    const std::string name = at + "experts." + std::to_string(expert) + ".";
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
      const bool down = part[0] == 'd';
      tensors.push_back({name + part + ".weight",
                         down ? std::vector<int64_t>{200, 130} : std::vector<int64_t>{130, 200},
                         "F8_E4M3", 1});
      tensors.push_back({name + part + ".weight_scale_inv", {2, 2}});
    }
  }
  folder.Write("model.safetensors", MakeSafetensors(tensors));
  CheckQuant(folder, MOERT_ROLE_EXPERT_GATE, MOERT_QUANT_SCHEME_FP8_BLOCK, 128, 128, "fp8_block");
  tensors.back().name += "x";
  folder.Write("model.safetensors", MakeSafetensors(tensors));
  ManifestFixture fixture;
  CheckFails(fixture.Pack(folder.path()), MOERT_STATUS_NOT_FOUND,
             "experts.1.down_proj.weight_scale_inv");
}

TEST_CASE("mxfp4 weights are recorded") {
  const TemporaryFolder folder;
  folder.Write("config.json",
               R"({"model_type": "gpt_oss", "num_hidden_layers": 1, "hidden_size": 64,
      "intermediate_size": 32, "num_local_experts": 2, "num_experts_per_tok": 1,
      "quantization_config": {"quant_method": "mxfp4"}})");
  const std::string at = "model.layers.0.mlp.";
  folder.Write("model.safetensors",
               MakeSafetensors({{at + "router.weight", {2, 64}},
                                {at + "router.bias", {2}},
                                {at + "experts.gate_up_proj_blocks", {2, 64, 2, 16}, "U8", 1},
                                {at + "experts.gate_up_proj_scales", {2, 64, 2}, "U8", 1},
                                {at + "experts.gate_up_proj_bias", {2, 64}},
                                {at + "experts.down_proj_blocks", {2, 64, 1, 16}, "U8", 1},
                                {at + "experts.down_proj_scales", {2, 64, 1}, "U8", 1},
                                {at + "experts.down_proj_bias", {2, 64}}}));
  CheckQuant(folder, MOERT_ROLE_EXPERT_GATE_UP, MOERT_QUANT_SCHEME_MXFP4, 1, 32, "mxfp4");
}

TEST_CASE("int4 weights of gptq, awq and compressed-tensors are recorded") {
  const std::string at = "model.layers.0.mlp.";
  for (const std::string method : {"gptq", "awq", "compressed-tensors"}) {
    INFO(method);
    const TemporaryFolder folder;
    const bool packed = method == "compressed-tensors";
    folder.Write(
        "config.json",
        Qwen3Config(packed ? R"({"quant_method": "compressed-tensors", "config_groups":
                                 {"group_0": {"weights": {"num_bits": 4, "group_size": 8}}}})"
                           : R"({"quant_method": ")" + method + R"(", "bits": 4, "group_size": 8})",
                    32, 16));
    std::vector<TestTensor> tensors = {{at + "gate.weight", {2, 32}}};
    for (int expert = 0; expert < 2; ++expert) {
      for (const char* part : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string name = at + "experts." + std::to_string(expert) + "." + part;
        const int64_t out = part[0] == 'd' ? 32 : 16, in = part[0] == 'd' ? 16 : 32;
        if (packed) {
          tensors.push_back({name + ".weight_packed", {out, in / 8}, "I32", 4});
          tensors.push_back({name + ".weight_scale", {out, in / 8}, "F16", 2});
          continue;
        }
        tensors.push_back({name + ".qweight",
                           method == "gptq" ? std::vector<int64_t>{in / 8, out}
                                            : std::vector<int64_t>{in, out / 8},
                           "I32", 4});
        tensors.push_back({name + ".qzeros", {in / 8, out / 8}, "I32", 4});
        tensors.push_back({name + ".scales", {in / 8, out}, "F16", 2});
      }
    }
    folder.Write("model.safetensors", MakeSafetensors(tensors));
    CheckQuant(folder, MOERT_ROLE_EXPERT_UP, MOERT_QUANT_SCHEME_INT4_GROUP, packed ? 1 : 8,
               packed ? 8 : 1, "int4_group");
  }
}

}  // namespace
}  // namespace moert
