// SPDX-License-Identifier: Apache-2.0
#include "manifest/names.h"

#include <iterator>

#include "moert/moert.h"

namespace moert {
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

#define MOERT_ENUM_NAMES(variable, ...)                       \
  static constexpr EnumName variable##List[] = {__VA_ARGS__}; \
  const EnumNames variable = {variable##List, std::size(variable##List)}

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

}  // namespace moert
