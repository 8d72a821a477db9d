// SPDX-License-Identifier: Apache-2.0
#include "manifest/family.h"

#include <algorithm>

#include "backend/roles.h"

namespace moert {
namespace {

constexpr int kVersion = 1;
// "extends" may chain this often.
constexpr int kMaxExtends = 8;

Status Bad(const std::string& where, const char* what) {
  return InvalidArgument("%s: %s", where.c_str(), what);
}

Status ParseText(std::string_view text, const std::string& file, Json* out) {
  if (NestsTooDeep(text)) return Bad(file, "nested too deep");
  try {
    *out = Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidArgument("%s: not valid JSON: %s", file.c_str(), error.what());
  }
  if (!out->is_object()) return Bad(file, "must be an object");
  const auto version = out->find("moert_family");
  if (version == out->end() || *version != Json(kVersion)) {
    return InvalidArgument("%s: 'moert_family' must be %d, the version of the format", file.c_str(),
                           kVersion);
  }
  return Status();
}

const BuiltInFamily* FindByName(std::string_view name) {
  const BuiltInFamily* end = kBuiltInFamilies + kNumBuiltInFamilies;
  const auto* found = std::find_if(
      kBuiltInFamilies, end, [&](const BuiltInFamily& family) { return name == family.name; });
  return found != end ? found : nullptr;
}

// Lays a description over the one that it extends: a section's members replace those of the same
// name, whole; what is not a section is replaced.
void Overlay(const Json& over, Json* base) {
  for (const auto& [name, value] : over.items()) {
    Json& at = (*base)[name];
    if (at.is_object() && value.is_object()) {
      at.update(value);
    } else {
      at = value;
    }
  }
}

Status Extend(const std::string& file, Json* json) {
  for (int depth = 0; json->contains("extends"); ++depth) {
    const Json parent_name = (*json)["extends"];
    const BuiltInFamily* parent =
        parent_name.is_string() ? FindByName(parent_name.get_ref<const std::string&>()) : nullptr;
    if (parent == nullptr || depth == kMaxExtends) {
      return InvalidArgument("%s: extends: not a built-in family; those are %s", file.c_str(),
                             kBuiltInFamilyNames);
    }
    Json base;
    MOERT_RETURN_IF_ERROR(ParseText(parent->json, parent->name, &base));
    base.erase("model_types");
    base.erase("name");
    json->erase("extends");
    Overlay(*json, &base);
    *json = std::move(base);
  }
  return Status();
}

// A member that must be there, or has a literal default.
Status Member(const Json& json, const std::string& where, const char* name, Value* out,
              const Json& fallback = Json(Json::value_t::discarded)) {
  const std::string at = where + "." + name;
  if (json.contains(name)) return ParseValue(json[name], at, out);
  if (fallback.is_discarded()) return Bad(at, "is missing");
  *out = Value(fallback);
  return Status();
}

Status ParseLayers(const Json& json, const std::string& where, Family* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(json, where, {"count", "prefixes", "moe"}));
  MOERT_RETURN_IF_ERROR(Member(json, where, "count", &out->num_layers));
  if (json.contains("prefixes")) {
    MOERT_RETURN_IF_ERROR(
        ParseStrings(json["prefixes"], where + ".prefixes", &out->layer_prefixes));
  } else {
    out->layer_prefixes = {"model.layers.{layer}.", "model.language_model.layers.{layer}.",
                           "language_model.model.layers.{layer}.", "language_model.layers.{layer}.",
                           "layers.{layer}."};
  }
  for (const std::string& prefix : out->layer_prefixes) {
    if (prefix.find("{layer}") == std::string::npos) {
      return Bad(where + ".prefixes", "each must hold {layer}");
    }
  }
  if (!json.contains("moe")) {
    out->is_moe.value.literal = true;
    return Status();
  }
  return ParseCondition(json["moe"], where + ".moe", &out->is_moe);
}

Status ParseSizes(const Json& json, const std::string& where, Family* out) {
  MOERT_RETURN_IF_ERROR(
      CheckMembers(json, where, {"hidden", "intermediate", "latent", "shared_intermediate"}));
  MOERT_RETURN_IF_ERROR(Member(json, where, "hidden", &out->hidden));
  MOERT_RETURN_IF_ERROR(Member(json, where, "intermediate", &out->intermediate));
  MOERT_RETURN_IF_ERROR(Member(json, where, "latent", &out->latent, 0));
  return Member(json, where, "shared_intermediate", &out->shared_intermediate, 0);
}

Status ParseRouting(const Json& json, const std::string& where, RoutingRule* out) {
  const struct {
    const char* name;
    Value* value;
    Json fallback;
  } members[] = {
      {"num_experts", &out->num_experts, Json(Json::value_t::discarded)},
      {"top_k", &out->top_k, Json(Json::value_t::discarded)},
      {"score", &out->score, "softmax"},
      {"renormalize", &out->renormalize, "none"},
      {"renormalize_value", &out->renormalize_value, 0},
      {"routed_scaling_factor", &out->routed_scaling_factor, 0},
      {"logit_soft_cap", &out->logit_soft_cap, 0},
      {"sparsemixer_epsilon", &out->sparsemixer_epsilon, 0},
      {"num_groups", &out->num_groups, 0},
      {"top_k_groups", &out->top_k_groups, 0},
      {"group_score", &out->group_score, "max"},
      {"rms_norm_input", &out->rms_norm_input, false},
      {"input_rms_epsilon", &out->input_rms_epsilon, 0},
      {"input_multiplier", &out->input_multiplier, 0},
  };
  MOERT_RETURN_IF_ERROR(CheckMembers(
      json, where,
      {"num_experts", "top_k", "score", "renormalize", "renormalize_value", "routed_scaling_factor",
       "logit_soft_cap", "sparsemixer_epsilon", "num_groups", "top_k_groups", "group_score",
       "rms_norm_input", "input_rms_epsilon", "input_multiplier"}));
  for (const auto& member : members) {
    MOERT_RETURN_IF_ERROR(Member(json, where, member.name, member.value, member.fallback));
  }
  return Status();
}

Status ParseActivation(const Json& json, const std::string& where, ActivationRule* out) {
  MOERT_RETURN_IF_ERROR(
      CheckMembers(json, where, {"kind", "gated", "alpha", "limit", "up_offset"}));
  MOERT_RETURN_IF_ERROR(Member(json, where, "kind", &out->kind));
  MOERT_RETURN_IF_ERROR(Member(json, where, "gated", &out->gated, true));
  MOERT_RETURN_IF_ERROR(Member(json, where, "alpha", &out->alpha, 0));
  MOERT_RETURN_IF_ERROR(Member(json, where, "limit", &out->limit, 0));
  return Member(json, where, "up_offset", &out->up_offset, 0);
}

Status ParseName(const Json& json, const std::string& where, const EnumNames& names, int32_t* out) {
  if (json.is_string() && names.Find(json.get_ref<const std::string&>(), out)) return Status();
  return InvalidArgument("%s: accepted are %s", where.c_str(), names.List().c_str());
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// A role by its name in lower case.
Status ParseRole(const Json& json, const std::string& where, moert_role* out) {
  std::string list;
  for (moert_role role = MOERT_ROLE_ROUTER; role < kNumRoles; ++role) {
    const std::string name = LowerCase(RoleName(role));
    if (json == Json(name)) {
      *out = role;
      return Status();
    }
    list += (list.empty() ? "" : ", ") + name;
  }
  return InvalidArgument("%s: accepted are %s", where.c_str(), list.c_str());
}

Status ParseFlag(const Json& json, const char* name, const std::string& where, bool* out) {
  if (!json.contains(name)) return Status();
  if (!json[name].is_boolean()) return Bad(where + "." + name, "must be true or false");
  *out = json[name].get<bool>();
  return Status();
}

// "if" is the caller's to read.
Status ParseWeight(const Json& json, const std::string& where, WeightRule* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(
      json, where, {"role", "name", "orientation", "packing", "optional", "if", "mxfp4_scales"}));
  for (const char* name : {"role", "name"}) {
    if (!json.contains(name)) return Bad(where + "." + name, "is missing");
  }
  MOERT_RETURN_IF_ERROR(ParseRole(json["role"], where + ".role", &out->role));
  MOERT_RETURN_IF_ERROR(ParseStrings(json["name"], where + ".name", &out->names));
  if (json.contains("orientation")) {
    MOERT_RETURN_IF_ERROR(ParseName(json["orientation"], where + ".orientation", kOrientationNames,
                                    &out->orientation));
  }
  if (json.contains("packing")) {
    MOERT_RETURN_IF_ERROR(
        ParseName(json["packing"], where + ".packing", kPackingNames, &out->packing));
  }
  if (json.contains("mxfp4_scales")) {
    if (!json["mxfp4_scales"].is_string()) return Bad(where + ".mxfp4_scales", "must be a string");
    out->mxfp4_scales = json["mxfp4_scales"].get<std::string>();
  }
  for (const std::string& name : out->names) {
    if (name.find("{expert}") != std::string::npos && !FindRole(out->role)->per_expert) {
      return Bad(where + ".name", "holds {expert}, but the role is not one of each expert");
    }
  }
  return ParseFlag(json, "optional", where, &out->optional);
}

Status ParseAlternatives(const Json& json, const std::string& where, WeightGroup* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(json, where, {"one_of", "optional", "if"}));
  const Json& list = json["one_of"];
  if (!list.is_array() || list.empty()) return Bad(where + ".one_of", "must be a list");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = where + ".one_of[" + std::to_string(i) + "]";
    if (!list[i].is_array() || list[i].empty()) return Bad(at, "must be a list of weights");
    std::vector<WeightRule>& rules = out->alternatives.emplace_back();
    for (size_t j = 0; j < list[i].size(); ++j) {
      const std::string entry = at + "[" + std::to_string(j) + "]";
      MOERT_RETURN_IF_ERROR(ParseWeight(list[i][j], entry, &rules.emplace_back()));
      if (list[i][j].contains("if")) return Bad(entry + ".if", "belongs to the whole group");
    }
  }
  return ParseFlag(json, "optional", where, &out->optional);
}

Status ParseWeights(const Json& json, const std::string& where, Family* out) {
  if (!json.is_array() || json.empty()) return Bad(where, "must be a list that is not empty");
  for (size_t i = 0; i < json.size(); ++i) {
    const std::string at = where + "[" + std::to_string(i) + "]";
    if (!json[i].is_object()) return Bad(at, "must be an object");
    WeightGroup& group = out->weights.emplace_back();
    if (json[i].contains("one_of")) {
      MOERT_RETURN_IF_ERROR(ParseAlternatives(json[i], at, &group));
    } else {
      WeightRule& rule = group.alternatives.emplace_back().emplace_back();
      MOERT_RETURN_IF_ERROR(ParseWeight(json[i], at, &rule));
      group.optional = rule.optional;
    }
    if (!json[i].contains("if")) continue;
    group.always = false;
    MOERT_RETURN_IF_ERROR(ParseCondition(json[i]["if"], at + ".if", &group.condition));
  }
  return Status();
}

Status ParseFamilyJson(const Json& json, const std::string& file, Family* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(
      json, file,
      {"moert_family", "name", "model_types", "config_roots", "layers", "sizes", "routing",
       "activation", "shared_activation", "weight_application", "weights"}));
  for (const char* name : {"name", "layers", "sizes", "routing", "activation", "weights"}) {
    if (!json.contains(name)) return Bad(file + ": " + name, "is missing");
  }
  const std::string at = file + ": ";
  if (!json["name"].is_string()) return Bad(at + "name", "must be a string");
  out->name = json["name"].get<std::string>();
  out->model_types = {out->name};
  if (json.contains("model_types")) {
    MOERT_RETURN_IF_ERROR(ParseStrings(json["model_types"], at + "model_types", &out->model_types));
  }
  out->config_roots = {"text_config", ""};
  if (json.contains("config_roots")) {
    MOERT_RETURN_IF_ERROR(
        ParseStrings(json["config_roots"], at + "config_roots", &out->config_roots));
  }
  MOERT_RETURN_IF_ERROR(ParseLayers(json["layers"], at + "layers", out));
  MOERT_RETURN_IF_ERROR(ParseSizes(json["sizes"], at + "sizes", out));
  MOERT_RETURN_IF_ERROR(ParseRouting(json["routing"], at + "routing", &out->routing));
  MOERT_RETURN_IF_ERROR(ParseActivation(json["activation"], at + "activation", &out->activation));
  const char* shared = json.contains("shared_activation") ? "shared_activation" : "activation";
  MOERT_RETURN_IF_ERROR(ParseActivation(json[shared], at + shared, &out->shared_activation));
  out->weight_application = Value("output");
  if (json.contains("weight_application")) {
    MOERT_RETURN_IF_ERROR(ParseValue(json["weight_application"], at + "weight_application",
                                     &out->weight_application));
  }
  return ParseWeights(json["weights"], at + "weights", out);
}

}  // namespace

Status ParseFamily(std::string_view text, const std::string& file, Family* out) {
  *out = Family();
  Json json;
  MOERT_RETURN_IF_ERROR(ParseText(text, file, &json));
  MOERT_RETURN_IF_ERROR(Extend(file, &json));
  return ParseFamilyJson(json, file, out);
}

Status FindBuiltInFamily(const std::vector<std::string>& model_types, Family* out,
                         std::string* model_type) {
  for (const std::string& wanted : model_types) {
    for (size_t i = 0; i < kNumBuiltInFamilies; ++i) {
      Json json;
      const BuiltInFamily& family = kBuiltInFamilies[i];
      MOERT_RETURN_IF_ERROR(ParseText(family.json, family.name, &json));
      std::vector<std::string> types = {family.name};
      if (json.contains("model_types")) {
        MOERT_RETURN_IF_ERROR(ParseStrings(json["model_types"], family.name, &types));
      }
      if (std::find(types.begin(), types.end(), wanted) == types.end()) continue;
      *model_type = wanted;
      return ParseFamily(family.json, family.name, out);
    }
  }
  std::string wanted;
  for (const std::string& type : model_types) wanted += (wanted.empty() ? "'" : ", '") + type + "'";
  return NotFound("no family for model_type %s; known are %s. Another can be described in a file",
                  wanted.c_str(), kBuiltInFamilyNames);
}

}  // namespace moert
