// SPDX-License-Identifier: Apache-2.0
#include "layer/resolve.h"

#include <cinttypes>
#include <cmath>
#include <limits>
#include <span>

#include "backend/roles.h"
#include "core/caller_struct.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert {
namespace {

// Widths beyond this are refused, so that products of two widths and an element size fit 64 bits.
constexpr int64_t kMaxWidth = int64_t{1} << 30;

Status CheckEnum(const char* name, int32_t value, int32_t last) {
  if (value >= 0 && value <= last) return Status();
  return InvalidArgument("%s %d is unknown; 0 to %d are accepted", name, value, last);
}

Status CheckNonNegative(const char* name, float value) {
  if (value >= 0 && std::isfinite(value)) return Status();
  return InvalidArgument("%s %g is not a finite number of at least 0", name,
                         static_cast<double>(value));
}

Status CheckFinite(const char* name, float value) {
  if (std::isfinite(value)) return Status();
  return InvalidArgument("%s %g is not finite", name, static_cast<double>(value));
}

Status CheckWidth(const char* name, int64_t value, int64_t least) {
  if (value >= least && value <= kMaxWidth) return Status();
  return InvalidArgument("%s is %" PRId64 "; %" PRId64 " to %" PRId64 " are accepted", name, value,
                         least, kMaxWidth);
}

Status CheckComputeDtype(moert_dtype dtype) {
  if (IsComputeDtype(dtype)) return Status();
  return InvalidArgument("dtype %s (%d) cannot be computed in; F32, BF16 and F16 are accepted",
                         moert_dtype_name(dtype), dtype);
}

void DefaultTo(float* value, float fallback) {
  if (*value == 0) *value = fallback;
}

Status CheckGroups(const moert_routing& routing) {
  const int32_t groups = routing.num_groups;
  if (routing.num_experts % groups != 0) {
    return InvalidArgument("num_groups %d does not divide num_experts %d", groups,
                           routing.num_experts);
  }
  if (routing.top_k_groups < 1 || routing.top_k_groups > groups) {
    return InvalidArgument("top_k_groups %d is not within 1 to num_groups %d", routing.top_k_groups,
                           groups);
  }
  const int32_t eligible = routing.num_experts / groups * routing.top_k_groups;
  if (routing.top_k > eligible) {
    return InvalidArgument("top_k %d is above the %d experts of top_k_groups %d", routing.top_k,
                           eligible, routing.top_k_groups);
  }
  if (routing.score == MOERT_SCORE_SPARSEMIXER) {
    return InvalidArgument("num_groups %d: score SPARSEMIXER has no groups", groups);
  }
  return Status();
}

// Everything a weight's strides can reach lies within 63 bits.
Status CheckExtent(const moert_weight& weight, const Role& role, int64_t num_local) {
  int64_t elements = 0, bytes = 0;
  const int64_t row_stride = weight.row_stride != 0 ? weight.row_stride : weight.cols;
  bool fits = CheckedMultiply(weight.rows, row_stride, &elements);
  if (fits && role.per_expert && weight.experts == nullptr) {
    const int64_t expert_stride = weight.expert_stride != 0 ? weight.expert_stride : elements;
    int64_t before_last = 0;
    fits = CheckedMultiply(expert_stride, num_local - 1, &before_last) &&
           CheckedAdd(elements, before_last, &elements);
  }
  if (fits && CheckedMultiply(elements, ElementSize(weight.dtype), &bytes)) return Status();
  return InvalidArgument("weight %s: row_stride %" PRId64 " and expert_stride %" PRId64
                         " pass 2^63 bytes",
                         role.name, weight.row_stride, weight.expert_stride);
}

// A weight of the caller, checked against its role.
Status CheckWeight(const moert_weight& weight, const Widths& widths, moert_dtype dtype,
                   int64_t num_local) {
  const Role* role = FindRole(weight.role);
  if (role == nullptr) {
    return InvalidArgument("weight role %d is unknown; 1 to %d are accepted", weight.role,
                           kNumRoles - 1);
  }
  if (weight.reserved != 0) {
    return InvalidArgument("weight %s: reserved is %u; it must be 0", role->name, weight.reserved);
  }
  if (!IsComputeDtype(weight.dtype)) {
    return Unsupported("weight %s has dtype %s (%d); F32, BF16 and F16 are supported", role->name,
                       moert_dtype_name(weight.dtype), weight.dtype);
  }
  if (role->is_widened && !Widens(weight.dtype, dtype)) {
    return InvalidArgument(
        "weight %s is %s but the layer computes in %s: weights are widened, never narrowed",
        role->name, moert_dtype_name(weight.dtype), moert_dtype_name(dtype));
  }
  MOERT_RETURN_IF_ERROR(
      CheckEnum("weight orientation", weight.orientation, MOERT_ORIENTATION_IN_OUT));
  MOERT_RETURN_IF_ERROR(CheckEnum("weight packing", weight.packing, MOERT_PACKING_INTERLEAVED));
  if (role->is_vector && weight.orientation != MOERT_ORIENTATION_OUT_IN) {
    return InvalidArgument("weight %s is a vector; its orientation must be OUT_IN", role->name);
  }
  int64_t rows = widths.Get(role->rows), cols = widths.Get(role->cols);
  if (weight.orientation == MOERT_ORIENTATION_IN_OUT) std::swap(rows, cols);
  if (weight.rows != rows || weight.cols != cols) {
    return InvalidArgument("weight %s is [%" PRId64 ", %" PRId64 "]; it must be [%" PRId64
                           ", %" PRId64 "]",
                           role->name, weight.rows, weight.cols, rows, cols);
  }
  if (weight.row_stride != 0 && weight.row_stride < cols) {
    return InvalidArgument("weight %s: row_stride %" PRId64 " is below its cols %" PRId64,
                           role->name, weight.row_stride, cols);
  }
  if (weight.expert_stride < 0) {
    return InvalidArgument("weight %s: expert_stride %" PRId64 " is negative", role->name,
                           weight.expert_stride);
  }
  MOERT_RETURN_IF_ERROR(CheckExtent(weight, *role, num_local));
  if (weight.experts != nullptr) {
    if (!role->per_expert) {
      return InvalidArgument("weight %s is one matrix; it takes data, not experts", role->name);
    }
    if (weight.data != nullptr) {
      return InvalidArgument("weight %s has both data and experts; exactly one is accepted",
                             role->name);
    }
    for (int64_t i = 0; i < num_local; ++i) {
      if (weight.experts[i] == nullptr) {
        return InvalidArgument("weight %s: experts[%" PRId64 "] is NULL", role->name, i);
      }
    }
  } else if (weight.data == nullptr) {
    return InvalidArgument("weight %s has neither data nor experts", role->name);
  }
  return Status();
}

// The strided view of expert `index` of a checked weight (0 where the role is one matrix).
WeightMatrix View(const moert_weight& weight, int64_t index) {
  const int64_t row_stride = weight.row_stride != 0 ? weight.row_stride : weight.cols;
  const int64_t expert_stride =
      weight.expert_stride != 0 ? weight.expert_stride : weight.rows * row_stride;
  WeightMatrix view;
  view.dtype = weight.dtype;
  view.data = weight.experts != nullptr ? weight.experts[index]
                                        : static_cast<const char*>(weight.data) +
                                              index * expert_stride * ElementSize(weight.dtype);
  const bool out_in = weight.orientation == MOERT_ORIENTATION_OUT_IN;
  view.out_stride = out_in ? row_stride : 1;
  view.in_stride = out_in ? 1 : row_stride;
  return view;
}

// Splits a packed gate/up view along `stride`, the stride of its output dimension.
void Split(const WeightMatrix& packed, moert_packing packing, int64_t outputs,
           int64_t WeightMatrix::*stride, WeightMatrix* gate, WeightMatrix* up) {
  *gate = *up = packed;
  const bool interleaved = packing == MOERT_PACKING_INTERLEAVED;
  const int64_t step = packed.*stride;
  const int64_t offset = interleaved ? step : outputs * step;
  up->data = static_cast<const char*>(packed.data) + offset * ElementSize(packed.dtype);
  if (interleaved) gate->*stride = up->*stride = 2 * step;
}

void PlaceExpert(const moert_weight& weight, int64_t index, int64_t intermediate,
                 ExpertWeights* expert) {
  const WeightMatrix view = View(weight, index);
  switch (weight.role) {
    case MOERT_ROLE_EXPERT_GATE:
    case MOERT_ROLE_SHARED_GATE:
      expert->gate = view;
      break;
    case MOERT_ROLE_EXPERT_UP:
    case MOERT_ROLE_SHARED_UP:
      expert->up = view;
      break;
    case MOERT_ROLE_EXPERT_GATE_UP:
    case MOERT_ROLE_SHARED_GATE_UP:
      Split(view, weight.packing, intermediate, &WeightMatrix::out_stride, &expert->gate,
            &expert->up);
      break;
    case MOERT_ROLE_EXPERT_DOWN:
    case MOERT_ROLE_SHARED_DOWN:
      expert->down = view;
      break;
    case MOERT_ROLE_EXPERT_GATE_BIAS:
      expert->gate_bias = view;
      break;
    case MOERT_ROLE_EXPERT_UP_BIAS:
      expert->up_bias = view;
      break;
    case MOERT_ROLE_EXPERT_GATE_UP_BIAS:
      Split(view, weight.packing, intermediate, &WeightMatrix::in_stride, &expert->gate_bias,
            &expert->up_bias);
      break;
    case MOERT_ROLE_EXPERT_DOWN_BIAS:
      expert->down_bias = view;
      break;
    default:
      break;
  }
}

void PlaceRouter(const moert_weight& weight, RouterWeights* router) {
  const WeightMatrix view = View(weight, 0);
  switch (weight.role) {
    case MOERT_ROLE_ROUTER:
      router->router = view;
      break;
    case MOERT_ROLE_ROUTER_BIAS:
      router->router_bias = view;
      break;
    case MOERT_ROLE_SELECTION_BIAS:
      router->selection_bias = view;
      break;
    case MOERT_ROLE_ROUTER_INPUT_SCALE:
      router->input_scale = view;
      break;
    case MOERT_ROLE_EXPERT_SCALE:
      router->expert_scale = view;
      break;
    default:
      break;
  }
}

void Place(const moert_weight& weight, const LayerSpec& spec, LayerWeights* weights) {
  switch (FindRole(weight.role)->group) {
    case RoleGroup::kRouter:
      PlaceRouter(weight, &weights->router);
      break;
    case RoleGroup::kExpert:
      for (size_t i = 0; i < weights->experts.size(); ++i) {
        PlaceExpert(weight, i, spec.intermediate, &weights->experts[i]);
      }
      break;
    case RoleGroup::kLatent:
      (weight.role == MOERT_ROLE_LATENT_IN ? weights->latent_in : weights->latent_out) =
          View(weight, 0);
      break;
    case RoleGroup::kShared:
      if (weight.role == MOERT_ROLE_SHARED_EXPERT_GATE) {
        weights->shared_expert_gate = View(weight, 0);
      } else {
        PlaceExpert(weight, 0, spec.shared_intermediate, &weights->shared);
      }
      break;
  }
}

// Reads the caller's array of weights, whose elements are as far apart as its first one says.
Status ReadWeights(const moert_weight* array, uint32_t count, moert_weight (&out)[kNumRoles],
                   bool (&given)[kNumRoles]) {
  if (array == nullptr && count != 0) {
    return InvalidArgument("weights is NULL but num_weights is %u", count);
  }
  if (count > 1 && array->struct_size % alignof(moert_weight) != 0) {
    return InvalidArgument("weights[0].struct_size is %u; in an array it is a multiple of %zu",
                           array->struct_size, alignof(moert_weight));
  }
  for (uint32_t i = 0; i < count; ++i) {
    const char* at = reinterpret_cast<const char*>(array) + size_t{i} * array->struct_size;
    moert_weight weight;
    MOERT_RETURN_IF_ERROR(
        ReadCallerStruct("moert_weight", *reinterpret_cast<const moert_weight*>(at), &weight));
    if (reinterpret_cast<const moert_weight*>(at)->struct_size != array->struct_size) {
      return InvalidArgument("weights[%u].struct_size differs from weights[0]'s %u", i,
                             array->struct_size);
    }
    if (FindRole(weight.role) == nullptr) {
      return InvalidArgument("weights[%u].role %d is unknown; 1 to %d are accepted", i, weight.role,
                             kNumRoles - 1);
    }
    if (given[weight.role]) {
      return InvalidArgument("weights[%u]: role %s is given twice", i, RoleName(weight.role));
    }
    given[weight.role] = true;
    out[weight.role] = weight;
  }
  return Status();
}

Status CheckSelectionBias(const moert_routing& routing) {
  if (routing.score == MOERT_SCORE_SOFTMAX || routing.score == MOERT_SCORE_SIGMOID) {
    return Status();
  }
  return InvalidArgument("SELECTION_BIAS needs score SOFTMAX or SIGMOID; score is %d",
                         routing.score);
}

Status ResolveLocalExperts(const moert_layer_desc& desc, int32_t num_experts,
                           std::pmr::vector<int32_t>* local) {
  if (desc.num_local_experts == 0) {
    if (desc.local_experts != nullptr) {
      return InvalidArgument("local_experts is given but num_local_experts is 0");
    }
    local->resize(num_experts);
    for (int32_t e = 0; e < num_experts; ++e) (*local)[e] = e;
    return Status();
  }
  if (desc.num_local_experts > static_cast<uint32_t>(num_experts)) {
    return InvalidArgument("num_local_experts %u is above num_experts %d", desc.num_local_experts,
                           num_experts);
  }
  if (desc.local_experts == nullptr) {
    return InvalidArgument("local_experts is NULL but num_local_experts is %u",
                           desc.num_local_experts);
  }
  local->assign(desc.local_experts, desc.local_experts + desc.num_local_experts);
  std::pmr::vector<bool> seen(num_experts, local->get_allocator());
  for (size_t i = 0; i < local->size(); ++i) {
    const int32_t id = (*local)[i];
    if (id < 0 || id >= num_experts) {
      return InvalidArgument("local_experts[%zu] %d is not within 0 to %d", i, id, num_experts - 1);
    }
    if (seen[id]) return InvalidArgument("local_experts[%zu] %d is there twice", i, id);
    seen[id] = true;
  }
  return Status();
}

Status ResolveWidths(const moert_layer_desc& desc, LayerSpec* spec) {
  MOERT_RETURN_IF_ERROR(CheckWidth("hidden", desc.hidden, 1));
  MOERT_RETURN_IF_ERROR(CheckWidth("intermediate", desc.intermediate, 1));
  MOERT_RETURN_IF_ERROR(CheckWidth("latent", desc.latent, 0));
  MOERT_RETURN_IF_ERROR(CheckWidth("shared_intermediate", desc.shared_intermediate, 0));
  spec->hidden = desc.hidden;
  spec->intermediate = desc.intermediate;
  spec->latent = desc.latent;
  spec->shared_intermediate = desc.shared_intermediate;
  return Status();
}

Status ResolveActivations(const moert_layer_desc& desc, LayerSpec* spec) {
  moert_activation experts = MOERT_ACTIVATION_INIT;
  if (desc.activation != nullptr) {
    MOERT_RETURN_IF_ERROR(ReadCallerStruct("moert_activation", *desc.activation, &experts));
  }
  moert_activation shared = experts;
  if (desc.shared_activation != nullptr) {
    MOERT_RETURN_IF_ERROR(ReadCallerStruct("moert_activation", *desc.shared_activation, &shared));
  }
  MOERT_RETURN_IF_ERROR(ResolveActivation("activation", experts, &spec->activation));
  return ResolveActivation("shared_activation", shared, &spec->shared_activation);
}

bool IsGated(const moert_activation& activation) {
  return (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0;
}

}  // namespace

Status ResolveRouting(const moert_routing& in, const RoutingLimits& limits, moert_routing* out) {
  if ((in.flags & ~uint32_t{MOERT_ROUTING_FLAG_RMS_NORM_INPUT}) != 0) {
    return InvalidArgument("moert_routing.flags 0x%x has unknown bits; known are 0x1", in.flags);
  }
  if (in.reserved != 0) {
    return InvalidArgument("moert_routing.reserved is %u; it must be 0", in.reserved);
  }
  if (in.num_experts < 1) {
    return InvalidArgument("num_experts is %d; it must be at least 1", in.num_experts);
  }
  if (in.num_experts > limits.max_experts) {
    return Unsupported("num_experts %d is above the device's limit of %d", in.num_experts,
                       limits.max_experts);
  }
  if (in.top_k < 1) return InvalidArgument("top_k is %d; it must be at least 1", in.top_k);
  if (in.top_k > in.num_experts) {
    return InvalidArgument("top_k %d is above num_experts %d", in.top_k, in.num_experts);
  }
  if (in.top_k > limits.max_top_k) {
    return Unsupported("top_k %d is above the device's limit of %d", in.top_k, limits.max_top_k);
  }
  MOERT_RETURN_IF_ERROR(CheckEnum("score", in.score, MOERT_SCORE_SPARSEMIXER));
  MOERT_RETURN_IF_ERROR(CheckEnum("renormalize", in.renormalize, MOERT_RENORMALIZE_P_NORM));
  MOERT_RETURN_IF_ERROR(CheckEnum("group_score", in.group_score, MOERT_GROUP_SCORE_TOP2_SUM));
  MOERT_RETURN_IF_ERROR(CheckNonNegative("renormalize_value", in.renormalize_value));
  MOERT_RETURN_IF_ERROR(CheckFinite("routed_scaling_factor", in.routed_scaling_factor));
  MOERT_RETURN_IF_ERROR(CheckNonNegative("logit_soft_cap", in.logit_soft_cap));
  MOERT_RETURN_IF_ERROR(CheckNonNegative("sparsemixer_epsilon", in.sparsemixer_epsilon));
  MOERT_RETURN_IF_ERROR(CheckNonNegative("input_rms_epsilon", in.input_rms_epsilon));
  MOERT_RETURN_IF_ERROR(CheckFinite("input_multiplier", in.input_multiplier));
  if (in.renormalize == MOERT_RENORMALIZE_P_NORM && in.renormalize_value == 0) {
    return InvalidArgument("renormalize_value is 0; P_NORM needs a p above 0");
  }
  if (in.score == MOERT_SCORE_SPARSEMIXER && in.top_k != 2) {
    return InvalidArgument("top_k is %d; score SPARSEMIXER needs 2", in.top_k);
  }
  *out = in;
  DefaultTo(&out->routed_scaling_factor, 1.0f);
  DefaultTo(&out->sparsemixer_epsilon, 0.01f);
  DefaultTo(&out->input_rms_epsilon, 1e-6f);
  DefaultTo(&out->input_multiplier, 1.0f);
  if (in.num_groups < 0) {
    return InvalidArgument("num_groups is %d; it must be at least 0", in.num_groups);
  }
  if (in.num_groups > 1) return CheckGroups(in);
  out->num_groups = out->top_k_groups = 1;
  return Status();
}

Status ResolveActivation(const char* name, const moert_activation& in, moert_activation* out) {
  if ((in.flags & ~uint32_t{MOERT_ACTIVATION_FLAG_UNGATED}) != 0) {
    return InvalidArgument("%s.flags 0x%x has unknown bits; known are 0x1", name, in.flags);
  }
  MOERT_RETURN_IF_ERROR(CheckEnum("activation kind", in.kind, MOERT_ACTIVATION_KIND_RELU2));
  MOERT_RETURN_IF_ERROR(CheckFinite("alpha", in.alpha));
  MOERT_RETURN_IF_ERROR(CheckNonNegative("limit", in.limit));
  MOERT_RETURN_IF_ERROR(CheckFinite("up_offset", in.up_offset));
  if (in.alpha != 0 && in.alpha != 1 && in.kind != MOERT_ACTIVATION_KIND_SILU) {
    return InvalidArgument("%s.alpha is %g; only SiLU takes one", name,
                           static_cast<double>(in.alpha));
  }
  if (!IsGated(in) && (in.limit != 0 || in.up_offset != 0)) {
    return InvalidArgument("%s.limit %g or up_offset %g is given, but it is ungated", name,
                           static_cast<double>(in.limit), static_cast<double>(in.up_offset));
  }
  *out = in;
  DefaultTo(&out->alpha, 1.0f);
  return Status();
}

Status ResolveLayer(const moert_layer_desc& desc, const RoutingLimits& limits, LayerSpec* spec,
                    LayerWeights* weights) {
  constexpr uint32_t kFlags = MOERT_LAYER_FLAG_BORROW_WEIGHTS | MOERT_LAYER_FLAG_TRAINABLE;
  if ((desc.flags & ~kFlags) != 0) {
    return InvalidArgument("moert_layer_desc.flags 0x%x has unknown bits; known are 0x%x",
                           desc.flags, kFlags);
  }
  spec->dtype = desc.dtype == MOERT_DTYPE_NONE ? MOERT_DTYPE_FLOAT32 : desc.dtype;
  MOERT_RETURN_IF_ERROR(CheckComputeDtype(spec->dtype));
  MOERT_RETURN_IF_ERROR(
      CheckEnum("weight_application", desc.weight_application, MOERT_WEIGHT_APPLICATION_INPUT));
  spec->weight_application = desc.weight_application;
  spec->trainable = (desc.flags & MOERT_LAYER_FLAG_TRAINABLE) != 0;
  MOERT_RETURN_IF_ERROR(ResolveWidths(desc, spec));
  if (desc.routing == nullptr) return InvalidArgument("moert_layer_desc.routing is NULL");
  moert_routing routing;
  MOERT_RETURN_IF_ERROR(ReadCallerStruct("moert_routing", *desc.routing, &routing));
  MOERT_RETURN_IF_ERROR(ResolveRouting(routing, limits, &spec->routing));
  MOERT_RETURN_IF_ERROR(ResolveActivations(desc, spec));
  MOERT_RETURN_IF_ERROR(ResolveLocalExperts(desc, spec->routing.num_experts, &spec->local_experts));

  moert_weight read[kNumRoles];
  bool given[kNumRoles] = {};
  MOERT_RETURN_IF_ERROR(ReadWeights(desc.weights, desc.num_weights, read, given));
  const RoleOffence offence =
      CheckRoles(given, IsGated(spec->activation), spec->latent != 0,
                 spec->shared_intermediate != 0, IsGated(spec->shared_activation));
  if (offence.what != nullptr) {
    return InvalidArgument("weight %s %s", RoleName(offence.role), offence.what);
  }
  if (given[MOERT_ROLE_SELECTION_BIAS]) {
    MOERT_RETURN_IF_ERROR(CheckSelectionBias(spec->routing));
  }
  const Widths widths{spec->routing.num_experts, spec->hidden, spec->intermediate, spec->latent,
                      spec->shared_intermediate};
  const auto num_local = static_cast<int64_t>(spec->local_experts.size());
  weights->experts.resize(num_local);
  for (moert_role role = 1; role < kNumRoles; ++role) {
    if (!given[role]) continue;
    MOERT_RETURN_IF_ERROR(CheckWeight(read[role], widths, spec->dtype, num_local));
    Place(read[role], *spec, weights);
  }
  return Status();
}

Status ResolveRouter(const moert_router_desc& desc, const RoutingLimits& limits, RouterSpec* spec,
                     RouterWeights* weights) {
  constexpr uint32_t kFlags = MOERT_LAYER_FLAG_BORROW_WEIGHTS;
  if ((desc.flags & ~kFlags) != 0) {
    return InvalidArgument("moert_router_desc.flags 0x%x has unknown bits; known are 0x%x",
                           desc.flags, kFlags);
  }
  spec->dtype = desc.dtype == MOERT_DTYPE_NONE ? MOERT_DTYPE_FLOAT32 : desc.dtype;
  MOERT_RETURN_IF_ERROR(CheckComputeDtype(spec->dtype));
  MOERT_RETURN_IF_ERROR(CheckWidth("hidden", desc.hidden, 0));
  spec->hidden = desc.hidden;
  if (desc.routing == nullptr) return InvalidArgument("moert_router_desc.routing is NULL");
  moert_routing routing;
  MOERT_RETURN_IF_ERROR(ReadCallerStruct("moert_routing", *desc.routing, &routing));
  MOERT_RETURN_IF_ERROR(ResolveRouting(routing, limits, &spec->routing));

  moert_weight read[kNumRoles];
  bool given[kNumRoles] = {};
  MOERT_RETURN_IF_ERROR(ReadWeights(desc.weights, desc.num_weights, read, given));
  if (given[MOERT_ROLE_ROUTER] != (desc.hidden != 0)) {
    return InvalidArgument("hidden is %" PRId64 " but weight ROUTER is %s", desc.hidden,
                           given[MOERT_ROLE_ROUTER] ? "given" : "missing");
  }
  if (given[MOERT_ROLE_ROUTER_INPUT_SCALE] && !given[MOERT_ROLE_ROUTER]) {
    return InvalidArgument("weight ROUTER_INPUT_SCALE is given without ROUTER");
  }
  if (given[MOERT_ROLE_SELECTION_BIAS]) {
    MOERT_RETURN_IF_ERROR(CheckSelectionBias(spec->routing));
  }
  const Widths widths{spec->routing.num_experts, spec->hidden, 0, 0, 0};
  for (moert_role role = 1; role < kNumRoles; ++role) {
    if (!given[role]) continue;
    if (FindRole(role)->group != RoleGroup::kRouter) {
      return InvalidArgument("weight %s is not a router's", RoleName(role));
    }
    MOERT_RETURN_IF_ERROR(CheckWeight(read[role], widths, spec->dtype, 1));
    PlaceRouter(read[role], weights);
  }
  return Status();
}

Status ResolveGate(const moert_gate_desc& desc, GateSpec* spec) {
  MOERT_RETURN_IF_ERROR(CheckEnum("gate kind", desc.kind, MOERT_GATE_KIND_ADD_LINEAR));
  spec->kind = desc.kind;
  spec->dtype = desc.dtype == MOERT_DTYPE_NONE ? MOERT_DTYPE_FLOAT32 : desc.dtype;
  MOERT_RETURN_IF_ERROR(CheckComputeDtype(spec->dtype));
  if (desc.reserved != 0) {
    return InvalidArgument("moert_gate_desc.reserved is %u; it must be 0", desc.reserved);
  }
  MOERT_RETURN_IF_ERROR(CheckWidth("width", desc.width, 1));
  const bool linear = desc.kind == MOERT_GATE_KIND_ADD_LINEAR;
  if (!linear && desc.linear_width != 0) {
    return InvalidArgument("linear_width is %" PRId64 "; only ADD_LINEAR takes one",
                           desc.linear_width);
  }
  if (linear) MOERT_RETURN_IF_ERROR(CheckWidth("linear_width", desc.linear_width, 1));
  spec->width = desc.width;
  spec->linear_width = desc.linear_width;
  return Status();
}

}  // namespace moert
