// SPDX-License-Identifier: Apache-2.0
// A family description: how a kind of model's config and tensor names map to layers. Data; the
// built-in ones are runtime/manifest/families/*.json, embedded when CMake configures.
#ifndef MOERT_MANIFEST_FAMILY_H_
#define MOERT_MANIFEST_FAMILY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "manifest/family_value.h"

namespace moert {

struct BuiltInFamily {
  const char* name;
  const char* json;
};
extern const BuiltInFamily kBuiltInFamilies[];
extern const size_t kNumBuiltInFamilies;
extern const char
    kBuiltInFamilyNames[];  // the model types that they describe: "aria, aria_text, ..."

// One tensor (or one an expert, where a name holds "{expert}") that plays a role.
struct WeightRule {
  moert_role role = MOERT_ROLE_NONE;
  std::vector<std::string> names;  // relative to the layer's prefix; the first that exists
  moert_orientation orientation = MOERT_ORIENTATION_OUT_IN;
  moert_packing packing = MOERT_PACKING_CONCATENATED;
  bool optional = false;
  std::string mxfp4_scales;  // the tensor of scales; empty: the names are of plain values
};

// Weights that come together, in one of several spellings: the first whose first tensor exists.
struct WeightGroup {
  std::vector<std::vector<WeightRule>> alternatives;
  bool optional = false;
  bool always = true;
  Condition condition;
};

struct ActivationRule {
  Value kind, gated, alpha, limit, up_offset;
};

struct RoutingRule {
  Value num_experts, top_k, score, renormalize, renormalize_value, routed_scaling_factor,
      logit_soft_cap, sparsemixer_epsilon, num_groups, top_k_groups, group_score, rms_norm_input,
      input_rms_epsilon, input_multiplier;
};

struct Family {
  std::string name;
  std::vector<std::string> model_types;
  std::vector<std::string> config_roots;    // "" is the config itself; looked up in order
  std::vector<std::string> layer_prefixes;  // with "{layer}"
  Value num_layers;
  Condition is_moe;
  Value hidden, intermediate, latent, shared_intermediate;
  RoutingRule routing;
  ActivationRule activation, shared_activation;
  Value weight_application;
  std::vector<WeightGroup> weights;
};

// A user's description; `file` is its name for messages. It may extend a built-in family. What is
// wrong in it is INVALID_ARGUMENT.
Status ParseFamily(std::string_view text, const std::string& file, Family* out);
// The built-in family for one of `model_types`, tried in order; NOT_FOUND lists the known ones.
Status FindBuiltInFamily(const std::vector<std::string>& model_types, Family* out,
                         std::string* model_type);

}  // namespace moert

#endif  // MOERT_MANIFEST_FAMILY_H_
