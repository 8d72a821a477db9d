// SPDX-License-Identifier: Apache-2.0
// Top-k gating. Many tokens: bands of tokens are shared out, and each band's logits are chosen from
// while they are in the cache. Few tokens: the experts are shared out first, then the tokens.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/device.h"
#include "backend/cpu/parallel.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/weights.h"
#include "core/checked_math.h"
#include "core/dtype.h"

namespace moert::cpu {
namespace {

// Below this many tokens a worker, the experts are shared out instead.
constexpr int64_t kTokensPerWorker = 4;
// Experts of one work item then.
constexpr int64_t kExpertsPerItem = 16;
// A call that multiplies fewer values than this runs on the caller alone.
constexpr int64_t kParallelWork = 128 * 1024;

// Scratch of one call; the arrays of vectors are whole, the rest is one worker's after the other.
struct Scratch {
  float* router_bias;
  float* selection_bias;
  float* expert_scale;
  float* input_scale;
  float* few_logits;   // [tokens, experts] where the experts are shared out
  float* row_factors;  // the same
  struct Worker {
    float* panel;
    float* logits;
    float* row_factors;
    float* scores;
    int32_t* keys;
    int32_t* score_keys;
    int32_t* group_keys;
  };
  Worker Get(uint32_t worker) const {
    Worker w = first;
    const auto advance = [&](auto*& p) {
      p = reinterpret_cast<std::remove_reference_t<decltype(p)>>(reinterpret_cast<char*>(p) +
                                                                 worker * worker_bytes);
    };
    advance(w.panel), advance(w.logits), advance(w.row_factors), advance(w.scores);
    advance(w.keys), advance(w.score_keys), advance(w.group_keys);
    return w;
  }
  Worker first;
  uint64_t worker_bytes;
  uint64_t size;
};

class CpuRouter final : public PreparedRouter {
 public:
  CpuRouter(const DeviceParts& device, const RouterSpec& spec) : device_(device), spec_(spec) {}
  ~CpuRouter() override { uses_.WaitUntilUnused(); }

  Status Prepare(const RouterWeights& weights, bool copy) {
    WeightStore store(*device_.allocator, copy);
    store.AddRouter(weights, experts(), spec_.hidden, &views_);
    MOERT_RETURN_IF_ERROR(store.Commit(*device_.scheduler));
    memory_ = store.TakeMemory();
    return Status();
  }

  uint64_t WorkspaceSize(const RouteCall& call) const override {
    return call.tokens == 0 ? 0 : Carve(call, nullptr).size;
  }

  Status Route(BackendStream& stream, const RouteCall& call) const override {
    if (call.tokens == 0) return Status();
    return static_cast<CpuStream&>(stream).Enqueue(&uses_,
                                                   [this, call](StreamState&) { Execute(call); });
  }

 private:
  int64_t experts() const { return spec_.routing.num_experts; }
  uint32_t workers() const { return device_.scheduler->concurrency(); }
  int64_t few_tokens() const { return kTokensPerWorker * workers(); }
  bool has_row_factor() const {
    return spec_.routing.input_multiplier != 1.0f ||
           (spec_.routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) != 0;
  }

  Scratch Carve(const RouteCall& call, void* base) const {
    const int64_t padded = static_cast<int64_t>(AlignUp(experts(), kMaxLanes));
    const int64_t rows = std::min(call.tokens, kBlockRows);
    Carver carver(base);
    Scratch s;
    s.router_bias = carver.Take<float>(padded);
    s.selection_bias = carver.Take<float>(padded);
    s.expert_scale = carver.Take<float>(padded);
    s.input_scale = carver.Take<float>(spec_.hidden);
    const int64_t few = std::min(call.tokens, few_tokens());
    s.few_logits = carver.Take<float>(few * padded);
    s.row_factors = carver.Take<float>(few);
    const uint64_t shared = carver.used();
    s.first.panel = carver.Take<float>(
        rows * static_cast<int64_t>(AlignUp(std::min(spec_.hidden, kPanelDepth), kMaxLanes)));
    s.first.logits = carver.Take<float>(rows * padded);
    s.first.row_factors = carver.Take<float>(rows);
    s.first.scores = carver.Take<float>(padded);
    s.first.keys = carver.Take<int32_t>(padded);
    s.first.score_keys = carver.Take<int32_t>(padded);
    s.first.group_keys = carver.Take<int32_t>(padded);
    s.worker_bytes = carver.used() - shared;
    s.size = shared + s.worker_bytes * workers();
    return s;
  }

  void Execute(const RouteCall& call) const {
    const FpControl control;
    const Scratch scratch = Carve(call, call.workspace.data);
    LoadVectors(scratch);
    if (!call.given_logits.present() && call.tokens < few_tokens()) {
      RunFew(call, scratch);
    } else {
      RunMany(call, scratch);
    }
    if (call.expert_counts.present()) Count(call);
  }

  void LoadVectors(const Scratch& scratch) const {
    const auto load = [&](const WeightView& view, float* out, int64_t n) {
      if (view.data != nullptr)
        device_.kernels->load(out, view.data, view.dtype, view.in_stride, n);
    };
    load(views_.router_bias, scratch.router_bias, experts());
    load(views_.selection_bias, scratch.selection_bias, experts());
    load(views_.expert_scale, scratch.expert_scale, experts());
    load(views_.input_scale, scratch.input_scale, spec_.hidden);
  }

  // What the router's input rows are multiplied by.
  void RowFactors(const RouteCall& call, int64_t begin, int64_t rows, float* out) const {
    const moert_routing& routing = spec_.routing;
    for (int64_t j = 0; j < rows; ++j) {
      out[j] = routing.input_multiplier;
      if ((routing.flags & MOERT_ROUTING_FLAG_RMS_NORM_INPUT) == 0) continue;
      const float mean =
          device_.kernels->sum_of_squares(Row(call.x, begin + j), call.x.dtype, spec_.hidden) /
          static_cast<float>(spec_.hidden);
      out[j] /= std::sqrt(mean + routing.input_rms_epsilon);
    }
  }

  static void* Row(const Matrix& matrix, int64_t row) {
    return static_cast<char*>(matrix.data) + row * matrix.row_stride * ElementSize(matrix.dtype);
  }

  void Product(const RouteCall& call, const Scratch& scratch, int64_t token, int64_t rows,
               const float* row_factors, int64_t expert, int64_t count, float* panel, float* out,
               int64_t out_stride) const {
    WeightView weight = views_.router;
    weight.data = Element(views_.router, expert, 0);
    device_.kernels->product(
        {{Row(call.x, token), call.x.dtype, call.x.row_stride, nullptr,
          has_row_factor() ? row_factors : nullptr,
          views_.input_scale.data != nullptr ? scratch.input_scale : nullptr, false},
         rows,
         spec_.hidden,
         weight,
         count,
         out,
         out_stride,
         panel,
         false});
  }

  void Choose(const RouteCall& call, const Scratch& scratch, const Scratch::Worker& worker,
              int64_t token, float* logits) const {
    device_.kernels->route(
        {&spec_.routing, views_.router_bias.data != nullptr ? scratch.router_bias : nullptr,
         views_.selection_bias.data != nullptr ? scratch.selection_bias : nullptr,
         views_.expert_scale.data != nullptr ? scratch.expert_scale : nullptr, logits,
         worker.scores, worker.keys, worker.score_keys, worker.group_keys,
         static_cast<int32_t*>(Row(call.ids, token)),
         static_cast<float*>(Row(call.weights, token))});
    if (call.logits.present()) {
      std::memcpy(Row(call.logits, token), logits, static_cast<size_t>(experts()) * sizeof(float));
    }
  }

  void RunFew(const RouteCall& call, const Scratch& scratch) const {
    const auto padded = static_cast<int64_t>(AlignUp(experts(), kMaxLanes));
    if (has_row_factor()) RowFactors(call, 0, call.tokens, scratch.row_factors);
    const bool small = call.tokens * experts() * spec_.hidden < kParallelWork;
    RunItems(*device_.scheduler, small ? 1 : workers(), DivideUp(experts(), kExpertsPerItem),
             [&](uint32_t worker, int64_t item) {
               const int64_t first = item * kExpertsPerItem;
               const int64_t count = std::min(kExpertsPerItem, experts() - first);
               for (int64_t t = 0; t < call.tokens; t += kBlockRows) {
                 Product(call, scratch, t, std::min(kBlockRows, call.tokens - t),
                         scratch.row_factors + t, first, count, scratch.Get(worker).panel,
                         scratch.few_logits + t * padded + first, padded);
               }
             });
    for (int64_t t = 0; t < call.tokens; ++t) {
      Choose(call, scratch, scratch.first, t, scratch.few_logits + t * padded);
    }
  }

  void RunMany(const RouteCall& call, const Scratch& scratch) const {
    const auto padded = static_cast<int64_t>(AlignUp(experts(), kMaxLanes));
    const int64_t band = std::clamp<int64_t>(DivideUp(call.tokens, workers() * 4), 1, kBlockRows);
    RunItems(*device_.scheduler, workers(), DivideUp(call.tokens, band),
             [&](uint32_t index, int64_t item) {
               const Scratch::Worker worker = scratch.Get(index);
               const int64_t begin = item * band;
               const int64_t rows = std::min(band, call.tokens - begin);
               if (call.given_logits.present()) {
                 for (int64_t j = 0; j < rows; ++j) {
                   device_.kernels->load(worker.logits + j * padded,
                                         Row(call.given_logits, begin + j), call.given_logits.dtype,
                                         1, experts());
                 }
               } else {
                 if (has_row_factor()) RowFactors(call, begin, rows, worker.row_factors);
                 Product(call, scratch, begin, rows, worker.row_factors, 0, experts(), worker.panel,
                         worker.logits, padded);
               }
               for (int64_t j = 0; j < rows; ++j) {
                 Choose(call, scratch, worker, begin + j, worker.logits + j * padded);
               }
             });
  }

  void Count(const RouteCall& call) const {
    auto* counts = static_cast<int32_t*>(call.expert_counts.data);
    std::memset(counts, 0, static_cast<size_t>(experts()) * sizeof(int32_t));
    for (int64_t t = 0; t < call.tokens; ++t) {
      const auto* ids = static_cast<const int32_t*>(Row(call.ids, t));
      for (int32_t s = 0; s < spec_.routing.top_k; ++s) ++counts[ids[s]];
    }
  }

  const DeviceParts device_;
  const RouterSpec spec_;
  Buffer memory_;
  RouterViews views_;
  mutable UseCount uses_;
};

}  // namespace

Status PrepareRouter(const DeviceParts& device, const RouterSpec& spec,
                     const RouterWeights& weights, WeightSource source,
                     Owned<PreparedRouter>* out) {
  auto router = MakeOwned<CpuRouter>(*device.allocator, device, spec);
  MOERT_RETURN_IF_ERROR(router->Prepare(weights, source == WeightSource::kCopy));
  *out = std::move(router);
  return Status();
}

}  // namespace moert::cpu
