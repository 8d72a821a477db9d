// SPDX-License-Identifier: Apache-2.0
#include "cli/text.h"

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <span>

namespace moert::cli {
namespace {

std::string FormatV(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, args);
  std::string text(length > 0 ? length : 0, '\0');
  if (length > 0) std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  return text;
}

const char* NameOf(std::span<const char* const> names, int32_t value) {
  return value >= 0 && static_cast<size_t>(value) < names.size() ? names[value] : "?";
}

constexpr const char* kRoles[] = {"none",
                                  "router",
                                  "router_bias",
                                  "selection_bias",
                                  "router_input_scale",
                                  "expert_scale",
                                  "expert_gate",
                                  "expert_up",
                                  "expert_gate_up",
                                  "expert_down",
                                  "expert_gate_bias",
                                  "expert_up_bias",
                                  "expert_gate_up_bias",
                                  "expert_down_bias",
                                  "latent_in",
                                  "latent_out",
                                  "shared_gate",
                                  "shared_up",
                                  "shared_gate_up",
                                  "shared_down",
                                  "shared_expert_gate"};
constexpr const char* kScores[] = {"softmax", "sigmoid", "softmax_top_k", "sigmoid_top_k",
                                   "sparsemixer"};
constexpr const char* kRenormalizes[] = {"none", "sum", "sum_epsilon", "sum_min", "p_norm"};
constexpr const char* kGroupScores[] = {"max", "top2_sum"};
constexpr const char* kActivations[] = {"silu", "gelu", "gelu_tanh", "relu2"};
constexpr const char* kOrientations[] = {"out_in", "in_out"};
constexpr const char* kPackings[] = {"concatenated", "interleaved"};
constexpr const char* kQuantSchemes[] = {"none", "fp8_block", "mxfp4", "int4_group"};
constexpr const char* kApplications[] = {"output", "input"};
constexpr const char* kDeviceKinds[] = {"cpu", "cuda", "hip", "other"};

}  // namespace

Status Status::Format(const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = Failure(FormatV(format, args));
  va_end(args);
  return status;
}

std::string Format(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = FormatV(format, args);
  va_end(args);
  return text;
}

std::string OneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += Format("\\x%02x", byte);
    } else {
      line += c;
    }
  }
  return line;
}

std::string Bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return Format("%u B", static_cast<unsigned>(bytes));
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return Format("%.1f %s", value, kUnits[unit]);
}

const char* Plural(uint64_t count) { return count == 1 ? "" : "s"; }

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Status ParseInteger(std::string_view what, std::string_view text, int64_t min, int64_t max,
                    int64_t* out) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || last != end || value < min || value > max) {
    return Status::Format("%s \"%s\" is not an integer from %lld to %lld",
                          std::string(what).c_str(), std::string(text).c_str(),
                          static_cast<long long>(min), static_cast<long long>(max));
  }
  *out = value;
  return Status();
}

Status ParseIntegers(std::string_view what, std::string_view text, int64_t min, int64_t max,
                     std::vector<int64_t>* out) {
  out->clear();
  for (const std::string& part : Split(text, ',')) {
    int64_t value = 0;
    MOERT_CLI_TRY(ParseInteger(what, part, min, max, &value));
    out->push_back(value);
  }
  return Status();
}

Status ParseComputeDtype(std::string_view what, std::string_view text, moert_dtype* out) {
  for (const moert_dtype dtype : {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16}) {
    if (text == ComputeDtypeName(dtype)) {
      *out = dtype;
      return Status();
    }
  }
  return Status::Format("%s \"%s\" is not one of f32, bf16, f16", std::string(what).c_str(),
                        std::string(text).c_str());
}

const char* ComputeDtypeName(moert_dtype dtype) {
  return dtype == MOERT_DTYPE_FLOAT32 ? "f32" : dtype == MOERT_DTYPE_BFLOAT16 ? "bf16" : "f16";
}

const char* RoleName(moert_role role) { return NameOf(kRoles, role); }
const char* ScoreName(moert_score score) { return NameOf(kScores, score); }
const char* RenormalizeName(moert_renormalize value) { return NameOf(kRenormalizes, value); }
const char* GroupScoreName(moert_group_score score) { return NameOf(kGroupScores, score); }
const char* ActivationName(moert_activation_kind kind) { return NameOf(kActivations, kind); }
const char* OrientationName(moert_orientation value) { return NameOf(kOrientations, value); }
const char* PackingName(moert_packing packing) { return NameOf(kPackings, packing); }
const char* QuantSchemeName(moert_quant_scheme scheme) { return NameOf(kQuantSchemes, scheme); }
const char* WeightApplicationName(moert_weight_application value) {
  return NameOf(kApplications, value);
}
const char* DeviceKindName(moert_device_kind kind) { return NameOf(kDeviceKinds, kind); }

bool IsExpertRole(moert_role role) {
  return role >= MOERT_ROLE_EXPERT_GATE && role <= MOERT_ROLE_EXPERT_DOWN_BIAS;
}

bool IsGateUpRole(moert_role role) {
  return role == MOERT_ROLE_EXPERT_GATE_UP || role == MOERT_ROLE_EXPERT_GATE_UP_BIAS ||
         role == MOERT_ROLE_SHARED_GATE_UP;
}

}  // namespace moert::cli
