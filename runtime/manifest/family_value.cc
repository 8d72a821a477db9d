// SPDX-License-Identifier: Apache-2.0
#include "manifest/family_value.h"

#include <algorithm>
#include <cmath>

namespace moert {
namespace {

// Values and conditions may nest this deep in a description.
constexpr int kMaxDepth = 16;
// The same of a JSON text.
constexpr int kMaxJsonDepth = 100;

Status BadFamily(const std::string& where, const char* what) {
  return InvalidArgument("%s: %s", where.c_str(), what);
}

std::string Shorten(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::string JoinPaths(const std::vector<std::string>& paths) {
  std::string text;
  for (const std::string& path : paths) text += (text.empty() ? "" : ", ") + path;
  return text;
}

Status ParseValueAt(const Json& json, const std::string& where, int depth, Value* out);
Status ParseConditionAt(const Json& json, const std::string& where, int depth, Condition* out);

Status ParseCases(const Json& json, const std::string& where, int depth, Value* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(json, where, {"cases"}));
  const Json& cases = json["cases"];
  if (!cases.is_array() || cases.empty()) {
    return BadFamily(where + ".cases", "must be a list that is not empty");
  }
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string at = where + ".cases[" + std::to_string(i) + "]";
    MOERT_RETURN_IF_ERROR(CheckMembers(cases[i], at, {"if", "value"}));
    if (!cases[i].contains("value")) return BadFamily(at, "has no 'value'");
    ValueCase& parsed = out->cases.emplace_back();
    parsed.always = !cases[i].contains("if");
    if (!parsed.always) {
      MOERT_RETURN_IF_ERROR(ParseConditionAt(cases[i]["if"], at + ".if", depth, &parsed.condition));
    }
    MOERT_RETURN_IF_ERROR(ParseValueAt(cases[i]["value"], at + ".value", depth, &parsed.value));
  }
  if (!out->cases.back().always) {
    return BadFamily(where + ".cases", "the last case must have no 'if', so that one always holds");
  }
  return Status();
}

// The members of a config value, among which others may stand.
Status ParseConfigValue(const Json& json, const std::string& where, int depth, Value* out) {
  MOERT_RETURN_IF_ERROR(ParseStrings(json["config"], where + ".config", &out->paths));
  if (json.contains("default")) out->fallback = json["default"];
  if (json.contains("null")) out->if_null = json["null"];
  if (json.contains("character_per_layer")) {
    if (!json["character_per_layer"].is_boolean()) {
      return BadFamily(where + ".character_per_layer", "must be true or false");
    }
    out->character_per_layer = json["character_per_layer"].get<bool>();
  }
  if (json.contains("power")) {
    if (!json["power"].is_number()) return BadFamily(where + ".power", "must be a number");
    out->power = json["power"].get<double>();
  }
  if (json.contains("times")) {
    return ParseValueAt(json["times"], where + ".times", depth, &out->times.emplace_back());
  }
  return Status();
}

Status ParseValueAt(const Json& json, const std::string& where, int depth, Value* out) {
  if (depth > kMaxDepth) return BadFamily(where, "is nested too deep");
  if (json.is_array() || json.is_null()) {
    return BadFamily(where, "must be a number, a string, true, false or an object");
  }
  if (!json.is_object()) {
    out->literal = json;
    return Status();
  }
  if (json.contains("cases")) return ParseCases(json, where, depth + 1, out);
  if (!json.contains("config")) return BadFamily(where, "an object needs 'config' or 'cases'");
  MOERT_RETURN_IF_ERROR(CheckMembers(
      json, where, {"config", "default", "null", "character_per_layer", "power", "times"}));
  return ParseConfigValue(json, where, depth + 1, out);
}

Status ParseParts(const Json& json, const std::string& where, int depth, Condition* out) {
  if (!json.is_array() || json.empty()) return BadFamily(where, "must be a list of conditions");
  for (size_t i = 0; i < json.size(); ++i) {
    MOERT_RETURN_IF_ERROR(ParseConditionAt(json[i], where + "[" + std::to_string(i) + "]", depth,
                                           &out->parts.emplace_back()));
  }
  return Status();
}

Status ParseTest(const Json& json, const std::string& where, int depth, Condition* out) {
  MOERT_RETURN_IF_ERROR(CheckMembers(
      json, where,
      {"config", "default", "null", "character_per_layer", "power", "times", "equals", "above"}));
  MOERT_RETURN_IF_ERROR(ParseConfigValue(json, where, depth, &out->value));
  if (json.contains("equals")) {
    out->kind = Condition::Kind::kEquals;
    const Json& operand = json["equals"];
    if (operand.is_array()) {
      out->operands.assign(operand.begin(), operand.end());
    } else {
      out->operands = {operand};
    }
  } else if (json.contains("above")) {
    out->kind = Condition::Kind::kAbove;
    if (!json["above"].is_number()) return BadFamily(where + ".above", "must be a number");
    out->operands = {json["above"]};
  }
  return Status();
}

Status ParseConditionAt(const Json& json, const std::string& where, int depth, Condition* out) {
  if (depth > kMaxDepth) return BadFamily(where, "is nested too deep");
  if (json.is_boolean()) {
    out->value.literal = json;
    return Status();
  }
  if (!json.is_object()) return BadFamily(where, "must be true, false or an object");
  ++depth;
  using Kind = Condition::Kind;
  if (json.contains("config")) return ParseTest(json, where, depth, out);
  const auto only = [&](const char* name, Kind kind) {
    out->kind = kind;
    return CheckMembers(json, where, {name});
  };
  if (json.contains("all")) {
    MOERT_RETURN_IF_ERROR(only("all", Kind::kAll));
    return ParseParts(json["all"], where + ".all", depth, out);
  }
  if (json.contains("any")) {
    MOERT_RETURN_IF_ERROR(only("any", Kind::kAny));
    return ParseParts(json["any"], where + ".any", depth, out);
  }
  if (json.contains("not")) {
    MOERT_RETURN_IF_ERROR(only("not", Kind::kNot));
    return ParseConditionAt(json["not"], where + ".not", depth, &out->parts.emplace_back());
  }
  if (json.contains("present")) {
    MOERT_RETURN_IF_ERROR(only("present", Kind::kPresent));
    return ParseStrings(json["present"], where + ".present", &out->value.paths);
  }
  if (json.contains("layer_in")) {
    MOERT_RETURN_IF_ERROR(only("layer_in", Kind::kLayerIn));
    return ParseStrings(json["layer_in"], where + ".layer_in", &out->value.paths);
  }
  if (json.contains("tensor")) {
    MOERT_RETURN_IF_ERROR(only("tensor", Kind::kTensor));
    if (!json["tensor"].is_string()) return BadFamily(where + ".tensor", "must be a string");
    out->text = json["tensor"].get<std::string>();
    return Status();
  }
  if (json.contains("layer_from")) {
    MOERT_RETURN_IF_ERROR(only("layer_from", Kind::kLayerFrom));
    return ParseValueAt(json["layer_from"], where + ".layer_from", depth, &out->value);
  }
  if (json.contains("layer_to")) {
    MOERT_RETURN_IF_ERROR(only("layer_to", Kind::kLayerTo));
    return ParseValueAt(json["layer_to"], where + ".layer_to", depth, &out->value);
  }
  if (json.contains("layer_every")) {
    out->kind = Kind::kLayerEvery;
    MOERT_RETURN_IF_ERROR(CheckMembers(json, where, {"layer_every", "offset"}));
    out->offset.literal = 0;
    if (json.contains("offset")) {
      out->offset = Value();
      MOERT_RETURN_IF_ERROR(ParseValueAt(json["offset"], where + ".offset", depth, &out->offset));
    }
    return ParseValueAt(json["layer_every"], where + ".layer_every", depth, &out->value);
  }
  return BadFamily(where,
                   "is not a condition; accepted are config, present, tensor, layer_from, "
                   "layer_to, layer_in, layer_every, all, any, not");
}

Status BadConfig(const FamilyContext& context, const char* what, const Json& found,
                 const char* wanted) {
  return CorruptData(MOERT_CORRUPTION_FIELD, "%s: %s is %s where %s belongs", context.config_name,
                     what, Shorten(found).c_str(), wanted);
}

// This layer's element of a list, or character of a string.
Status AtLayer(const Value& value, const FamilyContext& context, const char* what, Json* json) {
  const bool characters = json->is_string() && value.character_per_layer;
  if (!json->is_array() && !characters) return Status();
  const size_t size = characters ? json->get_ref<const std::string&>().size() : json->size();
  const auto layer = static_cast<size_t>(context.layer);
  if (layer >= size) {
    return CorruptData(MOERT_CORRUPTION_FIELD, "%s: %s has %zu entries; layer %d needs one",
                       context.config_name, what, size, context.layer);
  }
  Json element = characters ? Json(std::string(1, json->get_ref<const std::string&>()[layer]))
                            : (*json)[layer];
  *json = std::move(element);
  return Status();
}

// The config's value, before a factor. Discarded: not there.
Status FromConfig(const Value& value, const FamilyContext& context, const char* what, Json* out) {
  for (const std::string& path : value.paths) {
    const Json* found = FindInConfig(context, path);
    if (found == nullptr) continue;
    if (found->is_null()) {
      if (value.if_null.is_discarded()) continue;
      *out = value.if_null;
      return Status();
    }
    *out = *found;
    return AtLayer(value, context, what, out);
  }
  *out = value.fallback;
  return Status();
}

bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return a == b;
}

Status HoldsForLayer(const Condition& condition, const FamilyContext& context, const char* what,
                     bool* out) {
  using Kind = Condition::Kind;
  if (condition.kind == Kind::kLayerIn) {
    *out = false;
    for (const std::string& path : condition.value.paths) {
      const Json* list = FindInConfig(context, path);
      if (list == nullptr || list->is_null()) continue;
      if (!list->is_array()) return BadConfig(context, path.c_str(), *list, "a list");
      *out = std::any_of(list->begin(), list->end(),
                         [&](const Json& entry) { return Same(entry, Json(context.layer)); });
      return Status();
    }
    return Status();
  }
  int64_t value = 0, offset = 0;
  MOERT_RETURN_IF_ERROR(EvaluateInteger(condition.value, context, what, &value));
  if (condition.kind == Kind::kLayerFrom) {
    *out = context.layer >= value;
  } else if (condition.kind == Kind::kLayerTo) {
    *out = context.layer <= value;
  } else {
    MOERT_RETURN_IF_ERROR(EvaluateInteger(condition.offset, context, what, &offset));
    if (value < 1) return BadConfig(context, what, Json(value), "a period of 1 or more");
    *out = (context.layer - offset) % value == 0;
  }
  return Status();
}

}  // namespace

bool NestsTooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string) {
      if (c == '\\') ++i;
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxJsonDepth) return true;
  }
  return false;
}

Status CheckMembers(const Json& json, const std::string& where,
                    std::initializer_list<std::string_view> known) {
  if (!json.is_object()) return BadFamily(where, "must be an object");
  for (const auto& [name, value] : json.items()) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string_view entry : known) {
      if (!list.empty()) list += ", ";
      list += entry;
    }
    return InvalidArgument("%s: unknown member '%.64s'; accepted are %s", where.c_str(),
                           name.c_str(), list.c_str());
  }
  return Status();
}

Status ParseStrings(const Json& json, const std::string& where, std::vector<std::string>* out) {
  const bool list =
      json.is_array() && !json.empty() &&
      std::all_of(json.begin(), json.end(), [](const Json& e) { return e.is_string(); });
  if (!json.is_string() && !list) {
    return BadFamily(where, "must be a string or a list of strings");
  }
  if (json.is_string()) {
    *out = {json.get<std::string>()};
  } else {
    *out = json.get<std::vector<std::string>>();
  }
  return Status();
}

Status ParseValue(const Json& json, const std::string& where, Value* out) {
  *out = Value();
  return ParseValueAt(json, where, 0, out);
}
Status ParseCondition(const Json& json, const std::string& where, Condition* out) {
  *out = Condition();
  return ParseConditionAt(json, where, 0, out);
}

const Json* FindInConfig(const FamilyContext& context, std::string_view path) {
  for (const Json* root : context.roots) {
    const Json* at = root;
    for (size_t begin = 0; at != nullptr && begin <= path.size();) {
      const size_t end = std::min(path.find('.', begin), path.size());
      const auto found = at->is_object() ? at->find(path.substr(begin, end - begin)) : at->end();
      at = at->is_object() && found != at->end() ? &*found : nullptr;
      begin = end + 1;
    }
    if (at != nullptr) return at;
  }
  return nullptr;
}

Status Evaluate(const Value& value, const FamilyContext& context, const char* what, Json* out) {
  for (const ValueCase& entry : value.cases) {
    bool holds = entry.always;
    if (!holds) MOERT_RETURN_IF_ERROR(Holds(entry.condition, context, what, &holds));
    if (holds) return Evaluate(entry.value, context, what, out);
  }
  if (value.paths.empty()) {
    *out = value.literal;
    return Status();
  }
  MOERT_RETURN_IF_ERROR(FromConfig(value, context, what, out));
  if (out->is_discarded()) {
    return CorruptData(MOERT_CORRUPTION_FIELD, "%s: %s is missing: none of %s is there",
                       context.config_name, what, JoinPaths(value.paths).c_str());
  }
  if (value.times.empty() && value.power == 1) return Status();
  Json factor = 1;
  if (!value.times.empty()) {
    MOERT_RETURN_IF_ERROR(Evaluate(value.times[0], context, what, &factor));
  }
  if (!out->is_number()) return BadConfig(context, what, *out, "a number");
  if (!factor.is_number()) return BadConfig(context, what, factor, "a number");
  *out = std::pow(out->get<double>(), value.power) * factor.get<double>();
  return Status();
}

Status EvaluateNumber(const Value& value, const FamilyContext& context, const char* what,
                      double* out) {
  Json json;
  MOERT_RETURN_IF_ERROR(Evaluate(value, context, what, &json));
  if (!json.is_number()) return BadConfig(context, what, json, "a number");
  *out = json.get<double>();
  return Status();
}

Status EvaluateInteger(const Value& value, const FamilyContext& context, const char* what,
                       int64_t* out) {
  Json json;
  MOERT_RETURN_IF_ERROR(Evaluate(value, context, what, &json));
  const double number = json.is_number() ? json.get<double>() : NAN;
  // Doubles hold every whole number up to 2^53.
  if (!(std::fabs(number) <= 9007199254740992.0) || number != std::floor(number)) {
    return BadConfig(context, what, json, "a whole number");
  }
  *out = static_cast<int64_t>(number);
  return Status();
}

Status EvaluateBool(const Value& value, const FamilyContext& context, const char* what, bool* out) {
  Json json;
  MOERT_RETURN_IF_ERROR(Evaluate(value, context, what, &json));
  if (json.is_boolean()) {
    *out = json.get<bool>();
  } else if (json.is_number()) {
    *out = json.get<double>() != 0;
  } else {
    return BadConfig(context, what, json, "true or false");
  }
  return Status();
}

Status EvaluateEnum(const Value& value, const FamilyContext& context, const char* what,
                    const EnumNames& names, int32_t* out) {
  Json json;
  MOERT_RETURN_IF_ERROR(Evaluate(value, context, what, &json));
  if (!json.is_string()) return BadConfig(context, what, json, "a name");
  if (names.Find(json.get_ref<const std::string&>(), out)) return Status();
  return Unsupported("%s: %s %s is not supported; accepted are %s", context.config_name, what,
                     Shorten(json).c_str(), names.List().c_str());
}

Status Holds(const Condition& condition, const FamilyContext& context, const char* what,
             bool* out) {
  using Kind = Condition::Kind;
  switch (condition.kind) {
    case Kind::kTruth:
      return EvaluateBool(condition.value, context, what, out);
    case Kind::kEquals: {
      Json json;
      MOERT_RETURN_IF_ERROR(Evaluate(condition.value, context, what, &json));
      *out = std::any_of(condition.operands.begin(), condition.operands.end(),
                         [&](const Json& operand) { return Same(operand, json); });
      return Status();
    }
    case Kind::kAbove: {
      double number = 0;
      MOERT_RETURN_IF_ERROR(EvaluateNumber(condition.value, context, what, &number));
      *out = number > condition.operands[0].get<double>();
      return Status();
    }
    case Kind::kPresent:
      *out = std::any_of(condition.value.paths.begin(), condition.value.paths.end(),
                         [&](const std::string& path) {
                           const Json* found = FindInConfig(context, path);
                           return found != nullptr && !found->is_null();
                         });
      return Status();
    case Kind::kTensor:
      *out = context.has_tensor != nullptr && context.has_tensor(condition.text);
      return Status();
    case Kind::kAll:
    case Kind::kAny:
      *out = condition.kind == Kind::kAll;
      for (const Condition& part : condition.parts) {
        bool holds = false;
        MOERT_RETURN_IF_ERROR(Holds(part, context, what, &holds));
        if (holds != (condition.kind == Kind::kAll)) {
          *out = holds;
          return Status();
        }
      }
      return Status();
    case Kind::kNot: {
      bool holds = false;
      MOERT_RETURN_IF_ERROR(Holds(condition.parts[0], context, what, &holds));
      *out = !holds;
      return Status();
    }
    default:
      return HoldsForLayer(condition, context, what, out);
  }
}

}  // namespace moert
