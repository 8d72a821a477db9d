// SPDX-License-Identifier: Apache-2.0
#include "manifest/plan.h"

#include <algorithm>
#include <utility>

#include "manifest/quant.h"

namespace moert {
namespace {

std::string Substitute(std::string pattern, std::string_view placeholder, int64_t number) {
  const size_t at = pattern.find(placeholder);
  if (at != std::string::npos) pattern.replace(at, placeholder.size(), std::to_string(number));
  return pattern;
}

// Plans one layer.
class LayerPlanner {
 public:
  LayerPlanner(const Family& family, const FamilyContext& context, const QuantConfig& quant,
               const TensorTable& table, std::string prefix)
      : family_(family),
        context_(context),
        quant_(quant),
        table_(table),
        prefix_(std::move(prefix)) {}

  Status Run(PlannedLayer* out) {
    out->model_layer = context_.layer;
    MOERT_RETURN_IF_ERROR(PlanRouting(&out->routing));
    MOERT_RETURN_IF_ERROR(PlanSizes(out));
    MOERT_RETURN_IF_ERROR(PlanActivation(family_.activation, "activation", &out->activation));
    MOERT_RETURN_IF_ERROR(
        PlanActivation(family_.shared_activation, "shared_activation", &out->shared_activation));
    MOERT_RETURN_IF_ERROR(EvaluateEnum(family_.weight_application, context_, "weight_application",
                                       kWeightApplicationNames, &out->weight_application));
    for (const WeightGroup& group : family_.weights) MOERT_RETURN_IF_ERROR(PlanGroup(group, out));
    return Status();
  }

 private:
  Status Integer(const Value& value, const char* what, int64_t least, int64_t most, int64_t* out) {
    MOERT_RETURN_IF_ERROR(EvaluateInteger(value, context_, what, out));
    if (*out >= least && *out <= most) return Status();
    return CorruptData(MOERT_CORRUPTION_FIELD, "%s: layer %d: %s is %lld; accepted is %lld to %lld",
                       context_.config_name, context_.layer, what, static_cast<long long>(*out),
                       static_cast<long long>(least), static_cast<long long>(most));
  }
  Status Int32(const Value& value, const char* what, int32_t* out) {
    int64_t wide = 0;
    MOERT_RETURN_IF_ERROR(Integer(value, what, 0, INT32_MAX, &wide));
    *out = static_cast<int32_t>(wide);
    return Status();
  }
  Status Float(const Value& value, const char* what, float* out) {
    double wide = 0;
    MOERT_RETURN_IF_ERROR(EvaluateNumber(value, context_, what, &wide));
    *out = static_cast<float>(wide);
    return Status();
  }

  Status PlanRouting(moert_routing* out) {
    const RoutingRule& rule = family_.routing;
    MOERT_RETURN_IF_ERROR(Int32(rule.num_experts, "num_experts", &out->num_experts));
    MOERT_RETURN_IF_ERROR(Int32(rule.top_k, "top_k", &out->top_k));
    MOERT_RETURN_IF_ERROR(EvaluateEnum(rule.score, context_, "score", kScoreNames, &out->score));
    MOERT_RETURN_IF_ERROR(EvaluateEnum(rule.renormalize, context_, "renormalize", kRenormalizeNames,
                                       &out->renormalize));
    MOERT_RETURN_IF_ERROR(Int32(rule.num_groups, "num_groups", &out->num_groups));
    MOERT_RETURN_IF_ERROR(Int32(rule.top_k_groups, "top_k_groups", &out->top_k_groups));
    MOERT_RETURN_IF_ERROR(EvaluateEnum(rule.group_score, context_, "group_score", kGroupScoreNames,
                                       &out->group_score));
    bool rms_norm = false;
    MOERT_RETURN_IF_ERROR(EvaluateBool(rule.rms_norm_input, context_, "rms_norm_input", &rms_norm));
    if (rms_norm) out->flags |= MOERT_ROUTING_FLAG_RMS_NORM_INPUT;
    const struct {
      const Value& value;
      const char* name;
      float* out;
    } floats[] = {
        {rule.renormalize_value, "renormalize_value", &out->renormalize_value},
        {rule.routed_scaling_factor, "routed_scaling_factor", &out->routed_scaling_factor},
        {rule.logit_soft_cap, "logit_soft_cap", &out->logit_soft_cap},
        {rule.sparsemixer_epsilon, "sparsemixer_epsilon", &out->sparsemixer_epsilon},
        {rule.input_rms_epsilon, "input_rms_epsilon", &out->input_rms_epsilon},
        {rule.input_multiplier, "input_multiplier", &out->input_multiplier}};
    for (const auto& knob : floats) MOERT_RETURN_IF_ERROR(Float(knob.value, knob.name, knob.out));
    return Status();
  }

  Status PlanSizes(PlannedLayer* out) {
    constexpr int64_t kMost = int64_t{1} << 30;
    Widths& widths = out->widths;
    widths.experts = out->routing.num_experts;
    MOERT_RETURN_IF_ERROR(Integer(family_.hidden, "hidden", 1, kMost, &widths.hidden));
    MOERT_RETURN_IF_ERROR(
        Integer(family_.intermediate, "intermediate", 1, kMost, &widths.intermediate));
    MOERT_RETURN_IF_ERROR(Integer(family_.latent, "latent", 0, kMost, &widths.latent));
    return Integer(family_.shared_intermediate, "shared_intermediate", 0, kMost, &widths.shared);
  }

  Status PlanActivation(const ActivationRule& rule, const char* what, moert_activation* out) {
    MOERT_RETURN_IF_ERROR(EvaluateEnum(rule.kind, context_, what, kActivationNames, &out->kind));
    bool gated = true;
    MOERT_RETURN_IF_ERROR(EvaluateBool(rule.gated, context_, "gated", &gated));
    if (!gated) out->flags |= MOERT_ACTIVATION_FLAG_UNGATED;
    MOERT_RETURN_IF_ERROR(Float(rule.alpha, "alpha", &out->alpha));
    MOERT_RETURN_IF_ERROR(Float(rule.limit, "limit", &out->limit));
    return Float(rule.up_offset, "up_offset", &out->up_offset);
  }

  // The role has a place in the layer: weights of a shared expert or a latent that it lacks have
  // not.
  static bool Wanted(const WeightRule& rule, const PlannedLayer& layer) {
    const RoleGroup group = FindRole(rule.role)->group;
    const auto& activation =
        group == RoleGroup::kShared ? layer.shared_activation : layer.activation;
    const bool ungated = (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) != 0;
    if (ungated && (rule.role == MOERT_ROLE_EXPERT_GATE || rule.role == MOERT_ROLE_SHARED_GATE ||
                    rule.role == MOERT_ROLE_EXPERT_GATE_BIAS)) {
      return false;
    }
    return (group != RoleGroup::kShared || layer.widths.shared != 0) &&
           (group != RoleGroup::kLatent || layer.widths.latent != 0);
  }

  std::optional<uint32_t> FindPattern(const std::string& pattern, int64_t expert) const {
    return table_.Find(Substitute(prefix_ + pattern, "{expert}", expert));
  }
  bool Spelled(const WeightRule& rule, WeightSpelling* out) const {
    return FindSpelling(
        rule, quant_, [&](const std::string& name) { return FindPattern(name, 0).has_value(); },
        [&](const std::string& name) { return table_.at(*FindPattern(name, 0)).dtype; }, out);
  }

  Status PlanGroup(const WeightGroup& group, PlannedLayer* out) {
    bool wanted = group.always;
    if (!wanted) MOERT_RETURN_IF_ERROR(Holds(group.condition, context_, "if", &wanted));
    if (!wanted) return Status();
    std::string tried;
    bool any_wanted = false;
    for (const std::vector<WeightRule>& rules : group.alternatives) {
      const auto first = std::find_if(rules.begin(), rules.end(), [&](const WeightRule& rule) {
        return Wanted(rule, *out) && (!rule.optional || rules.size() == 1);
      });
      if (first == rules.end()) continue;
      any_wanted = true;
      WeightSpelling spelling;
      if (!Spelled(*first, &spelling)) {
        for (const std::string& name : first->names) {
          tried += (tried.empty() ? "'" : ", '") + prefix_ + name + "'";
        }
        continue;
      }
      for (const WeightRule& rule : rules) {
        if (Wanted(rule, *out)) MOERT_RETURN_IF_ERROR(PlanWeight(rule, out));
      }
      return Status();
    }
    if (group.optional || !any_wanted) return Status();
    return NotFound("layer %d: no tensor for role %s; looked for %.700s", context_.layer,
                    RoleName(group.alternatives[0][0].role), tried.c_str());
  }

  Status PlanWeight(const WeightRule& rule, PlannedLayer* layer) {
    WeightSpelling spelling;
    if (!Spelled(rule, &spelling)) {
      if (rule.optional) return Status();
      return NotFound("layer %d: no tensor '%s%s' (role %s)", context_.layer, prefix_.c_str(),
                      rule.names[0].c_str(), RoleName(rule.role));
    }
    PlannedWeight weight;
    weight.role = rule.role;
    weight.orientation = rule.orientation;
    weight.packing = rule.packing;
    weight.rows = layer->widths.Get(FindRole(rule.role)->rows);
    weight.cols = layer->widths.Get(FindRole(rule.role)->cols);
    if (rule.orientation == MOERT_ORIENTATION_IN_OUT) std::swap(weight.rows, weight.cols);
    MOERT_RETURN_IF_ERROR(
        FindAll(spelling.values, rule.role, layer->widths.experts, &weight.tensors));
    std::vector<uint32_t> scales, zero_points;
    if (!spelling.scales.empty()) {
      MOERT_RETURN_IF_ERROR(FindAll(spelling.scales, rule.role, layer->widths.experts, &scales));
    }
    if (!spelling.zero_points.empty()) {
      MOERT_RETURN_IF_ERROR(
          FindAll(spelling.zero_points, rule.role, layer->widths.experts, &zero_points));
    }
    MOERT_RETURN_IF_ERROR(DescribeSpelling(spelling, quant_, table_.at(weight.tensors[0]),
                                           scales.empty() ? nullptr : &table_.at(scales[0]),
                                           &weight));
    if (weight.quant.has_value()) {
      weight.quant->scales = std::move(scales);
      weight.quant->zero_points = std::move(zero_points);
    }
    layer->weights.push_back(std::move(weight));
    return Status();
  }

  // The tensor of a pattern, or one for each expert; no expert may be left over.
  Status FindAll(const std::string& pattern, moert_role role, int64_t experts,
                 std::vector<uint32_t>* out) const {
    const bool per_expert = pattern.find("{expert}") != std::string::npos;
    for (int64_t expert = 0; expert < (per_expert ? experts : 1); ++expert) {
      const std::optional<uint32_t> found = FindPattern(pattern, expert);
      if (!found.has_value()) {
        return NotFound("layer %d: no tensor '%s' (role %s)", context_.layer,
                        Substitute(prefix_ + pattern, "{expert}", expert).c_str(), RoleName(role));
      }
      out->push_back(*found);
    }
    if (per_expert && FindPattern(pattern, experts).has_value()) {
      return CorruptData(MOERT_CORRUPTION_ROLES,
                         "layer %d: tensor '%s' (role %s) is there, but %s says %lld experts",
                         context_.layer, Substitute(prefix_ + pattern, "{expert}", experts).c_str(),
                         RoleName(role), context_.config_name, static_cast<long long>(experts));
    }
    return Status();
  }

  const Family& family_;
  const FamilyContext& context_;
  const QuantConfig& quant_;
  const TensorTable& table_;
  const std::string prefix_;
};

// The family's roots that the config has, in order.
std::vector<const Json*> FindRoots(const Family& family, const Json& config) {
  std::vector<const Json*> roots;
  for (const std::string& name : family.config_roots) {
    if (name.empty()) {
      roots.push_back(&config);
    } else if (config.contains(name) && config[name].is_object()) {
      roots.push_back(&config[name]);
    }
  }
  return roots;
}

std::string FindPrefix(const Family& family, const TensorTable& table, int32_t layer) {
  for (const std::string& pattern : family.layer_prefixes) {
    std::string prefix = Substitute(pattern, "{layer}", layer);
    if (table.HasPrefix(prefix)) return prefix;
  }
  return std::string();
}

}  // namespace

Status TensorTable::Build(std::vector<CheckpointTensor> tensors,
                          const std::vector<std::string>& file_names) {
  tensors_ = std::move(tensors);
  std::sort(tensors_.begin(), tensors_.end(),
            [](const CheckpointTensor& a, const CheckpointTensor& b) {
              return a.tensor.name < b.tensor.name;
            });
  const auto twice = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                        [](const CheckpointTensor& a, const CheckpointTensor& b) {
                                          return a.tensor.name == b.tensor.name;
                                        });
  if (twice == tensors_.end()) return Status();
  return CorruptData(MOERT_CORRUPTION_DUPLICATE_KEY, "tensor '%s' stands both in '%s' and in '%s'",
                     twice->tensor.name.c_str(), file_names[twice->file].c_str(),
                     file_names[(twice + 1)->file].c_str());
}

std::optional<uint32_t> TensorTable::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const CheckpointTensor& a, std::string_view b) { return a.tensor.name < b; });
  if (found == tensors_.end() || found->tensor.name != name) return std::nullopt;
  return static_cast<uint32_t>(found - tensors_.begin());
}

bool TensorTable::HasPrefix(std::string_view prefix) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), prefix,
      [](const CheckpointTensor& a, std::string_view b) { return a.tensor.name < b; });
  return found != tensors_.end() && found->tensor.name.starts_with(prefix);
}

Status PlanLayers(const Family& family, const Json& config, const TensorTable& table,
                  const Logger& log, Plan* out) {
  FamilyContext context;
  context.roots = FindRoots(family, config);
  int64_t num_layers = 0;
  MOERT_RETURN_IF_ERROR(
      EvaluateInteger(family.num_layers, context, "the number of layers", &num_layers));
  if (num_layers < 1 || num_layers > 1'000'000) {
    return CorruptData(MOERT_CORRUPTION_FIELD, "config.json: %lld layers; accepted is 1 to 1000000",
                       static_cast<long long>(num_layers));
  }
  context.num_layers = static_cast<int32_t>(num_layers);
  QuantConfig quant;
  MOERT_RETURN_IF_ERROR(ReadQuantConfig(context, &quant));
  for (int32_t layer = 0; layer < context.num_layers; ++layer) {
    const std::string prefix = FindPrefix(family, table, layer);
    context.layer = layer;
    context.has_tensor = [&](const std::string& name) {
      return !prefix.empty() && table.Find(prefix + name).has_value();
    };
    bool is_moe = false;
    MOERT_RETURN_IF_ERROR(Holds(family.is_moe, context, "the layer rule", &is_moe));
    if (!is_moe) {
      ++out->num_skipped;
      log.Log(MOERT_LOG_LEVEL_INFO, "layer %d is not MoE by the rule of family %s: skipped", layer,
              family.name.c_str());
      continue;
    }
    if (prefix.empty()) {
      return NotFound("layer %d: no tensor begins with '%s'", layer,
                      Substitute(family.layer_prefixes[0], "{layer}", layer).c_str());
    }
    LayerPlanner planner(family, context, quant, table, prefix);
    MOERT_RETURN_IF_ERROR(planner.Run(&out->layers.emplace_back()));
  }
  return Status();
}

}  // namespace moert
