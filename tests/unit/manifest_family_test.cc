// SPDX-License-Identifier: Apache-2.0
// The built-in families on tiny checkpoints that transformers saved: what is packed, and that
// layers point at the right bytes.
#include <map>

#include "manifest_support.h"

namespace moert {
namespace {

// A copy of a checked-in checkpoint without its reference, to pack in.
void CopyCheckpoint(const std::string& name, const TemporaryFolder& folder) {
  const std::filesystem::path from =
      std::filesystem::path(MOERT_SOURCE_DIR) / "tests/data/families" / name;
  for (const char* file : {"config.json", "model.safetensors"}) {
    std::filesystem::copy_file(from / file, folder / file);
  }
}

struct Expected {
  const char* name;
  int32_t experts, top_k;
  moert_score score;
  moert_renormalize renormalize;
  int64_t shared;
  uint32_t layers, skipped;
};

constexpr Expected kExpected[] = {
    {"aria_text", 8, 2, MOERT_SCORE_SOFTMAX_TOP_K, MOERT_RENORMALIZE_NONE, 24, 2, 0},
    {"dbrx", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_P_NORM, 0, 2, 0},
    {"deepseek_v2", 16, 4, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_NONE, 24, 2, 0},
    {"deepseek_v3", 16, 4, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 24, 2, 0},
    {"glm4_moe", 16, 4, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 24, 2, 0},
    {"glm4_moe_lite", 16, 4, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM_EPSILON, 24, 1, 1},
    {"gpt_oss", 8, 2, MOERT_SCORE_SOFTMAX_TOP_K, MOERT_RENORMALIZE_NONE, 0, 2, 0},
    {"granitemoe", 8, 2, MOERT_SCORE_SOFTMAX_TOP_K, MOERT_RENORMALIZE_NONE, 0, 2, 0},
    {"granitemoeshared", 8, 2, MOERT_SCORE_SOFTMAX_TOP_K, MOERT_RENORMALIZE_NONE, 56, 2, 0},
    {"jamba", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_NONE, 0, 2, 0},
    {"llama4_text", 8, 1, MOERT_SCORE_SIGMOID_TOP_K, MOERT_RENORMALIZE_NONE, 24, 2, 0},
    {"minimax", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 0, 2, 0},
    {"minimax_m2", 8, 2, MOERT_SCORE_SIGMOID, MOERT_RENORMALIZE_SUM, 0, 2, 0},
    {"mixtral", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 0, 2, 0},
    {"olmoe", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_NONE, 0, 2, 0},
    {"phimoe", 8, 2, MOERT_SCORE_SPARSEMIXER, MOERT_RENORMALIZE_NONE, 0, 2, 0},
    {"qwen2_moe", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_NONE, 56, 2, 0},
    {"qwen3_5_moe_text", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 56, 2, 0},
    {"qwen3_moe", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 0, 2, 0},
    {"qwen3_next", 8, 2, MOERT_SCORE_SOFTMAX, MOERT_RENORMALIZE_SUM, 56, 2, 0},
};

TEST_CASE("each family's checkpoint packs to its layers") {
  for (const Expected& expected : kExpected) {
    INFO(std::string(expected.name));
    const TemporaryFolder folder;
    CopyCheckpoint(expected.name, folder);
    ManifestFixture fixture;
    CheckOk(fixture.Pack(folder.path()));
    CHECK(fixture.packed.num_layers == expected.layers);
    CHECK(fixture.packed.num_skipped_layers == expected.skipped);
    CheckOk(fixture.Open(folder / "model.moem"));
    moert_layer_info info = MOERT_LAYER_INFO_INIT;
    CheckOk(fixture.manifest->LayerInfo(0, &info));
    CHECK(info.model_layer == static_cast<int32_t>(expected.skipped));
    CHECK(info.hidden == 48);
    CHECK(info.intermediate == 24);
    CHECK(info.num_experts == expected.experts);
    CHECK(info.top_k == expected.top_k);
    CHECK(info.shared_intermediate == expected.shared);
    CHECK(info.dtype == MOERT_DTYPE_FLOAT32);
    moert_routing routing = MOERT_ROUTING_INIT;
    CheckOk(fixture.manifest->LayerRouting(0, &routing));
    CHECK(routing.score == expected.score);
    CHECK(routing.renormalize == expected.renormalize);
    CheckOk(fixture.manifest->Verify(nullptr, nullptr));
  }
}

TEST_CASE("layers that are not MoE are logged") {
  const TemporaryFolder folder;
  CopyCheckpoint("glm4_moe_lite", folder);
  std::string lines;
  moert_log_sink sink = MOERT_LOG_SINK_INIT;
  sink.min_level = MOERT_LOG_LEVEL_INFO;
  sink.user_data = &lines;
  sink.write = [](void* user_data, moert_log_level, const char* message) {
    *static_cast<std::string*>(user_data) += std::string(message) + "\n";
  };
  ManifestFixture fixture;
  fixture.log = Logger(&sink);
  CheckOk(fixture.Pack(folder.path()));
  CHECK(lines.find("layer 0 is not MoE") != std::string::npos);
  CHECK(lines.find("layer 1") == std::string::npos);
}

}  // namespace
}  // namespace moert
