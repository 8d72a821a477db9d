// SPDX-License-Identifier: Apache-2.0
#include "reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace moert::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

Row RowOf(const Mat& mat, int64_t row) {
  return Row(mat.v.begin() + row * mat.cols, mat.v.begin() + (row + 1) * mat.cols);
}

double Dot(const Mat& weight, int64_t row, const Row& x) {
  double sum = 0;
  for (int64_t i = 0; i < weight.cols; ++i) sum += weight(row, i) * x[static_cast<size_t>(i)];
  return sum;
}

Row Softmax(const Row& logits) {
  double largest = -kInfinity;
  for (double logit : logits) largest = std::isnan(logit) ? logit : std::max(largest, logit);
  Row out(logits.size());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += out[i] = std::exp(logits[i] - largest);
  for (double& value : out) value /= sum;
  return out;
}

Row Scores(moert_score score, const Row& logits) {
  if (score == MOERT_SCORE_SOFTMAX) return Softmax(logits);
  if (score == MOERT_SCORE_SIGMOID) {
    Row out = logits;
    for (double& value : out) value = RefSigmoid(value);
    return out;
  }
  return logits;  // the others choose on logits
}

// Indices from the best value to the worst; excluded ones last, NaN before them.
std::vector<int32_t> Ranked(const Row& values, const std::vector<bool>& excluded) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  auto rank = [&](int32_t i) { return excluded[i] ? 2 : std::isnan(values[i]) ? 1 : 0; };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return rank(a) == 0 && values[a] > values[b];
  });
  return order;
}

double Gap(double a, double b) {
  return std::isnan(a) || std::isnan(b) || a == b ? kInfinity : a - b;
}

// Experts of the groups that are not kept; lowers *margin to what separates kept groups from
// others.
std::vector<bool> ExcludedByGroups(const moert_routing& routing, const Row& values,
                                   const Row& scores, bool by_logits, double* margin) {
  const int32_t groups = std::max(routing.num_groups, 1);
  std::vector<bool> excluded(values.size(), false);
  if (groups == 1) return excluded;
  const size_t size = values.size() / static_cast<size_t>(groups);
  const bool two = routing.group_score == MOERT_GROUP_SCORE_TOP2_SUM;
  // A sum is one of scores; without a selection bias the best member is found on logits.
  const Row& of = two && by_logits ? scores : values;
  Row group_scores;
  for (size_t g = 0; g < static_cast<size_t>(groups); ++g) {
    const Row members(of.begin() + g * size, of.begin() + (g + 1) * size);
    const auto order = Ranked(members, std::vector<bool>(size, false));
    group_scores.push_back(members[order[0]] + (two && size > 1 ? members[order[1]] : 0.0));
  }
  const auto order = Ranked(group_scores, std::vector<bool>(group_scores.size(), false));
  for (int32_t i = routing.top_k_groups; i < groups; ++i) {
    std::fill_n(excluded.begin() + order[i] * size, size, true);
  }
  if (routing.top_k_groups < groups && (two || !by_logits)) {
    *margin = std::min(*margin, Gap(group_scores[order[routing.top_k_groups - 1]],
                                    group_scores[order[routing.top_k_groups]]));
  }
  return excluded;
}

double SparsemixerEpsilon(const moert_routing& routing) {
  return routing.sparsemixer_epsilon == 0 ? 0.01 : routing.sparsemixer_epsilon;
}

// The weight of pick `slot`, as Phi-3.5-MoE in evaluation: softmax, at the pick, over the experts
// that are near enough to it; the first pick is out of the race for the second one.
double SparsemixerWeight(const moert_routing& routing, const Row& logits, const Ints& ids, int slot,
                         double* margin) {
  const double best = logits[ids[slot]];
  double sum = 0;
  for (size_t e = 0; e < logits.size(); ++e) {
    if (slot == 1 && static_cast<int32_t>(e) == ids[0]) continue;
    const double distance = (best - logits[e]) / std::max(std::fabs(logits[e]), best);
    const double limit = 2 * SparsemixerEpsilon(routing);
    *margin = std::min(*margin, std::fabs(distance - limit));
    if (!(distance > limit)) sum += std::exp(logits[e] - best);
  }
  return 1 / sum;
}

void Renormalize(const moert_routing& routing, Row& weights) {
  const double value = routing.renormalize_value;
  double sum = 0;
  for (double w : weights) sum += w;
  double divisor = 1;
  switch (routing.renormalize) {
    case MOERT_RENORMALIZE_NONE:
      return;
    case MOERT_RENORMALIZE_SUM:
      divisor = sum;
      break;
    case MOERT_RENORMALIZE_SUM_EPSILON:
      divisor = sum + value;
      break;
    case MOERT_RENORMALIZE_SUM_MIN:
      divisor = std::max(sum, value);
      break;
    case MOERT_RENORMALIZE_P_NORM:
      divisor = 0;
      for (double w : weights) divisor += std::pow(std::fabs(w), value);
      divisor = std::pow(divisor, 1 / value);
      break;
    default:
      break;
  }
  for (double& w : weights) w = divisor == 0 ? 0 : w / divisor;
}

Row ChosenWeights(const RefRouter& router, const Row& logits, const Ints& ids, double* margin) {
  const moert_routing& routing = router.routing;
  Row out;
  if (routing.score == MOERT_SCORE_SPARSEMIXER) {
    for (int slot = 0; slot < 2; ++slot) {
      out.push_back(SparsemixerWeight(routing, logits, ids, slot, margin));
    }
  } else {
    const Row scores = Scores(routing.score, logits);
    for (int32_t id : ids) out.push_back(scores[id]);
    if (routing.score == MOERT_SCORE_SOFTMAX_TOP_K) out = Softmax(out);
    if (routing.score == MOERT_SCORE_SIGMOID_TOP_K) {
      for (double& w : out) w = RefSigmoid(w);
    }
  }
  Renormalize(routing, out);
  const double factor = routing.routed_scaling_factor == 0 ? 1 : routing.routed_scaling_factor;
  for (size_t s = 0; s < out.size(); ++s) {
    out[s] *= factor;
    if (!router.expert_scale.empty()) out[s] *= router.expert_scale.v[ids[s]];
  }
  return out;
}

Ints ChooseRow(const RefRouter& router, const Row& logits, double* margin) {
  const moert_routing& routing = router.routing;
  const bool by_logits = router.selection_bias.empty();
  const Row scores = Scores(routing.score, logits);
  Row values = by_logits ? logits : scores;
  if (!by_logits) {
    for (size_t e = 0; e < values.size(); ++e) values[e] += router.selection_bias.v[e];
  }
  const auto excluded = ExcludedByGroups(routing, values, scores, by_logits, margin);
  const auto order = Ranked(values, excluded);
  for (int32_t s = 0; s < routing.top_k && !by_logits; ++s) {
    if (static_cast<size_t>(s) + 1 == order.size()) break;
    *margin = std::min(*margin, Gap(values[order[s]], values[order[s + 1]]));
  }
  return Ints(order.begin(), order.begin() + routing.top_k);
}

constexpr double kFloat32Sum = 0x1p-22;  // the error of a float32 sum of some length, relative

double Noise(const RefOptions& options, double size) {
  return options.rng == nullptr ? 0 : size * options.rng->Uniform(-1, 1);
}

// As if the values were stored in that dtype.
void Disturb(const RefOptions& options, moert_dtype dtype, Row& values) {
  const double relative = dtype == MOERT_DTYPE_FLOAT32    ? kFloat32Sum
                          : dtype == MOERT_DTYPE_BFLOAT16 ? 0x1p-8
                                                          : 0x1p-11;
  const double least = dtype == MOERT_DTYPE_FLOAT16 ? 0x1p-25 : 0;  // half the least subnormal
  for (double& value : values) value += Noise(options, relative * std::fabs(value) + least);
}

Row RunExpert(const RefExpert& expert, const moert_activation& activation, const Row& x,
              moert_dtype dtype, const RefOptions& options) {
  Row h;
  for (int64_t i = 0; i < expert.up.rows; ++i) {
    const double up = Dot(expert.up, i, x) + (expert.up_bias.empty() ? 0 : expert.up_bias.v[i]);
    const double gate =
        expert.gate.empty()
            ? 0
            : Dot(expert.gate, i, x) + (expert.gate_bias.empty() ? 0 : expert.gate_bias.v[i]);
    // An activation may be much smaller than the numbers that float32 makes it from.
    const double terms = expert.gate.empty()
                             ? std::fabs(up)
                             : std::fabs(gate) * (std::fabs(up) + std::fabs(activation.up_offset));
    h.push_back(RefActivation(activation, gate, up) + Noise(options, kFloat32Sum * terms));
  }
  Disturb(options, dtype, h);
  Row out;
  for (int64_t d = 0; d < expert.down.rows; ++d) {
    out.push_back(Dot(expert.down, d, h) + (expert.down_bias.empty() ? 0 : expert.down_bias.v[d]));
  }
  // Only bfloat16 may store a slot's contribution narrowed.
  Disturb(options, dtype == MOERT_DTYPE_BFLOAT16 ? dtype : MOERT_DTYPE_FLOAT32, out);
  return out;
}

Row Multiply(const Mat& weight, const Row& x) {
  Row out;
  for (int64_t r = 0; r < weight.rows; ++r) out.push_back(Dot(weight, r, x));
  return out;
}

// The routed part of one row.
Row RunSlots(const RefLayer& layer, const Row& x, const int32_t* ids, const double* weights,
             const RefOptions& options) {
  Row sum(static_cast<size_t>(layer.expert_width()), 0.0);
  for (int32_t s = 0; s < layer.top_k(); ++s) {
    const int32_t id = ids[s];
    if (id < 0 || id >= layer.num_experts()) continue;
    if (!layer.held.empty() && !layer.held[id]) continue;
    const bool at_input = layer.weight_application == MOERT_WEIGHT_APPLICATION_INPUT;
    Row in = x;
    if (at_input) {
      for (double& value : in) value *= weights[s];
    }
    Disturb(options, at_input ? layer.dtype : MOERT_DTYPE_FLOAT32, in);
    const Row out = RunExpert(layer.experts[id], layer.activation, in, layer.dtype, options);
    for (size_t d = 0; d < sum.size(); ++d) sum[d] += (at_input ? 1.0 : weights[s]) * out[d];
  }
  return sum;
}

}  // namespace

double RefSigmoid(double value) { return 1 / (1 + std::exp(-value)); }

double RefActivation(const moert_activation& activation, double gate, double up) {
  auto f = [&](double g) {
    switch (activation.kind) {
      case MOERT_ACTIVATION_KIND_SILU:
        return g * RefSigmoid((activation.alpha == 0 ? 1.0 : activation.alpha) * g);
      case MOERT_ACTIVATION_KIND_GELU:
        return g * 0.5 * std::erfc(-g / std::sqrt(2.0));
      case MOERT_ACTIVATION_KIND_GELU_TANH:
        return 0.5 * g *
               (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)));
      default:
        return g > 0 ? g * g : 0.0;
    }
  };
  if ((activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) != 0) return f(up);
  if (activation.limit != 0) {
    gate = std::min<double>(gate, activation.limit);
    up = std::clamp<double>(up, -activation.limit, activation.limit);
  }
  return f(gate) * (up + activation.up_offset);
}

Mat RefFinishLogits(const RefRouter& router, Mat logits) {
  const double cap = router.routing.logit_soft_cap;
  for (int64_t t = 0; t < logits.rows; ++t) {
    for (int64_t e = 0; e < logits.cols; ++e) {
      if (!router.bias.empty()) logits(t, e) += router.bias.v[e];
      if (cap != 0) logits(t, e) = cap * std::tanh(logits(t, e) / cap);
    }
  }
  return logits;
}

Mat RefLogits(const RefRouter& router, const Mat& x) {
  const moert_routing& routing = router.routing;
  Mat logits(x.rows, router.weight.rows);
  for (int64_t t = 0; t < x.rows; ++t) {
    Row in = RowOf(x, t);
    if ((routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0) {
      double squares = 0;
      for (double value : in) squares += value * value;
      const double epsilon = routing.input_rms_epsilon == 0 ? 1e-6 : routing.input_rms_epsilon;
      for (double& value : in) value /= std::sqrt(squares / static_cast<double>(x.cols) + epsilon);
    }
    for (int64_t i = 0; i < x.cols; ++i) {
      if (!router.input_scale.empty()) in[i] *= router.input_scale.v[i];
      if (routing.input_multiplier != 0) in[i] *= routing.input_multiplier;
    }
    for (int64_t e = 0; e < logits.cols; ++e) logits(t, e) = Dot(router.weight, e, in);
  }
  return RefFinishLogits(router, std::move(logits));
}

RefRoute RefChoose(const RefRouter& router, const Mat& logits) {
  RefRoute out;
  out.weights = Mat(logits.rows, router.routing.top_k);
  for (int64_t t = 0; t < logits.rows; ++t) {
    double margin = kInfinity;
    const Row row = RowOf(logits, t);
    const Ints ids = ChooseRow(router, row, &margin);
    const Row weights = ChosenWeights(router, row, ids, &margin);
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    std::copy(weights.begin(), weights.end(), out.weights.v.begin() + t * router.routing.top_k);
    out.margins.push_back(margin);
  }
  return out;
}

Mat RefWeights(const RefRouter& router, const Mat& logits, const Ints& ids) {
  const int64_t top_k = router.routing.top_k;
  Mat out(logits.rows, top_k);
  for (int64_t t = 0; t < logits.rows; ++t) {
    double margin = kInfinity;
    const Ints row_ids(ids.begin() + t * top_k, ids.begin() + (t + 1) * top_k);
    const Row weights = ChosenWeights(router, RowOf(logits, t), row_ids, &margin);
    std::copy(weights.begin(), weights.end(), out.v.begin() + t * top_k);
  }
  return out;
}

Mat RefForward(const RefLayer& layer, const Mat& x, const Ints& ids, const Mat& weights,
               const RefOptions& options) {
  Mat y(x.rows, layer.hidden);
  for (int64_t t = 0; t < x.rows; ++t) {
    const Row in = RowOf(x, t);
    Row inner = in;
    if (layer.latent != 0) {
      Disturb(options, MOERT_DTYPE_FLOAT32, inner);
      inner = Multiply(layer.latent_in, inner);
      Disturb(options, layer.dtype, inner);
    }
    Row sum = RunSlots(layer, inner, ids.data() + t * layer.top_k(),
                       weights.v.data() + t * layer.top_k(), options);
    if (layer.latent != 0) {
      Disturb(options, layer.dtype, sum);
      sum = Multiply(layer.latent_out, sum);
    }
    if (layer.shared_intermediate != 0 && !options.skip_shared) {
      Row shared_in = in;
      Disturb(options, MOERT_DTYPE_FLOAT32, shared_in);
      const Row shared =
          RunExpert(layer.shared, layer.shared_activation, shared_in, layer.dtype, options);
      const double gate = layer.shared_gate.empty() ? 1 : RefSigmoid(Dot(layer.shared_gate, 0, in));
      for (size_t h = 0; h < sum.size(); ++h) sum[h] += gate * shared[h];
    }
    Disturb(options, layer.dtype, sum);
    std::copy(sum.begin(), sum.end(), y.v.begin() + t * layer.hidden);
  }
  return y;
}

Ints RefCounts(int32_t num_experts, const Ints& ids) {
  Ints counts(static_cast<size_t>(num_experts), 0);
  for (int32_t id : ids) {
    if (id >= 0 && id < num_experts) ++counts[id];
  }
  return counts;
}

}  // namespace moert::test
