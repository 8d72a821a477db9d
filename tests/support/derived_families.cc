// SPDX-License-Identifier: Apache-2.0
#include "derived_families.h"

namespace moert::test {
namespace {

using Names = std::vector<PartName>;

constexpr int64_t kHidden = kDerivedHidden, kIntermediate = kDerivedIntermediate;

// The usual names under `at`, three tensors an expert, or stacked as transformers 5 does it.
Names Experts(const std::string& at, Names more) {
  more.push_back({Part::kGate, at + "experts.{e}.gate_proj.weight"});
  more.push_back({Part::kUp, at + "experts.{e}.up_proj.weight"});
  more.push_back({Part::kDown, at + "experts.{e}.down_proj.weight"});
  return more;
}
Names NumberedExperts(const std::string& at, Names more) {
  more.push_back({Part::kGate, at + "experts.{e}.w1.weight"});
  more.push_back({Part::kUp, at + "experts.{e}.w3.weight"});
  more.push_back({Part::kDown, at + "experts.{e}.w2.weight"});
  return more;
}
Names StackedExperts(const std::string& at, Names more) {
  more.push_back({Part::kGateUp, at + "experts.gate_up_proj"});
  more.push_back({Part::kDown, at + "experts.down_proj"});
  return more;
}
Names WithShared(const std::string& at, Names more) {
  more.push_back({Part::kSharedGate, at + ".gate_proj.weight"});
  more.push_back({Part::kSharedUp, at + ".up_proj.weight"});
  more.push_back({Part::kSharedDown, at + ".down_proj.weight"});
  return more;
}

void Sizes(RefLayer* layer, int32_t experts, int32_t top_k, int64_t shared = 0) {
  layer->hidden = kHidden;
  layer->intermediate = kIntermediate;
  layer->shared_intermediate = shared;
  layer->router.routing.num_experts = experts;
  layer->router.routing.top_k = top_k;
}
// Sigmoid scores, the raw ones of the chosen divided by their sum plus epsilon, then scaled.
void Sigmoid(RefLayer* layer, float scale, float epsilon = 1e-20f) {
  moert_routing& routing = layer->router.routing;
  routing.score = MOERT_SCORE_SIGMOID;
  routing.renormalize = MOERT_RENORMALIZE_SUM_EPSILON;
  routing.renormalize_value = epsilon;
  routing.routed_scaling_factor = scale;
}
void Groups(RefLayer* layer, int32_t groups, int32_t kept) {
  layer->router.routing.num_groups = groups;
  layer->router.routing.top_k_groups = kept;
  layer->router.routing.group_score = MOERT_GROUP_SCORE_TOP2_SUM;
}

const std::string kModel = "model.layers.{n}.", kMlp = "mlp.", kSparse = "block_sparse_moe.";
const PartName kGate = {Part::kRouter, "mlp.gate.weight"};
const PartName kBias = {Part::kSelectionBias, "mlp.gate.e_score_correction_bias"};
const Names kDeepseek = WithShared("mlp.shared_experts", Experts(kMlp, {kGate, kBias}));
const Names kDeepseek5 = WithShared("mlp.shared_experts", StackedExperts(kMlp, {kGate, kBias}));
constexpr moert_dtype kBfloat16 = MOERT_DTYPE_BFLOAT16, kFloat32 = MOERT_DTYPE_FLOAT32;

std::vector<DerivedFamily> SoftmaxFamilies() {
  const Names mixtral = NumberedExperts(kSparse, {{Part::kRouter, kSparse + "gate.weight"}});
  const Names granite = {{Part::kRouter, kSparse + "router.layer.weight"},
                         {Part::kGateUp, kSparse + "input_linear.weight"},
                         {Part::kDown, kSparse + "output_linear.weight"},
                         {Part::kSharedGateUp, "shared_mlp.input_linear.weight"},
                         {Part::kSharedDown, "shared_mlp.output_linear.weight"}};
  Names granite5 = granite;
  granite5[0].name = kSparse + "router.weight";
  granite5[1].name = kSparse + "experts.gate_up_proj";
  granite5[2].name = kSparse + "experts.down_proj";
  return {
      {"flex_olmo as it is",
       R"({"model_type": "flex_olmo", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 10, "hidden_act": "silu", "num_experts": 7,
           "num_experts_per_tok": 5, "norm_topk_prob": false})",
       "",
       {0, 1},
       2,
       kModel,
       "",
       Experts(kMlp, {kGate}),
       StackedExperts(kMlp, {kGate}),
       kBfloat16,
       [](RefLayer* layer, int) { Sizes(layer, 7, 5); }},
      {"flex_olmo with norm_topk_prob",
       R"({"model_type": "flex_olmo", "num_hidden_layers": 1, "hidden_size": 24,
           "intermediate_size": 10, "hidden_act": "silu", "num_experts": 7,
           "num_experts_per_tok": 5, "norm_topk_prob": true})",
       "",
       {0},
       1,
       kModel,
       "",
       Experts(kMlp, {kGate}),
       StackedExperts(kMlp, {kGate}),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 7, 5);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM;
       }},
      {"qwen3_moe with dense layers between",
       R"({"model_type": "qwen3_moe", "num_hidden_layers": 6, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_tok": 3, "norm_topk_prob": true,
           "decoder_sparse_step": 2, "mlp_only_layers": [3]})",
       "",
       {1, 5},
       6,
       kModel,
       "",
       Experts(kMlp, {kGate}),
       StackedExperts(kMlp, {kGate}),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM;
       }},
      {"jamba with a period and an offset",
       R"({"model_type": "jamba", "num_hidden_layers": 7, "hidden_size": 24,
           "intermediate_size": 10, "hidden_act": "silu", "num_experts": 8,
           "num_experts_per_tok": 2, "expert_layer_period": 3, "expert_layer_offset": 2})",
       "",
       {2, 5},
       7,
       kModel,
       "",
       Experts("feed_forward.", {{Part::kRouter, "feed_forward.router.weight"}}),
       StackedExperts("feed_forward.", {{Part::kRouter, "feed_forward.router.weight"}}),
       kBfloat16,
       [](RefLayer* layer, int) { Sizes(layer, 8, 2); }},
      {"granitemoehybrid",
       R"({"model_type": "granitemoehybrid", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 10, "shared_intermediate_size": 13, "hidden_act": "silu",
           "num_local_experts": 8, "num_experts_per_tok": 3,
           "layer_types": ["mamba", "attention"]})",
       "",
       {0, 1},
       2,
       kModel,
       "",
       granite,
       granite5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, 13);
         layer->router.routing.score = MOERT_SCORE_SOFTMAX_TOP_K;
       }},
      {"hunyuan_v1_moe with a list of each",
       R"({"model_type": "hunyuan_v1_moe", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 13, "moe_intermediate_size": [10, 10], "hidden_act": "silu",
           "num_experts": [5, 8], "moe_topk": [2, 3], "num_shared_expert": [1, 1],
           "use_mixed_mlp_moe": true})",
       "",
       {0, 1},
       2,
       kModel,
       "",
       WithShared("mlp.shared_mlp", Experts(kMlp, {{Part::kRouter, "mlp.gate.wg.weight"}})),
       WithShared("mlp.shared_mlp", StackedExperts(kMlp, {{Part::kRouter, "mlp.gate.wg.weight"}})),
       kFloat32,
       [](RefLayer* layer, int index) {
         Sizes(layer, index == 0 ? 5 : 8, index == 0 ? 2 : 3, 13);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM;
       }},
      {"arctic",
       R"({"model_type": "arctic", "num_hidden_layers": 4, "hidden_size": 24,
           "intermediate_size": 10, "hidden_act": "silu", "num_local_experts": 8,
           "num_experts_per_tok": 2, "moe_layer_frequency": 2, "use_residual": true})",
       "",
       {1, 3},
       4,
       kModel,
       "",
       mixtral,
       {},
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 2);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM;
       }},
      {"arctic that chooses one",
       R"({"model_type": "arctic", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 10, "hidden_act": "silu", "num_local_experts": 8,
           "num_experts_per_tok": 1, "moe_layer_frequency": 1})",
       "",
       {0, 1},
       2,
       kModel,
       "",
       mixtral,
       {},
       kBfloat16,
       [](RefLayer* layer, int) { Sizes(layer, 8, 1); }},
      {"grok",
       R"({"model_type": "grok", "num_hidden_layers": 1, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "gelu",
           "num_local_experts": 8, "num_experts_per_tok": 2, "router_logit_softcapping": 30.0})",
       "",
       {0},
       1,
       kModel,
       "",
       mixtral,
       {{Part::kRouter, "moe_block.gate.weight"},
        {Part::kGate, "moe_block.experts.{e}.linear.weight"},
        {Part::kUp, "moe_block.experts.{e}.linear_v.weight"},
        {Part::kDown, "moe_block.experts.{e}.linear_1.weight"}},
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 2);
         layer->router.routing.logit_soft_cap = 30;
         layer->activation.kind = MOERT_ACTIVATION_KIND_GELU_TANH;
       }},
      {"gemma4",
       R"({"model_type": "gemma4", "text_config": {"model_type": "gemma4_text",
           "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 17,
           "moe_intermediate_size": 10, "hidden_activation": "gelu_pytorch_tanh",
           "enable_moe_block": true, "num_experts": 8, "top_k_experts": 3,
           "rms_norm_eps": 1e-2}})",
       "",
       {0, 1},
       2,
       "model.language_model.layers.{n}.",
       "",
       {{Part::kRouter, "router.proj.weight"},
        {Part::kInputScale, "router.scale"},
        {Part::kExpertScale, "router.per_expert_scale"},
        {Part::kGateUp, "experts.gate_up_proj"},
        {Part::kDown, "experts.down_proj"}},
       {},
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3);
         moert_routing& routing = layer->router.routing;
         routing.renormalize = MOERT_RENORMALIZE_SUM;
         routing.flags = MOERT_ROUTING_FLAG_RMS_NORM_INPUT;
         routing.input_rms_epsilon = 1e-2f;
         routing.input_multiplier = 0.20412415f;  // 1 / sqrt(24)
         layer->activation.kind = MOERT_ACTIVATION_KIND_GELU_TANH;
       }},
  };
}

std::vector<DerivedFamily> ErnieFamilies() {
  const PartName bias = {Part::kSelectionBiasRow, "mlp.moe_statics.e_score_correction_bias"};
  const PartName bias5 = {Part::kSelectionBiasRow, "mlp.gate.moe_statics.e_score_correction_bias"};
  Names biased = WithShared("mlp.shared_experts", Experts(kMlp, {kGate, bias}));
  biased.push_back({Part::kGateBias, "mlp.experts.{e}.gate_proj.bias"});
  biased.push_back({Part::kUpBias, "mlp.experts.{e}.up_proj.bias"});
  biased.push_back({Part::kDownBias, "mlp.experts.{e}.down_proj.bias"});
  return {
      {"ernie4_5_moe",
       R"({"model_type": "ernie4_5_moe", "num_hidden_layers": 8, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 2, "moe_layer_interval": 2,
           "moe_layer_start_index": 2, "moe_layer_end_index": 6, "moe_norm_min": 1e-12})",
       "",
       {3, 5},
       8,
       kModel,
       "",
       WithShared("mlp.shared_experts", Experts(kMlp, {kGate, bias})),
       WithShared("mlp.shared_experts", StackedExperts(kMlp, {kGate, bias5})),
       kFloat32,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, 2 * kIntermediate);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM_MIN;
         layer->router.routing.renormalize_value = 1e-12f;
       }},
      {"ernie4_5_moe with biases and a larger least sum",
       R"({"model_type": "ernie4_5_moe", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "use_bias": true, "moe_num_experts": 8, "moe_k": 3, "moe_num_shared_experts": 1,
           "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_layer_end_index": -1,
           "moe_norm_min": 0.5})",
       "",
       {1, 2},
       3,
       kModel,
       "",
       biased,
       {},
       kFloat32,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, kIntermediate);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_SUM_MIN;
         layer->router.routing.renormalize_value = 0.5f;
       }},
  };
}

std::vector<DerivedFamily> DeepseekFamilies() {
  const Names kimi_linear = WithShared(
      kSparse + "shared_experts",
      NumberedExperts(kSparse, {{Part::kRouter, kSparse + "gate.weight"},
                                {Part::kSelectionBias, kSparse + "gate.e_score_correction_bias"}}));
  const PartName bailing_bias = {Part::kSelectionBias, "mlp.gate.expert_bias"};
  const Names bailing = WithShared("mlp.shared_experts", Experts(kMlp, {kGate, bailing_bias}));
  return {
      {"deepseek_v3 with a type for each layer",
       R"({"model_type": "deepseek_v3", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4,
           "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
           "scoring_func": "sigmoid", "topk_method": "noaux_tc", "first_k_dense_replace": 1,
           "moe_layer_freq": 1})",
       R"({"model_type": "deepseek_v3", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "n_routed_experts": 16, "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4,
           "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
           "mlp_layer_types": ["dense", "sparse", "sparse"]})",
       {1, 2},
       3,
       kModel,
       "",
       kDeepseek,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 16, 4, kIntermediate);
         Sigmoid(layer, 2.5f);
         Groups(layer, 4, 2);
       }},
      {"dots1",
       R"({"model_type": "dots1", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3, "n_group": 1,
           "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
           "scoring_func": "noaux_tc", "first_k_dense_replace": 1, "moe_layer_freq": 1})",
       "",
       {1},
       2,
       kModel,
       "",
       kDeepseek,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, 2 * kIntermediate);
         Sigmoid(layer, 2.5f);
       }},
      {"dots1 that does not say to renormalise, with groups",
       R"({"model_type": "dots1", "num_hidden_layers": 1, "hidden_size": 24,
           "moe_intermediate_size": 10, "hidden_act": "silu", "n_routed_experts": 16,
           "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 4, "topk_group": 2})",
       "",
       {0},
       1,
       kModel,
       "",
       kDeepseek,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 16, 3, kIntermediate);
         layer->router.routing.score = MOERT_SCORE_SIGMOID;
         Groups(layer, 4, 2);
       }},
      {"kimi_k2, and as the text model of kimi_k25",
       R"({"model_type": "kimi_k2", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 1,
           "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 2.827,
           "scoring_func": "sigmoid", "topk_method": "noaux_tc", "first_k_dense_replace": 1,
           "moe_layer_freq": 1})",
       R"({"model_type": "kimi_k25", "text_config": {"model_type": "deepseek_v3",
           "num_hidden_layers": 3, "hidden_size": 24, "intermediate_size": 17,
           "moe_intermediate_size": 10, "hidden_act": "silu", "n_routed_experts": 8,
           "n_shared_experts": 1, "num_experts_per_tok": 3, "n_group": 1, "topk_group": 1,
           "norm_topk_prob": true, "routed_scaling_factor": 2.827,
           "first_k_dense_replace": 1}})",
       {1, 2},
       3,
       kModel,
       "model.language_model.layers.{n}.",
       kDeepseek,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, kIntermediate);
         Sigmoid(layer, 2.827f);
       }},
      {"kimi_linear",
       R"({"model_type": "kimi_linear", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_token": 3, "num_shared_experts": 1,
           "moe_renormalize": true, "moe_router_activation_func": "sigmoid",
           "num_expert_group": 1, "topk_group": 1, "use_grouped_topk": true,
           "routed_scaling_factor": 2.446, "first_k_dense_replace": 1, "moe_layer_freq": 1})",
       R"({"model_type": "kimi_linear", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_local_experts": 8, "num_experts_per_tok": 3, "n_shared_experts": 1,
           "norm_topk_prob": true, "n_group": 1, "topk_group": 1,
           "routed_scaling_factor": 2.446, "mlp_layer_types": ["dense", "sparse", "sparse"]})",
       {1, 2},
       3,
       kModel,
       "",
       kimi_linear,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, kIntermediate);
         Sigmoid(layer, 2.446f);
       }},
      {"bailing_moe_v2",
       R"({"model_type": "bailing_moe_v2", "num_hidden_layers": 2, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10,
           "moe_shared_expert_intermediate_size": 12, "hidden_act": "silu", "num_experts": 16,
           "num_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
           "norm_topk_prob": true, "routed_scaling_factor": 2.5, "score_function": "sigmoid",
           "moe_router_enable_expert_bias": true, "first_k_dense_replace": 1})",
       "",
       {1},
       2,
       kModel,
       "",
       bailing,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 16, 4, 12);
         Sigmoid(layer, 2.5f);
         Groups(layer, 4, 2);
       }},
      {"bailing_moe_v2 that chooses one",
       R"({"model_type": "bailing_moe_v2", "num_hidden_layers": 1, "hidden_size": 24,
           "moe_intermediate_size": 10, "hidden_act": "silu", "num_experts": 8,
           "num_shared_experts": 1, "num_experts_per_tok": 1, "norm_topk_prob": true,
           "routed_scaling_factor": 2.5, "score_function": "sigmoid",
           "first_k_dense_replace": 0})",
       "",
       {0},
       1,
       kModel,
       "",
       bailing,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 1, kIntermediate);
         Sigmoid(layer, 2.5f);
         layer->router.routing.renormalize = MOERT_RENORMALIZE_NONE;
         layer->router.routing.renormalize_value = 0;
       }},
  };
}

std::vector<DerivedFamily> SigmoidFamilies() {
  const std::string ff = "feed_forward.";
  const PartName lfm_router = {Part::kRouter, ff + "gate.weight"};
  const PartName lfm_bias = {Part::kSelectionBias, ff + "expert_bias"};
  const Names afmoe = {{Part::kRouter, "mlp.router.gate.weight"},
                       {Part::kSelectionBias, "mlp.expert_bias"}};
  const PartName outer_bias = {Part::kSelectionBias, "mlp.e_score_correction_bias"};
  return {
      {"lfm2_moe",
       R"({"model_type": "lfm2_moe", "num_hidden_layers": 4, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "num_experts": 8,
           "num_experts_per_tok": 3, "num_dense_layers": 2, "use_expert_bias": true,
           "norm_topk_prob": true, "routed_scaling_factor": 1.5})",
       "",
       {2, 3},
       4,
       kModel,
       "",
       NumberedExperts(ff, {lfm_router, lfm_bias}),
       StackedExperts(ff, {lfm_router, lfm_bias}),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3);
         Sigmoid(layer, 1.5f, 1e-6f);
       }},
      {"lfm2_moe without a bias and without renormalising",
       R"({"model_type": "lfm2_moe", "num_hidden_layers": 1, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "num_experts": 8,
           "num_experts_per_tok": 3, "num_dense_layers": 0, "use_expert_bias": false,
           "norm_topk_prob": false, "routed_scaling_factor": 1.0})",
       "",
       {0},
       1,
       kModel,
       "",
       NumberedExperts(ff, {lfm_router}),
       StackedExperts(ff, {lfm_router}),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3);
         layer->router.routing.score = MOERT_SCORE_SIGMOID;
       }},
      {"afmoe",
       R"({"model_type": "afmoe", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_tok": 3, "num_shared_experts": 2,
           "num_dense_layers": 1, "route_norm": true, "route_scale": 2.448,
           "score_func": "sigmoid", "n_group": 1, "topk_group": 1})",
       "",
       {1, 2},
       3,
       kModel,
       "",
       WithShared("mlp.shared_experts", Experts(kMlp, afmoe)),
       WithShared("mlp.shared_experts", StackedExperts(kMlp, afmoe)),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, 2 * kIntermediate);
         Sigmoid(layer, 2.448f);
       }},
      {"exaone_moe",
       R"({"model_type": "exaone_moe", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 16, "num_experts_per_tok": 4, "num_shared_experts": 1, "n_group": 4,
           "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
           "first_k_dense_replace": 1})",
       R"({"model_type": "exaone_moe", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 16, "num_experts_per_tok": 4, "num_shared_experts": 1, "n_group": 4,
           "topk_group": 2, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
           "mlp_layer_types": ["dense", "sparse", "sparse"]})",
       {1, 2},
       3,
       kModel,
       "",
       WithShared("mlp.shared_experts", Experts(kMlp, {kGate, outer_bias})),
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 16, 4, kIntermediate);
         Sigmoid(layer, 2.5f);
         Groups(layer, 4, 2);
       }},
      {"hy_v3",
       R"({"model_type": "hy_v3", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_tok": 3, "num_shared_experts": 1,
           "router_scaling_factor": 2.826, "first_k_dense_replace": 1})",
       R"({"model_type": "hy_v3", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_tok": 3, "num_shared_experts": 1,
           "router_scaling_factor": 2.826, "mlp_layer_types": ["dense", "sparse", "sparse"]})",
       {1, 2},
       3,
       kModel,
       "",
       WithShared("mlp.shared_mlp", Experts(kMlp, afmoe)),
       WithShared("mlp.shared_experts", StackedExperts(kMlp, {kGate, outer_bias})),
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, kIntermediate);
         Sigmoid(layer, 2.826f);
       }},
      {"laguna",
       R"({"model_type": "laguna", "num_hidden_layers": 3, "hidden_size": 24,
           "intermediate_size": 17, "moe_intermediate_size": 10, "hidden_act": "silu",
           "num_experts": 8, "num_experts_per_tok": 3, "shared_expert_intermediate_size": 13,
           "moe_routed_scaling_factor": 2.5, "moe_router_logit_softcapping": 5.0,
           "mlp_layer_types": ["dense", "sparse", "sparse"]})",
       "",
       {1, 2},
       3,
       kModel,
       "",
       WithShared(
           "mlp.shared_expert",
           Experts(kMlp, {kGate, {Part::kSelectionBias, "mlp.experts.e_score_correction_bias"}})),
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 8, 3, 13);
         moert_routing& routing = layer->router.routing;
         routing.score = MOERT_SCORE_SIGMOID;
         routing.renormalize = MOERT_RENORMALIZE_SUM;
         routing.routed_scaling_factor = 2.5f;
         routing.logit_soft_cap = 5;
       }},
      {"solar_open",
       R"({"model_type": "solar_open", "num_hidden_layers": 2, "hidden_size": 24,
           "moe_intermediate_size": 10, "hidden_act": "silu", "n_routed_experts": 16,
           "n_shared_experts": 1, "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2,
           "norm_topk_prob": true, "routed_scaling_factor": 1.5})",
       "",
       {0, 1},
       2,
       kModel,
       "",
       kDeepseek,
       kDeepseek5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Sizes(layer, 16, 4, kIntermediate);
         Sigmoid(layer, 1.5f);
         Groups(layer, 4, 2);
       }},
  };
}

void Nemotron(RefLayer* layer) {
  Sizes(layer, 16, 3, 13);
  Sigmoid(layer, 2.5f);
  Groups(layer, 2, 1);
  layer->activation.kind = MOERT_ACTIVATION_KIND_RELU2;
  layer->activation.flags = MOERT_ACTIVATION_FLAG_UNGATED;
}

std::vector<DerivedFamily> NemotronFamilies() {
  const std::string mixer = "mixer.";
  const Names router = {{Part::kRouter, mixer + "gate.weight"},
                        {Part::kSelectionBias, mixer + "gate.e_score_correction_bias"},
                        {Part::kSharedUp, mixer + "shared_experts.up_proj.weight"},
                        {Part::kSharedDown, mixer + "shared_experts.down_proj.weight"}};
  Names plain = router, plain5 = router;
  plain.push_back({Part::kUp, mixer + "experts.{e}.up_proj.weight"});
  plain.push_back({Part::kDown, mixer + "experts.{e}.down_proj.weight"});
  plain5.push_back({Part::kUp, mixer + "experts.up_proj"});
  plain5.push_back({Part::kDown, mixer + "experts.down_proj"});
  Names latent = plain, latent5 = plain5;
  for (Names* names : {&latent, &latent5}) {
    names->push_back({Part::kLatentIn, mixer + "fc1_latent_proj.weight"});
    names->push_back({Part::kLatentOut, mixer + "fc2_latent_proj.weight"});
  }
  const std::string rest = R"("num_hidden_layers": 5, "hidden_size": 24, "intermediate_size": 17,
       "moe_intermediate_size": 10, "moe_shared_expert_intermediate_size": 13,
       "mlp_hidden_act": "relu2", "n_routed_experts": 16, "n_shared_experts": 1,
       "num_experts_per_tok": 3, "n_group": 2, "topk_group": 1, "norm_topk_prob": true,
       "routed_scaling_factor": 2.5, )";
  const std::string pattern = R"("hybrid_override_pattern": "ME*-E"})";
  const std::string types = R"("layers_block_type": ["mamba", "moe", "attention", "mlp", "moe"]})";
  const std::string open = R"({"model_type": "nemotron_h", )" + rest;
  return {
      {"nemotron_h",
       open + R"("moe_latent_size": null, )" + pattern,
       open + types,
       {1, 4},
       5,
       "backbone.layers.{n}.",
       kModel,
       plain,
       plain5,
       kBfloat16,
       [](RefLayer* layer, int) { Nemotron(layer); }},
      {"nemotron_h with a latent projection",
       open + R"("moe_latent_size": 9, )" + pattern,
       open + R"("moe_latent_size": 9, )" + types,
       {1, 4},
       5,
       "backbone.layers.{n}.",
       kModel,
       latent,
       latent5,
       kBfloat16,
       [](RefLayer* layer, int) {
         Nemotron(layer);
         layer->latent = 9;
       }},
  };
}

}  // namespace

std::vector<DerivedFamily> DerivedFamilies() {
  std::vector<DerivedFamily> out;
  for (const auto& families : {SoftmaxFamilies(), ErnieFamilies(), DeepseekFamilies(),
                               SigmoidFamilies(), NemotronFamilies()}) {
    out.insert(out.end(), families.begin(), families.end());
  }
  return out;
}

}  // namespace moert::test
