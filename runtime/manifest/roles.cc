// SPDX-License-Identifier: Apache-2.0
#include "manifest/roles.h"

#include "core/checked_math.h"

namespace moert {
namespace {

enum class Extent { kOne, kExperts, kHidden, kIntermediate, kExpertWidth, kLatent, kShared };

struct RoleInfo {
  Extent rows;
  Extent cols;
  int rows_times = 1;
  int cols_times = 1;
  bool per_expert = false;
  bool matrix = false;
};

constexpr RoleInfo kRoles[kNumRoles] = {
    {Extent::kOne, Extent::kOne},
    {Extent::kExperts, Extent::kHidden},
    {Extent::kOne, Extent::kExperts},
    {Extent::kOne, Extent::kExperts},
    {Extent::kOne, Extent::kHidden},
    {Extent::kOne, Extent::kExperts},
    {Extent::kIntermediate, Extent::kExpertWidth, 1, 1, true, true},
    {Extent::kIntermediate, Extent::kExpertWidth, 1, 1, true, true},
    {Extent::kIntermediate, Extent::kExpertWidth, 2, 1, true, true},
    {Extent::kExpertWidth, Extent::kIntermediate, 1, 1, true, true},
    {Extent::kOne, Extent::kIntermediate, 1, 1, true},
    {Extent::kOne, Extent::kIntermediate, 1, 1, true},
    {Extent::kOne, Extent::kIntermediate, 1, 2, true},
    {Extent::kOne, Extent::kExpertWidth, 1, 1, true},
    {Extent::kLatent, Extent::kHidden, 1, 1, false, true},
    {Extent::kHidden, Extent::kLatent, 1, 1, false, true},
    {Extent::kShared, Extent::kHidden, 1, 1, false, true},
    {Extent::kShared, Extent::kHidden, 1, 1, false, true},
    {Extent::kShared, Extent::kHidden, 2, 1, false, true},
    {Extent::kHidden, Extent::kShared, 1, 1, false, true},
    {Extent::kOne, Extent::kHidden},
};

int64_t Resolve(Extent extent, const LayerSizes& sizes) {
  switch (extent) {
    case Extent::kOne: return 1;
    case Extent::kExperts: return sizes.experts;
    case Extent::kHidden: return sizes.hidden;
    case Extent::kIntermediate: return sizes.intermediate;
    case Extent::kExpertWidth: return sizes.latent != 0 ? sizes.latent : sizes.hidden;
    case Extent::kLatent: return sizes.latent;
    case Extent::kShared: return sizes.shared;
  }
  return 0;
}

bool Known(moert_role role) { return role > MOERT_ROLE_NONE && role < kNumRoles; }

}  // namespace

bool EnumNames::Find(std::string_view name, int32_t* value) const {
  for (int32_t i = 0; i < count; ++i) {
    if (name == names[i].name) {
      *value = names[i].value;
      return true;
    }
  }
  return false;
}

const char* EnumNames::Name(int32_t value) const {
  for (int32_t i = 0; i < count; ++i) {
    if (names[i].value == value) return names[i].name;
  }
  return nullptr;
}

std::string EnumNames::List() const {
  std::string list;
  for (int32_t i = 0; i < count; ++i) {
    if (i != 0) list += ", ";
    list += names[i].name;
  }
  return list;
}

#define MOERT_ENUM_NAMES(variable, ...)                  \
  static constexpr EnumName variable##List[] = {__VA_ARGS__}; \
  const EnumNames variable = {variable##List, std::size(variable##List)}

MOERT_ENUM_NAMES(kRoleNames, {"router", MOERT_ROLE_ROUTER}, {"router_bias", MOERT_ROLE_ROUTER_BIAS},
                 {"selection_bias", MOERT_ROLE_SELECTION_BIAS},
                 {"router_input_scale", MOERT_ROLE_ROUTER_INPUT_SCALE},
                 {"expert_scale", MOERT_ROLE_EXPERT_SCALE}, {"expert_gate", MOERT_ROLE_EXPERT_GATE},
                 {"expert_up", MOERT_ROLE_EXPERT_UP},
                 {"expert_gate_up", MOERT_ROLE_EXPERT_GATE_UP},
                 {"expert_down", MOERT_ROLE_EXPERT_DOWN},
                 {"expert_gate_bias", MOERT_ROLE_EXPERT_GATE_BIAS},
                 {"expert_up_bias", MOERT_ROLE_EXPERT_UP_BIAS},
                 {"expert_gate_up_bias", MOERT_ROLE_EXPERT_GATE_UP_BIAS},
                 {"expert_down_bias", MOERT_ROLE_EXPERT_DOWN_BIAS},
                 {"latent_in", MOERT_ROLE_LATENT_IN}, {"latent_out", MOERT_ROLE_LATENT_OUT},
                 {"shared_gate", MOERT_ROLE_SHARED_GATE}, {"shared_up", MOERT_ROLE_SHARED_UP},
                 {"shared_gate_up", MOERT_ROLE_SHARED_GATE_UP},
                 {"shared_down", MOERT_ROLE_SHARED_DOWN},
                 {"shared_expert_gate", MOERT_ROLE_SHARED_EXPERT_GATE});
MOERT_ENUM_NAMES(kScoreNames, {"softmax", MOERT_SCORE_SOFTMAX}, {"sigmoid", MOERT_SCORE_SIGMOID},
                 {"softmax_top_k", MOERT_SCORE_SOFTMAX_TOP_K},
                 {"sigmoid_top_k", MOERT_SCORE_SIGMOID_TOP_K},
                 {"sparsemixer", MOERT_SCORE_SPARSEMIXER});
MOERT_ENUM_NAMES(kRenormalizeNames, {"none", MOERT_RENORMALIZE_NONE},
                 {"sum", MOERT_RENORMALIZE_SUM}, {"sum_epsilon", MOERT_RENORMALIZE_SUM_EPSILON},
                 {"sum_min", MOERT_RENORMALIZE_SUM_MIN}, {"p_norm", MOERT_RENORMALIZE_P_NORM});
MOERT_ENUM_NAMES(kGroupScoreNames, {"max", MOERT_GROUP_SCORE_MAX},
                 {"top2_sum", MOERT_GROUP_SCORE_TOP2_SUM});
// With the spellings that configurations use.
MOERT_ENUM_NAMES(kActivationNames, {"silu", MOERT_ACTIVATION_KIND_SILU},
                 {"swish", MOERT_ACTIVATION_KIND_SILU}, {"gelu", MOERT_ACTIVATION_KIND_GELU},
                 {"gelu_tanh", MOERT_ACTIVATION_KIND_GELU_TANH},
                 {"gelu_pytorch_tanh", MOERT_ACTIVATION_KIND_GELU_TANH},
                 {"gelu_new", MOERT_ACTIVATION_KIND_GELU_TANH},
                 {"relu2", MOERT_ACTIVATION_KIND_RELU2});
MOERT_ENUM_NAMES(kWeightApplicationNames, {"output", MOERT_WEIGHT_APPLICATION_OUTPUT},
                 {"input", MOERT_WEIGHT_APPLICATION_INPUT});
MOERT_ENUM_NAMES(kOrientationNames, {"out_in", MOERT_ORIENTATION_OUT_IN},
                 {"in_out", MOERT_ORIENTATION_IN_OUT});
MOERT_ENUM_NAMES(kPackingNames, {"concatenated", MOERT_PACKING_CONCATENATED},
                 {"interleaved", MOERT_PACKING_INTERLEAVED});
MOERT_ENUM_NAMES(kQuantSchemeNames, {"none", MOERT_QUANT_SCHEME_NONE},
                 {"fp8_block", MOERT_QUANT_SCHEME_FP8_BLOCK}, {"mxfp4", MOERT_QUANT_SCHEME_MXFP4},
                 {"int4_group", MOERT_QUANT_SCHEME_INT4_GROUP});
MOERT_ENUM_NAMES(kQuantPackingNames, {"none", 0}, {"nibbles_low", 1}, {"words_down", 2},
                 {"words_awq", 3});
MOERT_ENUM_NAMES(kZeroPointNames, {"none", 0}, {"middle", 1}, {"stored", 2},
                 {"stored_minus_one", 3});

const char* RoleName(moert_role role) {
  const char* name = kRoleNames.Name(role);
  return name != nullptr ? name : "?";
}

bool RoleIsPerExpert(moert_role role) { return Known(role) && kRoles[role].per_expert; }
bool RoleIsMatrix(moert_role role) { return Known(role) && kRoles[role].matrix; }
bool RoleIsShared(moert_role role) { return role >= MOERT_ROLE_SHARED_GATE && Known(role); }
bool RoleIsLatent(moert_role role) {
  return role == MOERT_ROLE_LATENT_IN || role == MOERT_ROLE_LATENT_OUT;
}

bool RoleShape(moert_role role, const LayerSizes& sizes, moert_orientation orientation,
               int64_t* rows, int64_t* cols) {
  if (!Known(role)) return false;
  const RoleInfo& info = kRoles[role];
  int64_t outputs = 0, inputs = 0;
  if (!CheckedMultiply<int64_t>(Resolve(info.rows, sizes), info.rows_times, &outputs) ||
      !CheckedMultiply<int64_t>(Resolve(info.cols, sizes), info.cols_times, &inputs)) {
    return false;
  }
  const bool swap = orientation == MOERT_ORIENTATION_IN_OUT;
  *rows = swap ? inputs : outputs;
  *cols = swap ? outputs : inputs;
  return true;
}

}  // namespace moert
