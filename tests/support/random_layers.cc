// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "layers.h"

namespace moert::test {
namespace {

// Ones, primes, powers of two and one past them, more small than large.
int64_t RandomWidth(Rng& rng) {
  if (rng.Chance(0.15)) return rng.Pick<int64_t>({127, 128, 129, 200, 257});
  return rng.Pick<int64_t>({1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96});
}

moert_activation RandomActivation(Rng& rng) {
  moert_activation out = MOERT_ACTIVATION_INIT;
  out.kind = static_cast<moert_activation_kind>(rng.Int(0, 3));
  if (out.kind == MOERT_ACTIVATION_KIND_SILU && rng.Chance(0.4)) out.alpha = 1.702f;
  if (rng.Chance(0.25)) {
    out.flags = MOERT_ACTIVATION_FLAG_UNGATED;
  } else {
    if (rng.Chance(0.3)) out.limit = rng.Pick({0.5f, 1.0f, 7.0f});
    if (rng.Chance(0.3)) out.up_offset = rng.Pick({1.0f, -0.5f});
  }
  return out;
}

bool IsGated(const moert_activation& activation) {
  return (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0;
}

double InverseRoot(int64_t n) { return 1 / std::sqrt(static_cast<double>(n)); }

void AddBiases(Rng& rng, moert_dtype dtype, RefLayer* layer) {
  const bool fc1 = rng.Chance(0.8);
  const bool fc2 = rng.Chance(0.8);
  for (RefExpert& expert : layer->experts) {
    if (fc1 && !expert.gate.empty()) {
      expert.gate_bias = rng.NormalMat(1, layer->intermediate, 0.5, dtype);
    }
    if (fc1) expert.up_bias = rng.NormalMat(1, layer->intermediate, 0.5, dtype);
    if (fc2) expert.down_bias = rng.NormalMat(1, layer->expert_width(), 0.5, dtype);
  }
}

void AddGroups(Rng& rng, moert_routing* routing) {
  std::vector<int32_t> divisors;
  for (int32_t g = 2; g <= routing->num_experts; ++g) {
    if (routing->num_experts % g == 0) divisors.push_back(g);
  }
  if (divisors.empty()) return;
  routing->num_groups = divisors[rng.Int(0, static_cast<int64_t>(divisors.size()) - 1)];
  const int32_t size = routing->num_experts / routing->num_groups;
  const int32_t least = (routing->top_k + size - 1) / size;
  routing->top_k_groups = static_cast<int32_t>(rng.Int(least, routing->num_groups));
  routing->group_score = rng.Pick({MOERT_GROUP_SCORE_MAX, MOERT_GROUP_SCORE_TOP2_SUM});
}

}  // namespace

moert_routing RandomRouting(Rng& rng) {
  moert_routing out = MOERT_ROUTING_INIT;
  out.score = static_cast<moert_score>(rng.Int(0, 4));
  out.num_experts = rng.Pick({1, 2, 3, 5, 6, 7, 8, 8, 11, 16, 16, 17, 24, 60, 64, 65});
  if (out.score == MOERT_SCORE_SPARSEMIXER) {
    out.num_experts = std::max(out.num_experts, 2);
    out.top_k = 2;
    if (rng.Chance(0.5)) out.sparsemixer_epsilon = rng.Pick({0.05f, 0.2f});
  } else {
    out.top_k = rng.Chance(0.15) ? out.num_experts
                                 : static_cast<int32_t>(rng.Int(1, std::min(out.num_experts, 9)));
    out.renormalize = static_cast<moert_renormalize>(rng.Int(0, 4));
    if (rng.Chance(0.35)) AddGroups(rng, &out);
  }
  switch (out.renormalize) {
    case MOERT_RENORMALIZE_SUM_EPSILON:
      out.renormalize_value = rng.Pick({1e-20f, 1e-6f, 0.1f});
      break;
    case MOERT_RENORMALIZE_SUM_MIN:
      out.renormalize_value = rng.Pick({1e-12f, 0.5f});
      break;
    case MOERT_RENORMALIZE_P_NORM:
      out.renormalize_value = rng.Pick({1.0f, 2.0f, 3.5f});
      break;
    default:
      break;
  }
  if (rng.Chance(0.3)) out.routed_scaling_factor = 2.5f;
  if (rng.Chance(0.2)) out.logit_soft_cap = rng.Pick({2.0f, 30.0f});
  if (rng.Chance(0.2)) {
    out.flags = MOERT_ROUTING_FLAG_RMS_NORM_INPUT;
    if (rng.Chance(0.5)) out.input_rms_epsilon = 0.1f;
  }
  if (rng.Chance(0.2)) out.input_multiplier = 0.75f;
  return out;
}

RefRouter RandomRouter(Rng& rng, const moert_routing& routing, int64_t hidden, moert_dtype dtype) {
  RefRouter out;
  out.routing = routing;
  const int32_t experts = routing.num_experts;
  if (hidden != 0) {
    out.weight = rng.NormalMat(experts, hidden, 1.5 * InverseRoot(hidden), dtype);
    if (rng.Chance(0.2)) out.input_scale = rng.NormalMat(1, hidden, 1, dtype);
  }
  if (rng.Chance(0.3)) out.bias = rng.NormalMat(1, experts, 1, dtype);
  const bool scores = routing.score == MOERT_SCORE_SOFTMAX || routing.score == MOERT_SCORE_SIGMOID;
  if (scores && rng.Chance(0.4)) out.selection_bias = rng.NormalMat(1, experts, 0.3, dtype);
  if (rng.Chance(0.2)) out.expert_scale = rng.NormalMat(1, experts, 1, dtype);
  return out;
}

RefExpert RandomExpert(Rng& rng, int64_t width, int64_t intermediate, bool gated,
                       moert_dtype dtype) {
  RefExpert out;
  if (gated) out.gate = rng.NormalMat(intermediate, width, InverseRoot(width), dtype);
  out.up = rng.NormalMat(intermediate, width, InverseRoot(width), dtype);
  out.down = rng.NormalMat(width, intermediate, InverseRoot(intermediate), dtype);
  return out;
}

RefLayer RandomLayer(Rng& rng, const Shape& shape, moert_dtype dtype, const WeightStyle& style) {
  RefLayer out;
  out.dtype = dtype;
  out.hidden = shape.hidden;
  out.intermediate = shape.intermediate;
  out.latent = shape.latent;
  out.shared_intermediate = shape.shared;
  out.router.routing.num_experts = shape.experts;
  out.router.routing.top_k = shape.top_k;
  out.router.weight = rng.NormalMat(shape.experts, shape.hidden, 1.5 * InverseRoot(shape.hidden),
                                    style.router_dtype);
  for (int32_t e = 0; e < shape.experts; ++e) {
    out.experts.push_back(
        RandomExpert(rng, out.expert_width(), shape.intermediate, true, style.dtype));
  }
  if (shape.shared != 0) {
    out.shared = RandomExpert(rng, shape.hidden, shape.shared, true, style.dtype);
  }
  if (shape.latent != 0) {
    out.latent_in =
        rng.NormalMat(shape.latent, shape.hidden, InverseRoot(shape.hidden), style.dtype);
    out.latent_out =
        rng.NormalMat(shape.hidden, shape.latent, InverseRoot(shape.latent), style.dtype);
  }
  return out;
}

WeightStyle RandomStyle(Rng& rng, moert_dtype dtype) {
  WeightStyle out;
  out.dtype = dtype;
  if (dtype == MOERT_DTYPE_FLOAT32 && rng.Chance(0.3)) {
    out.dtype = rng.Pick({MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16});
  }
  out.router_dtype = rng.Pick({MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16});
  out.orientation = rng.Pick({MOERT_ORIENTATION_OUT_IN, MOERT_ORIENTATION_IN_OUT});
  out.packed = rng.Chance(0.5);
  out.packing = rng.Pick({MOERT_PACKING_CONCATENATED, MOERT_PACKING_INTERLEAVED});
  out.one_tensor_each = rng.Chance(0.5);
  if (rng.Chance(0.3)) out.row_padding = rng.Int(1, 9);
  if (rng.Chance(0.3)) out.expert_padding = rng.Int(1, 99);
  out.on_device = rng.Chance(0.3);
  // Files hold tensors at any byte.
  if (!out.on_device && rng.Chance(0.3)) out.byte_offset = rng.Int(1, 3);
  return out;
}

RefLayer RandomAnyLayer(Rng& rng, moert_dtype dtype, WeightStyle* style) {
  *style = RandomStyle(rng, dtype);
  const moert_routing routing = RandomRouting(rng);
  RefLayer out;
  out.dtype = dtype;
  out.hidden = RandomWidth(rng);
  out.intermediate = RandomWidth(rng);
  if (rng.Chance(0.2)) out.latent = RandomWidth(rng);
  if (rng.Chance(0.4)) out.shared_intermediate = RandomWidth(rng);
  out.weight_application =
      rng.Chance(0.3) ? MOERT_WEIGHT_APPLICATION_INPUT : MOERT_WEIGHT_APPLICATION_OUTPUT;
  out.activation = RandomActivation(rng);
  out.shared_activation = RandomActivation(rng);
  out.router = RandomRouter(rng, routing, out.hidden, style->router_dtype);
  for (int32_t e = 0; e < routing.num_experts; ++e) {
    out.experts.push_back(RandomExpert(rng, out.expert_width(), out.intermediate,
                                       IsGated(out.activation), style->dtype));
  }
  if (rng.Chance(0.3)) AddBiases(rng, style->router_dtype, &out);
  if (out.latent != 0) {
    out.latent_in = rng.NormalMat(out.latent, out.hidden, InverseRoot(out.hidden), style->dtype);
    out.latent_out = rng.NormalMat(out.hidden, out.latent, InverseRoot(out.latent), style->dtype);
  }
  if (out.shared_intermediate != 0) {
    out.shared = RandomExpert(rng, out.hidden, out.shared_intermediate,
                              IsGated(out.shared_activation), style->dtype);
    if (rng.Chance(0.5)) {
      out.shared_gate = rng.NormalMat(1, out.hidden, InverseRoot(out.hidden), style->dtype);
    }
  }
  if (rng.Chance(0.2)) {
    for (int32_t e = 0; e < routing.num_experts; ++e) out.held.push_back(rng.Chance(0.6));
    out.held[rng.Int(0, routing.num_experts - 1)] = true;
  }
  return out;
}

}  // namespace moert::test
