// SPDX-License-Identifier: Apache-2.0
// Model families of which there is no checkpoint: one is written in the family's own keys, names
// and layouts, and what the library makes of it is compared with the float64 reference, whose knobs
// are set in support/derived_families.cc from the family's published definition. Each checkpoint is
// written a second time as transformers 5 names and stacks its tensors, and must give the same
// bits.
#include "support/derived_families.h"

#include <algorithm>
#include <fstream>

#include "support/layers.h"

namespace moert::test {
namespace {

using Names = std::vector<PartName>;

constexpr int64_t kHidden = kDerivedHidden, kIntermediate = kDerivedIntermediate;
constexpr moert_dtype kBfloat16 = MOERT_DTYPE_BFLOAT16, kFloat32 = MOERT_DTYPE_FLOAT32;

bool Holds(const Names& names, Part part) {
  return std::any_of(names.begin(), names.end(),
                     [part](const PartName& name) { return name.part == part; });
}

// Random weights for the knobs, those that the names have. Every expert's logit falls with the
// first element of x, so that a token can have scores that are all next to nothing.
RefLayer Derive(Rng& rng, const DerivedFamily& family, int index) {
  RefLayer out;
  family.knobs(&out, index);
  out.shared_activation = out.activation;
  const int32_t experts = out.num_experts();
  const bool gated = (out.activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0;
  out.router.weight = rng.NormalMat(experts, kHidden, 0.4, kBfloat16);
  for (int32_t e = 0; e < experts; ++e) out.router.weight(e, 0) = -0.875;
  const Names& names = family.names;
  if (Holds(names, Part::kSelectionBias) || Holds(names, Part::kSelectionBiasRow)) {
    out.router.selection_bias = rng.NormalMat(1, experts, 0.3, kFloat32);
  }
  if (Holds(names, Part::kInputScale)) {
    out.router.input_scale = rng.NormalMat(1, kHidden, 4, kBfloat16);
  }
  if (Holds(names, Part::kExpertScale)) {
    out.router.expert_scale = rng.NormalMat(1, experts, 1, kBfloat16);
  }
  for (int32_t e = 0; e < experts; ++e) {
    RefExpert& expert = out.experts.emplace_back(
        RandomExpert(rng, out.expert_width(), kIntermediate, gated, kBfloat16));
    if (!Holds(names, Part::kGateBias)) continue;
    expert.gate_bias = rng.NormalMat(1, kIntermediate, 0.5, kBfloat16);
    expert.up_bias = rng.NormalMat(1, kIntermediate, 0.5, kBfloat16);
    expert.down_bias = rng.NormalMat(1, kHidden, 0.5, kBfloat16);
  }
  if (out.shared_intermediate != 0) {
    out.shared = RandomExpert(rng, kHidden, out.shared_intermediate, gated, kBfloat16);
  }
  if (out.latent != 0) {
    out.latent_in = rng.NormalMat(out.latent, kHidden, 0.2, kBfloat16);
    out.latent_out = rng.NormalMat(kHidden, out.latent, 0.3, kBfloat16);
  }
  return out;
}

// Writes the checkpoint into a folder, with a dense layer's tensors where a layer is not MoE.
void WriteCheckpoint(const std::filesystem::path& folder, const DerivedFamily& family,
                     const std::vector<RefLayer>& layers, bool as_transformers5) {
  const std::string& config =
      as_transformers5 && !family.config5.empty() ? family.config5 : family.config;
  std::ofstream(folder / "config.json") << config;
  const std::string& prefix =
      as_transformers5 && !family.prefix5.empty() ? family.prefix5 : family.prefix;
  const Names& names = as_transformers5 && !family.names5.empty() ? family.names5 : family.names;
  std::vector<StoredTensor> tensors;
  size_t next = 0;
  for (int n = 0; n < family.num_layers; ++n) {
    std::string own = prefix;
    own.replace(own.find("{n}"), 3, std::to_string(n));
    if (next < layers.size() && family.moe_layers[next] == n) {
      AddTensors(layers[next++], own, names, family.router_dtype, &tensors);
    } else {
      tensors.push_back({own + "mlp.up_proj.weight", {1, 2}, kBfloat16, {1, 2}});
    }
  }
  WriteSafetensors(folder / "model.safetensors", tensors);
}

// What a layer gives where one knob is not as the family's definition has it.
std::vector<std::pair<std::string, RefLayer>> Mistakes(const RefLayer& right) {
  std::vector<std::pair<std::string, RefLayer>> out;
  auto add = [&](const char* name, auto change) {
    RefLayer wrong = right;
    change(wrong.router.routing, wrong);
    out.emplace_back(name, std::move(wrong));
  };
  const moert_routing& routing = right.router.routing;
  add("score", [](moert_routing& r, RefLayer&) {
    r.score = r.score == MOERT_SCORE_SIGMOID ? MOERT_SCORE_SOFTMAX : MOERT_SCORE_SIGMOID;
  });
  if (routing.score != MOERT_SCORE_SOFTMAX_TOP_K) {
    add("renormalize", [](moert_routing& r, RefLayer&) {
      r.renormalize =
          r.renormalize == MOERT_RENORMALIZE_NONE ? MOERT_RENORMALIZE_SUM : MOERT_RENORMALIZE_NONE;
    });
  }
  if (routing.renormalize == MOERT_RENORMALIZE_SUM_EPSILON) {
    add("renormalize_value", [](moert_routing& r, RefLayer&) {
      r.renormalize_value = r.renormalize_value == 1e-6f ? 1e-20f : 1e-6f;
    });
  }
  if (routing.renormalize == MOERT_RENORMALIZE_SUM_MIN) {
    add("renormalize_value", [](moert_routing& r, RefLayer&) {
      r.renormalize_value = r.renormalize_value == 0.5f ? 1e-12f : 0.5f;
    });
  }
  if (routing.routed_scaling_factor != 0) {
    add("routed_scaling_factor", [](moert_routing& r, RefLayer&) { r.routed_scaling_factor = 1; });
  }
  if (routing.num_groups > 1) {
    add("num_groups", [](moert_routing& r, RefLayer&) { r.num_groups = 0; });
    add("group_score", [](moert_routing& r, RefLayer&) { r.group_score = MOERT_GROUP_SCORE_MAX; });
  }
  if (routing.logit_soft_cap != 0) {
    add("logit_soft_cap", [](moert_routing& r, RefLayer&) { r.logit_soft_cap = 0; });
  }
  if (routing.flags != 0) {
    add("rms_norm_input", [](moert_routing& r, RefLayer&) { r.flags = 0; });
    add("input_rms_epsilon", [](moert_routing& r, RefLayer&) { r.input_rms_epsilon = 1e-6f; });
    add("input_multiplier", [](moert_routing& r, RefLayer&) { r.input_multiplier = 1; });
  }
  if (!right.router.selection_bias.empty()) {
    add("selection bias", [](moert_routing&, RefLayer& l) { l.router.selection_bias = Mat(); });
  }
  add("activation", [](moert_routing&, RefLayer& l) {
    l.activation.kind = l.activation.kind == MOERT_ACTIVATION_KIND_SILU
                            ? MOERT_ACTIVATION_KIND_GELU_TANH
                            : MOERT_ACTIVATION_KIND_SILU;
  });
  add("weight application",
      [](moert_routing&, RefLayer& l) { l.weight_application = MOERT_WEIGHT_APPLICATION_INPUT; });
  if (right.shared_intermediate != 0) {
    add("shared expert", [](moert_routing&, RefLayer& l) { l.shared_intermediate = 0; });
  }
  return out;
}

// Whether what CheckForward compares would tell the two apart.
bool Differ(const RefLayer& a, const RefLayer& b, const Mat& x) {
  constexpr double kVisible = 1e-3;
  const Mat logits_a = RefLogits(a.router, x), logits_b = RefLogits(b.router, x);
  if (RelativeError(logits_a, logits_b) > kVisible) return true;
  const RefRoute route_a = RefChoose(a.router, logits_a), route_b = RefChoose(b.router, logits_b);
  if (route_a.ids != route_b.ids) return true;
  for (int64_t t = 0; t < x.rows; ++t) {
    Mat row_a(1, a.top_k()), row_b(1, b.top_k());
    std::copy_n(route_a.weights.v.begin() + t * a.top_k(), a.top_k(), row_a.v.begin());
    std::copy_n(route_b.weights.v.begin() + t * b.top_k(), b.top_k(), row_b.v.begin());
    if (RelativeError(row_a, row_b) > kVisible) return true;
  }
  return RelativeError(RefForward(a, x, route_a.ids, route_a.weights),
                       RefForward(b, x, route_b.ids, route_b.weights)) > kVisible;
}

// Tokens on which each knob matters: the last one's scores are all small, the first one is small.
Mat Tokens(Rng& rng) {
  constexpr int64_t kTokens = 13;
  Mat out = rng.NormalMat(kTokens, kHidden, 1, kFloat32);
  for (int64_t t = 0; t < kTokens; ++t) out(t, 0) = RoundTo(kFloat32, 0.3 * out(t, 0));
  for (int64_t h = 0; h < kHidden; ++h) out(0, h) = RoundTo(kFloat32, 0.05 * out(0, h));
  out(kTokens - 1, 0) = 14;
  return out;
}

// Whether a library that had one of the knobs wrong would be seen; `which` names one that would
// not.
bool EachKnobMatters(const RefLayer& layer, const Mat& x, std::string* which) {
  for (const auto& [name, wrong] : Mistakes(layer)) {
    if (Differ(wrong, layer, x)) continue;
    *which = name;
    return false;
  }
  return true;
}

struct Derived {
  std::vector<RefLayer> layers;
  Mat x;
};

// Draws again where a knob happens not to matter.
Derived Draw(Rng& rng, const DerivedFamily& family) {
  std::string which;
  Derived out;
  for (int attempt = 0; attempt < 30; ++attempt) {
    out.x = Tokens(rng);
    out.layers.clear();
    bool matters = true;
    for (int index = 0; index < static_cast<int>(family.moe_layers.size()) && matters; ++index) {
      out.layers.push_back(Derive(rng, family, index));
      matters = EachKnobMatters(out.layers.back(), out.x, &which);
    }
    if (matters) return out;
  }
  FAIL("nothing in this test would show a wrong ", which);
  return out;
}

std::vector<uint8_t> RunDerived(Rng& rng, Device& device, const moert_manifest* manifest,
                                uint32_t index, const RefLayer& reference, const Mat& x) {
  moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
  desc.dtype = kFloat32;
  Layer layer;
  REQUIRE_OK(moert_layer_open(device.handle, manifest, index, &desc, layer.out(), &error));
  ForwardInput input;
  input.x = x;
  CheckForward(rng, device, layer, reference, input);
  return RunForward(device, layer, reference, input).y_bytes;
}

void CheckDerived(Rng& rng, Device& device, const DerivedFamily& family) {
  const Derived derived = Draw(rng, family);
  std::vector<std::vector<uint8_t>> first;
  for (bool as_transformers5 : {false, true}) {
    CAPTURE(as_transformers5);
    const TemporaryFolder folder;
    WriteCheckpoint(folder.path(), family, derived.layers, as_transformers5);
    moert_pack_result packed;
    const ManifestHandle manifest = PackAndOpen(device, folder.path(), &packed);
    REQUIRE(packed.num_layers == family.moe_layers.size());
    CHECK(packed.num_skipped_layers == family.num_layers - family.moe_layers.size());
    for (uint32_t i = 0; i < packed.num_layers; ++i) {
      moert_layer_info info = MOERT_LAYER_INFO_INIT;
      REQUIRE_OK(moert_manifest_layer(manifest, i, &info, &error));
      CHECK(info.model_layer == family.moe_layers[i]);
      auto bytes = RunDerived(rng, device, manifest, i, derived.layers[i], derived.x);
      if (as_transformers5) {
        CHECK(bytes == first[i]);
      } else {
        first.push_back(std::move(bytes));
      }
    }
  }
}

TEST_CASE("families without a checkpoint here compute what their definitions say, as both spell") {
  for (const DerivedFamily& family : DerivedFamilies()) {
    INFO(family.title);
    Rng rng;
    CAPTURE(rng.seed);
    ForEachDevice([&](Device& device) { CheckDerived(rng, device, family); });
  }
}

}  // namespace
}  // namespace moert::test
