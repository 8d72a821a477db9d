// SPDX-License-Identifier: Apache-2.0
// The small language of family descriptions: values that come from a model's config.json, and
// conditions on them. Parsed and checked once, then evaluated for each layer. The grammar is
// schemas/family.schema.json.
#ifndef MOERT_MANIFEST_FAMILY_VALUE_H_
#define MOERT_MANIFEST_FAMILY_VALUE_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "manifest/names.h"

namespace moert {

using Json = nlohmann::json;

// Whether the lists and objects of a JSON text nest deeper than any config's: values are copied and
// printed by recursion, which must not overflow the stack.
bool NestsTooDeep(std::string_view text);

// What values and conditions are evaluated against.
struct FamilyContext {
  const char* config_name = "config.json";  // for messages
  std::vector<const Json*> roots;           // objects to look a path up in, in order
  int32_t layer = 0;
  int32_t num_layers = 0;
  // Whether the checkpoint has a tensor of that name, relative to the layer's prefix.
  std::function<bool(const std::string&)> has_tensor;
};

struct Condition;
struct ValueCase;

// A literal; or the first of some config paths that is there, else a default; or the first case
// that holds. A list in the config holds one element a layer.
struct Value {
  Json literal;
  std::vector<std::string> paths;
  Json fallback;                     // discarded: none, the config must have one
  Json if_null;                      // discarded: null counts as absent
  bool character_per_layer = false;  // a string in the config holds one character a layer
  std::vector<Value> times;          // one factor, or none
  double power = 1;                  // applied before the factor
  std::vector<ValueCase> cases;

  Value();
  explicit Value(Json literal_value);
};

struct Condition {
  enum class Kind {
    kTruth,       // value is true, or a number other than 0
    kEquals,      // value is one of `operands`
    kAbove,       // value > operands[0]
    kPresent,     // the config has a path, not null
    kTensor,      // the layer has a tensor `text`
    kLayerFrom,   // layer >= value
    kLayerTo,     // layer <= value
    kLayerIn,     // the config's list holds the layer
    kLayerEvery,  // (layer - offset) is a multiple of value
    kAll,
    kAny,
    kNot,
  };
  Kind kind = Kind::kTruth;
  Value value;
  Value offset;
  std::vector<Json> operands;
  std::string text;
  std::vector<Condition> parts;
};

struct ValueCase {
  bool always = true;
  Condition condition;
  Value value;
};

// Where ValueCase is complete, as std::vector needs it.
inline Value::Value() : fallback(Json::value_t::discarded), if_null(Json::value_t::discarded) {}
inline Value::Value(Json literal_value) : Value() { literal = std::move(literal_value); }

// `where` names the place for messages: "mine.json: routing.score".
Status ParseValue(const Json& json, const std::string& where, Value* out);
Status ParseCondition(const Json& json, const std::string& where, Condition* out);
// INVALID_ARGUMENT unless `json` is an object with only these members.
Status CheckMembers(const Json& json, const std::string& where,
                    std::initializer_list<std::string_view> known);
// A string, or a list of strings that is not empty.
Status ParseStrings(const Json& json, const std::string& where, std::vector<std::string>* out);

// `what` is the knob's name, for messages. Failures are CORRUPT_DATA / FIELD: the config lacks what
// the family needs, or holds something else.
Status Evaluate(const Value& value, const FamilyContext& context, const char* what, Json* out);
Status EvaluateNumber(const Value& value, const FamilyContext& context, const char* what,
                      double* out);
Status EvaluateInteger(const Value& value, const FamilyContext& context, const char* what,
                       int64_t* out);
Status EvaluateBool(const Value& value, const FamilyContext& context, const char* what, bool* out);
// A name of `names`; another is UNSUPPORTED.
Status EvaluateEnum(const Value& value, const FamilyContext& context, const char* what,
                    const EnumNames& names, int32_t* out);
Status Holds(const Condition& condition, const FamilyContext& context, const char* what, bool* out);

// The element at "a.b.c" in the first root that has it; null if none has.
const Json* FindInConfig(const FamilyContext& context, std::string_view path);

}  // namespace moert

#endif  // MOERT_MANIFEST_FAMILY_VALUE_H_
