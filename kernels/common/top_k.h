// SPDX-License-Identifier: Apache-2.0
// The choice of experts: one warp a token, expert e in lane e % warp. Experts are ranked by a
// 32-bit key (taken < excluded < NaN < numbers), ties by index, so ids are always distinct and in
// range.
#ifndef MOERT_KERNELS_COMMON_TOP_K_H_
#define MOERT_KERNELS_COMMON_TOP_K_H_

#include "kernels/common/activation.h"
#include "kernels/common/element.h"

namespace moert {

// Values of moert_score, moert_renormalize and moert_group_score.
enum { kScoreSoftmax, kScoreSigmoid, kScoreSoftmaxTopK, kScoreSigmoidTopK, kScoreSparsemixer };
enum {
  kRenormalizeNone,
  kRenormalizeSum,
  kRenormalizeSumEpsilon,
  kRenormalizeSumMin,
  kRenormalizePNorm
};
enum { kGroupScoreMax, kGroupScoreTop2Sum };

constexpr uint32_t kTaken = 0;
constexpr uint32_t kExcluded = 1;
constexpr uint32_t kNanKey = 2;

// Monotone in the value; -0 and 0 are equal, all NaN are equal and below -inf.
__device__ __forceinline__ uint32_t RankKey(float value) {
  if (value != value) return kNanKey;
  if (value == 0.0f) return 0x80000000u;
  const uint32_t bits = __float_as_uint(value);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float SoftCap(float logit, float cap) {
  return cap == 0.0f ? logit : cap * tanhf(logit / cap);
}

// The largest key over the warp, and the lowest index that has it.
__device__ __forceinline__ uint32_t WarpBest(uint32_t key, uint32_t index, uint32_t* best_index) {
  const uint32_t best = WarpMax(key);
  *best_index = WarpMin(key == best ? index : 0xffffffffu);
  return best;
}

// Score of a group: its best member, or the sum of its two best, numbers before NaN.
__device__ __forceinline__ float GroupScore(const float* members, int size, bool two) {
  uint32_t first_key = 0, second_key = 0;
  float first = 0.0f, second = 0.0f;
  for (int i = 0; i < size; ++i) {
    const float value = members[i];
    const uint32_t key = RankKey(value);
    if (key > first_key) {
      second_key = first_key, second = first;
      first_key = key, first = value;
    } else if (key > second_key) {
      second_key = key, second = value;
    }
  }
  return two && size > 1 ? first + second : first;
}

// Marks in `kept` (shared, one word a group) the groups whose experts may be chosen. `values` are
// the members' values in shared memory.
__device__ __forceinline__ void KeepGroups(const moert_top_k_kernel_args& args, const float* values,
                                           uint32_t* kept) {
  const int lane = threadIdx.x % kWarp;
  const int size = args.num_experts / args.num_groups;
  for (int g = lane; g < args.num_groups; g += kWarp) {
    kept[g] = RankKey(GroupScore(values + g * size, size, args.group_score == kGroupScoreTop2Sum));
  }
  SyncWarp();
  for (int i = 0; i < args.top_k_groups; ++i) {
    uint32_t key = 0, index = 0xffffffffu;
    for (int g = lane; g < args.num_groups; g += kWarp) {
      if (kept[g] > key && kept[g] != 0xffffffffu) key = kept[g], index = g;
    }
    uint32_t best;
    WarpBest(key, index, &best);
    SyncWarp();
    if (lane == 0) kept[best] = 0xffffffffu;  // no value has this key
    SyncWarp();
  }
}

// Weight of a sparsemixer pick: softmax at it over the experts near enough; see Phi-3.5-MoE.
template <int kPerLane>
__device__ __forceinline__ float SparsemixerWeight(const moert_top_k_kernel_args& args,
                                                   const float (&logits)[kPerLane], float best,
                                                   int skipped) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * kWarp + threadIdx.x % kWarp;
    if (e >= args.num_experts || e == skipped) continue;
    const float size = fabsf(logits[j]);
    const float distance = (best - logits[j]) / (size < best ? best : size);
    if (!(distance > 2.0f * args.sparsemixer_epsilon)) sum += expf(logits[j] - best);
  }
  return 1.0f / WarpSum(sum);
}

// Final weights from the chosen scores, in place. Slot s is lane s % warp's. kPlain leaves the code
// for rare options out: kernels that run once a call are bound by fetching their instructions.
template <bool kPlain>
__device__ __forceinline__ void FinishWeights(const moert_top_k_kernel_args& args,
                                              const int32_t* ids, float* weights) {
  const int lane = threadIdx.x % kWarp;
  if (args.score == kScoreSoftmaxTopK) {
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll 1
    for (int s = lane; s < args.top_k; s += kWarp) largest = fmaxf(largest, weights[s]);
    largest = WarpMax(largest);
#pragma unroll 1
    for (int s = lane; s < args.top_k; s += kWarp) sum += expf(weights[s] - largest);
    sum = WarpSum(sum);
#pragma unroll 1
    for (int s = lane; s < args.top_k; s += kWarp) weights[s] = expf(weights[s] - largest) / sum;
  }
  float divisor = 1.0f;
  if (args.renormalize != kRenormalizeNone) {
    divisor = 0.0f;
#pragma unroll 1
    for (int s = lane; s < args.top_k; s += kWarp) {
      divisor += !kPlain && args.renormalize == kRenormalizePNorm
                     ? powf(fabsf(weights[s]), args.renormalize_value)
                     : weights[s];
    }
    divisor = WarpSum(divisor);
    if (args.renormalize == kRenormalizeSumEpsilon) divisor += args.renormalize_value;
    if (args.renormalize == kRenormalizeSumMin && divisor < args.renormalize_value) {
      divisor = args.renormalize_value;
    }
    if (!kPlain && args.renormalize == kRenormalizePNorm) {
      divisor = powf(divisor, 1.0f / args.renormalize_value);
    }
  }
#pragma unroll 1
  for (int s = lane; s < args.top_k; s += kWarp) {
    float weight = divisor == 0.0f ? 0.0f : weights[s] / divisor;
    weight *= args.routed_scaling_factor;
    if (args.expert_scale != nullptr) weight *= args.expert_scale[ids[s]];
    weights[s] = weight;
  }
}

// The scores of SOFTMAX and SIGMOID; logits for the others.
template <int kPerLane>
__device__ __forceinline__ void Scores(const moert_top_k_kernel_args& args,
                                       const float (&logits)[kPerLane], float (&scores)[kPerLane]) {
  const int lane = threadIdx.x % kWarp;
  if (args.score == kScoreSoftmax) {
    float largest = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) largest = fmaxf(largest, logits[j]);
    largest = WarpMax(largest);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      scores[j] = j * kWarp + lane < args.num_experts ? expf(logits[j] - largest) : 0.0f;
      sum += scores[j];
    }
    sum = WarpSum(sum);
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) scores[j] *= 1.0f / sum;
  } else {
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      scores[j] = args.score == kScoreSigmoid ? Sigmoid(logits[j]) : logits[j];
    }
  }
}

// Ranks the experts: keys of the values that the choice is made on.
template <int kPerLane, bool kPlain>
__device__ __forceinline__ void Keys(const moert_top_k_kernel_args& args,
                                     const float (&logits)[kPerLane],
                                     const float (&scores)[kPerLane], float* shared,
                                     uint32_t (&keys)[kPerLane]) {
  const int lane = threadIdx.x % kWarp;
  const bool by_logits = args.selection_bias == nullptr;
  float values[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * kWarp + lane;
    values[j] =
        by_logits ? logits[j] : scores[j] + (e < args.num_experts ? args.selection_bias[e] : 0.0f);
    keys[j] = e < args.num_experts ? RankKey(values[j]) : kTaken;
  }
  if (kPlain || args.num_groups <= 1) return;
  // A sum is one of scores; without a selection bias the best member is found on logits.
  const bool of_scores = args.group_score == kGroupScoreTop2Sum && by_logits;
  auto* kept = reinterpret_cast<uint32_t*>(shared + args.num_experts);
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * kWarp + lane;
    if (e < args.num_experts) shared[e] = of_scores ? scores[j] : values[j];
  }
  SyncWarp();
  KeepGroups(args, shared, kept);
  const int size = args.num_experts / args.num_groups;
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * kWarp + lane;
    if (e < args.num_experts && kept[e / size] != 0xffffffffu) keys[j] = kExcluded;
  }
  SyncWarp();
}

// kPlain: final logits, no sparsemixer, no p-norm, no groups.
// One token. `ids` and `weights` are shared memory for its slots; `groups` holds 2 * num_experts
// words when there are groups.
template <int kPerLane, bool kPlain>
__device__ __forceinline__ void TopKToken(const moert_top_k_kernel_args& args, int64_t token,
                                          int32_t* ids, float* weights, float* groups) {
  const int lane = threadIdx.x % kWarp;
  float logits[kPerLane], scores[kPerLane];
  uint32_t keys[kPerLane];
#pragma unroll
  for (int j = 0; j < kPerLane; ++j) {
    const int e = j * kWarp + lane;
    logits[j] = -INFINITY;
    if (e >= args.num_experts) continue;
    const int64_t at = token * args.logits_stride + e;
    logits[j] = kPlain ? static_cast<const float*>(args.logits)[at]
                       : LoadElement(args.logits, args.logits_dtype, at);
    if (!kPlain && args.bias != nullptr) logits[j] += static_cast<const float*>(args.bias)[e];
    if (!kPlain) logits[j] = SoftCap(logits[j], args.soft_cap);
    if (!kPlain && args.logits_out != nullptr)
      args.logits_out[token * args.logits_out_stride + e] = logits[j];
  }
  Scores(args, logits, scores);
  Keys<kPerLane, kPlain>(args, logits, scores, groups, keys);

  int first_pick = -1;
#pragma unroll 1
  for (int s = 0; s < args.top_k; ++s) {
    uint32_t key = kTaken, index = 0xffffffffu;
#pragma unroll
    for (int j = kPerLane - 1; j >= 0; --j) {
      if (keys[j] != kTaken && keys[j] >= key) key = keys[j], index = j * kWarp + lane;
    }
    uint32_t best;
    WarpBest(key, index, &best);
    float score = 0.0f;
#pragma unroll
    for (int j = 0; j < kPerLane; ++j) {
      // By index of the expert, not of j: an array indexed at run time would leave the registers.
      const bool taken = static_cast<uint32_t>(j * kWarp + lane) == best;
      score = taken ? scores[j] : score;
      keys[j] = taken ? kTaken : keys[j];
    }
    score = ShuffleFrom(score, best % kWarp);
    if (!kPlain && args.score == kScoreSparsemixer) {
      score = SparsemixerWeight(args, logits, score, first_pick);
      if (s == 0) first_pick = static_cast<int>(best);
    }
    if (args.score == kScoreSigmoidTopK) score = Sigmoid(score);
    if (lane == s % kWarp) {
      ids[s] = static_cast<int32_t>(best);
      weights[s] = score;
      if (args.counts != nullptr) atomicAdd(args.counts + best, 1);
    }
  }
  SyncWarp();
  FinishWeights<kPlain>(args, ids, weights);
#pragma unroll 1
  for (int s = lane; s < args.top_k; s += kWarp) {
    args.ids[token * args.ids_stride + s] = ids[s];
    args.weights[token * args.weights_stride + s] = weights[s];
  }
}

// Shared words that a warp of the kernels below needs.
__device__ __forceinline__ int TopKWords(const moert_top_k_kernel_args& args) {
  return 2 * args.top_k + (args.num_groups > 1 ? 2 * args.num_experts : 0);
}

}  // namespace moert

// Four warps a block; dynamic shared memory: TopKWords a warp.
#define MOERT_TOP_K_KERNEL(EXPERTS)                                                           \
  extern "C" __global__ void __launch_bounds__(4 * moert::kWarp)                              \
      moert_top_k_##EXPERTS(MOERT_GRID_CONSTANT moert_top_k_kernel_args args) {               \
    moert::BeginKernel();                                                                     \
    extern __shared__ float shared[];                                                         \
    const int warp = threadIdx.x / moert::kWarp;                                              \
    constexpr int kPerLane = (EXPERTS + moert::kWarp - 1) / moert::kWarp;                     \
    float* weights = shared + warp * moert::TopKWords(args);                                  \
    auto* ids = reinterpret_cast<int32_t*>(weights + args.top_k);                             \
    for (int64_t token = int64_t{blockIdx.x} * 4 + warp; token < args.tokens;                 \
         token += int64_t{gridDim.x} * 4) {                                                   \
      moert::TopKToken<kPerLane, false>(args, token, ids, weights, weights + 2 * args.top_k); \
      moert::SyncWarp();                                                                      \
    }                                                                                         \
  }
MOERT_TOP_K_KERNEL(32)
MOERT_TOP_K_KERNEL(128)
MOERT_TOP_K_KERNEL(256)
MOERT_TOP_K_KERNEL(512)
MOERT_TOP_K_KERNEL(1024)

#endif  // MOERT_KERNELS_COMMON_TOP_K_H_
