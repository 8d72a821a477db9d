// SPDX-License-Identifier: Apache-2.0
// The experts of a layer, with the latent projections and the shared expert around them.
//
// A call works through its tokens in chunks, which bounds the workspace. For each chunk the slots
// are sorted by expert, in token order, and three phases follow, each one parallel job:
//   latent in   (with a latent)  narrow(x latent_in^T)
//   fc1         items of one expert and some of its intermediate outputs
//   columns     items of some output columns: every expert's fc2, weighted, summed in float32
// With a latent the columns phase runs once for the latent's columns and once more for latent out.
// An item's columns belong to it alone, so no two workers ever add to one value.
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

// A chunk has at least this many tokens, and enough for this many slots an expert: weights are read
// once a chunk.
constexpr int64_t kChunkTokens = 512;
constexpr int64_t kChunkSlotsPerExpert = 128;
// A call that multiplies fewer weights than this runs on the caller alone.
constexpr int64_t kParallelWork = 512 * 1024;

// Scratch of one worker.
struct WorkerScratch {
  float* panel;
  float* out;   // [rows, 2 kBlockOutputs] products
  float* sums;  // [chunk tokens, block outputs]
  float* gate_bias;
  float* up_bias;
  float* factors;  // [rows]
};

struct Scratch {
  int32_t* counts;     // [local experts] slots in this chunk
  int32_t* offsets;    // [local experts] first slot of each in sorted order
  int32_t* active;     // [local experts] those with slots
  int32_t* tokens;     // [slots] token of each sorted slot, within the chunk
  float* weights;      // [slots]
  char* latent;        // [chunk, L] in the compute dtype, input of the experts
  char* latent_sum;    // [chunk, L] the same, sum of the slots
  char* hidden;        // [slots, I] in the compute dtype
  char* shared;        // [chunk, S] the same
  float* shared_gate;  // [chunk]
  WorkerScratch first;
  uint64_t worker_bytes;
  uint64_t size;

  WorkerScratch Get(uint32_t worker) const {
    WorkerScratch w = first;
    for (float** p : {&w.panel, &w.out, &w.sums, &w.gate_bias, &w.up_bias, &w.factors}) {
      *p += worker * worker_bytes / sizeof(float);
    }
    return w;
  }
};

// One chunk in the making.
struct Chunk {
  Scratch scratch;
  int64_t begin = 0;
  int64_t tokens = 0;
  int64_t slots = 0;
  int32_t num_active = 0;
  uint32_t workers = 1;
};

int64_t Padded(int64_t n) {
  return static_cast<int64_t>(AlignUp(static_cast<uint64_t>(n), kMaxLanes));
}

// Outputs of an item, so that each worker gets about eight.
int64_t BlockOutputs(int64_t outputs, int64_t groups, uint32_t workers) {
  const int64_t even = DivideUp(outputs * groups, int64_t{workers} * 8);
  return std::min(std::clamp(DivideUp(even, 32) * 32, int64_t{32}, kBlockOutputs), outputs);
}

class CpuExperts final : public PreparedExperts {
 public:
  CpuExperts(const DeviceParts& device, const LayerSpec& spec)
      : device_(device),
        routing_(spec.routing),
        activation_(spec.activation),
        shared_activation_(spec.shared_activation),
        dtype_(spec.dtype),
        weight_on_input_(spec.weight_application == MOERT_WEIGHT_APPLICATION_INPUT),
        trainable_(spec.trainable),
        hidden_(spec.hidden),
        intermediate_(spec.intermediate),
        latent_(spec.latent),
        shared_intermediate_(spec.shared_intermediate),
        width_(spec.expert_width()),
        element_(ElementSize(spec.dtype)),
        local_of_(static_cast<size_t>(spec.routing.num_experts), -1, device.allocator),
        experts_(spec.local_experts.size(), device.allocator) {
    for (size_t i = 0; i < spec.local_experts.size(); ++i) {
      local_of_[static_cast<size_t>(spec.local_experts[i])] = static_cast<int32_t>(i);
    }
  }
  ~CpuExperts() override { uses_.WaitUntilUnused(); }

  Status Prepare(const LayerWeights& weights, bool copy) {
    WeightStore store(*device_.allocator, copy);
    for (size_t i = 0; i < experts_.size(); ++i) {
      store.AddExpert(weights.experts[i], intermediate_, width_, &experts_[i]);
    }
    if (weights.shared.up.present()) {
      store.AddExpert(weights.shared, shared_intermediate_, hidden_, &shared_);
    }
    store.Add(weights.shared_expert_gate, 1, hidden_, &shared_gate_);
    if (trainable_) store.AddRouter(weights.router, routing_.num_experts, hidden_, &router_);
    store.Add(weights.latent_in, latent_, hidden_, &latent_in_);
    store.Add(weights.latent_out, hidden_, latent_, &latent_out_);
    MOERT_RETURN_IF_ERROR(store.Commit(*device_.scheduler));
    weight_bytes_ = store.bytes();
    memory_ = store.TakeMemory();
    return Status();
  }

  uint64_t WorkspaceSize(const ExpertsCall& call) const override {
    return call.tokens == 0 ? 0 : Carve(call.tokens, nullptr).size;
  }

  Status Run(BackendStream& stream, const ExpertsCall& call) const override {
    if (call.tokens == 0) return Status();
    return static_cast<CpuStream&>(stream).Enqueue(
        &uses_, [this, call](StreamState& state) { Execute(call, state); });
  }

  uint64_t weight_bytes() const override { return weight_bytes_; }
  Status Weight(moert_role role, int32_t expert, moert_matrix* out) const override;

 private:
  int64_t top_k() const { return routing_.top_k; }
  int64_t num_local() const { return static_cast<int64_t>(experts_.size()); }
  int64_t MaxChunk() const {
    return std::max(kChunkTokens, DivideUp(num_local() * kChunkSlotsPerExpert, top_k()));
  }

  Scratch Carve(int64_t tokens, void* base) const;
  void Execute(const ExpertsCall& call, StreamState& state) const;
  void SortSlots(const ExpertsCall& call, Chunk* chunk, StreamState& state) const;
  int32_t LocalExpert(const ExpertsCall& call, int64_t token, int64_t slot) const;
  void RunLatentIn(const ExpertsCall& call, const Chunk& chunk) const;
  void RunFc1(const ExpertsCall& call, const Chunk& chunk, bool shared) const;
  void RunColumns(const ExpertsCall& call, const Chunk& chunk, bool shared) const;

  // The first layer of one expert, outputs [begin, begin + count), for all its rows.
  struct Fc1 {
    const ExpertViews* expert;
    const moert_activation* activation;
    RowSource source;
    int64_t rows;
    int64_t depth;
    char* out;
    int64_t out_stride;
  };
  void Fc1Block(const Fc1& fc1, int64_t begin, int64_t count, const WorkerScratch& worker) const;
  void SharedGate(const ExpertsCall& call, const Chunk& chunk, const WorkerScratch& worker) const;
  // sums[token of row j] += factor of row j * (row j * weight + bias), for columns [begin, begin +
  // n).
  struct Fc2 {
    WeightView weight;
    WeightView bias;
    RowSource source;
    int64_t rows;
    int64_t depth;
    const int32_t* tokens;  // null: row j
    const float* factors;   // null: 1
  };
  void AddColumns(const Fc2& fc2, int64_t begin, int64_t count, const WorkerScratch& worker) const;
  void AddSlots(const Chunk& chunk, int64_t begin, int64_t count,
                const WorkerScratch& worker) const;
  void AddShared(const Chunk& chunk, int64_t begin, int64_t count,
                 const WorkerScratch& worker) const;

  RowSource Rows(const void* data, int64_t stride) const {
    return {data, dtype_, stride, nullptr, nullptr, nullptr, false};
  }
  static char* Row(const Matrix& matrix, int64_t row) {
    return static_cast<char*>(matrix.data) + row * matrix.row_stride * ElementSize(matrix.dtype);
  }
  const float* LoadBias(const WeightView& bias, int64_t begin, int64_t count, float* out) const {
    if (bias.data == nullptr) return nullptr;
    device_.kernels->load(out, Element(bias, 0, begin), bias.dtype, bias.in_stride, count);
    return out;
  }

  const DeviceParts device_;
  const moert_routing routing_;
  const moert_activation activation_;
  const moert_activation shared_activation_;
  const moert_dtype dtype_;
  const bool weight_on_input_;
  const bool trainable_;
  const int64_t hidden_;
  const int64_t intermediate_;
  const int64_t latent_;
  const int64_t shared_intermediate_;
  const int64_t width_;
  const int64_t element_;
  std::pmr::vector<int32_t> local_of_;  // of a global expert id; -1: not held
  std::pmr::vector<ExpertViews> experts_;
  RouterViews router_;  // kept for Weight in a trainable layer, whose router reads what it shows
  ExpertViews shared_;
  WeightView shared_gate_ = {};
  WeightView latent_in_ = {};
  WeightView latent_out_ = {};
  Buffer memory_;
  uint64_t weight_bytes_ = 0;
  mutable UseCount uses_;
};

Scratch CpuExperts::Carve(int64_t tokens, void* base) const {
  const int64_t chunk = std::min(tokens, MaxChunk());
  const int64_t slots = chunk * top_k();
  const int64_t rows = std::min(slots, kBlockRows);
  Carver carver(base);
  Scratch s;
  s.counts = carver.Take<int32_t>(num_local());
  s.offsets = carver.Take<int32_t>(num_local());
  s.active = carver.Take<int32_t>(num_local());
  s.tokens = carver.Take<int32_t>(slots);
  s.weights = carver.Take<float>(slots);
  s.latent = carver.Take<char>(chunk * latent_ * element_);
  s.latent_sum = carver.Take<char>(chunk * latent_ * element_);
  s.hidden = carver.Take<char>(slots * intermediate_ * element_);
  s.shared = carver.Take<char>(chunk * shared_intermediate_ * element_);
  s.shared_gate = carver.Take<float>(shared_gate_.data != nullptr ? chunk : 0);
  const uint64_t common = carver.used();
  const int64_t depth = std::max({hidden_, intermediate_, latent_, shared_intermediate_});
  const int64_t outputs = Padded(
      std::min(kBlockOutputs, std::max({hidden_, intermediate_, latent_, shared_intermediate_})));
  s.first.panel = carver.Take<float>(rows * Padded(std::min(depth, kPanelDepth)));
  s.first.out = carver.Take<float>(rows * 2 * outputs);
  s.first.sums = carver.Take<float>(chunk * outputs);
  s.first.gate_bias = carver.Take<float>(outputs);
  s.first.up_bias = carver.Take<float>(outputs);
  s.first.factors = carver.Take<float>(rows);
  s.worker_bytes = carver.used() - common;
  s.size = common + s.worker_bytes * device_.scheduler->concurrency();
  return s;
}

void CpuExperts::Execute(const ExpertsCall& call, StreamState& state) const {
  const FpControl control;
  if (call.expert_counts.present()) {
    std::memset(call.expert_counts.data, 0, local_of_.size() * sizeof(int32_t));
  }
  const bool shared = shared_.up.data != nullptr && !call.skip_shared;
  Chunk chunk;
  chunk.scratch = Carve(call.tokens, call.workspace.data);
  for (; chunk.begin < call.tokens; chunk.begin += chunk.tokens) {
    chunk.tokens = std::min(MaxChunk(), call.tokens - chunk.begin);
    SortSlots(call, &chunk, state);
    const int64_t work = (chunk.slots * intermediate_ * width_ +
                          (shared ? chunk.tokens * shared_intermediate_ * hidden_ : 0) +
                          chunk.tokens * latent_ * hidden_) *
                         3;
    chunk.workers = work < kParallelWork ? 1 : device_.scheduler->concurrency();
    if (latent_ != 0 && chunk.slots != 0) RunLatentIn(call, chunk);
    RunFc1(call, chunk, shared);
    RunColumns(call, chunk, shared);
  }
}

// Local index of the expert of a slot; -1: skipped or not held; -2: out of range.
int32_t CpuExperts::LocalExpert(const ExpertsCall& call, int64_t token, int64_t slot) const {
  const int32_t id = reinterpret_cast<const int32_t*>(Row(call.ids, token))[slot];
  if (id == -1) return -1;
  if (id < 0 || id >= routing_.num_experts) return -2;
  return local_of_[static_cast<size_t>(id)];
}

void CpuExperts::SortSlots(const ExpertsCall& call, Chunk* chunk, StreamState& state) const {
  const Scratch& s = chunk->scratch;
  auto* totals = static_cast<int32_t*>(call.expert_counts.data);
  std::memset(s.counts, 0, experts_.size() * sizeof(int32_t));
  for (int64_t t = 0; t < chunk->tokens; ++t) {
    const int64_t token = chunk->begin + t;
    for (int64_t slot = 0; slot < top_k(); ++slot) {
      const int32_t id = reinterpret_cast<const int32_t*>(Row(call.ids, token))[slot];
      const int32_t local = LocalExpert(call, token, slot);
      if (local == -2) {
        state.Fail(MOERT_STATUS_INVALID_ROUTING,
                   "token %lld, slot %lld: expert id %d is outside -1..%d",
                   static_cast<long long>(token), static_cast<long long>(slot), id,
                   routing_.num_experts - 1);
        continue;
      }
      if (id != -1 && call.expert_counts.present()) ++totals[id];
      if (local >= 0) ++s.counts[local];
    }
  }
  chunk->num_active = 0;
  chunk->slots = 0;
  for (int64_t e = 0; e < num_local(); ++e) {
    s.offsets[e] = static_cast<int32_t>(chunk->slots);
    chunk->slots += s.counts[e];
    if (s.counts[e] != 0) s.active[chunk->num_active++] = static_cast<int32_t>(e);
  }
  for (int64_t t = 0; t < chunk->tokens; ++t) {
    const int64_t token = chunk->begin + t;
    for (int64_t slot = 0; slot < top_k(); ++slot) {
      const int32_t local = LocalExpert(call, token, slot);
      if (local < 0) continue;
      const int32_t at = s.offsets[local]++;
      s.tokens[at] = static_cast<int32_t>(t);
      s.weights[at] = reinterpret_cast<const float*>(Row(call.weights, token))[slot];
    }
  }
  for (int64_t e = 0; e < num_local(); ++e) s.offsets[e] -= s.counts[e];
}

void CpuExperts::RunLatentIn(const ExpertsCall& call, const Chunk& chunk) const {
  const int64_t block = BlockOutputs(latent_, 1, chunk.workers);
  RunItems(*device_.scheduler, chunk.workers, DivideUp(latent_, block),
           [&](uint32_t index, int64_t item) {
             const WorkerScratch worker = chunk.scratch.Get(index);
             const int64_t begin = item * block;
             const int64_t count = std::min(block, latent_ - begin);
             WeightView weight = latent_in_;
             weight.data = Element(latent_in_, begin, 0);
             for (int64_t j = 0; j < chunk.tokens; j += kBlockRows) {
               const int64_t rows = std::min(kBlockRows, chunk.tokens - j);
               device_.kernels->product({Rows(Row(call.x, chunk.begin + j), call.x.row_stride),
                                         rows, hidden_, weight, count, worker.out, block,
                                         worker.panel, false});
               for (int64_t i = 0; i < rows; ++i) {
                 device_.kernels->store(
                     chunk.scratch.latent + ((j + i) * latent_ + begin) * element_, dtype_,
                     worker.out + i * block, false, count);
               }
             }
           });
}

void CpuExperts::Fc1Block(const Fc1& fc1, int64_t begin, int64_t count,
                          const WorkerScratch& worker) const {
  const ExpertViews& e = *fc1.expert;
  const float* gate_bias = LoadBias(e.gate_bias, begin, count, worker.gate_bias);
  const float* up_bias = LoadBias(e.up_bias, begin, count, worker.up_bias);
  const bool gated = e.gate.data != nullptr;
  // Interleaved [in, out] rows are read once, as one matrix of twice as many outputs.
  const bool joint = gated && e.gate.in_stride != 1 && e.gate.out_stride == 2 &&
                     e.up.out_stride == 2 && e.up.in_stride == e.gate.in_stride &&
                     e.up.dtype == e.gate.dtype &&
                     e.up.data == Element({e.gate.data, e.gate.dtype, 1, 0}, 1, 0);
  const bool same_panel = fc1.depth <= kPanelDepth && e.gate.dtype == e.up.dtype &&
                          (e.gate.in_stride == 1) == (e.up.in_stride == 1);
  const int64_t stride = 2 * Padded(count);
  ProductArgs product{};
  product.source = fc1.source;
  product.depth = fc1.depth;
  product.out_stride = stride;
  product.panel = worker.panel;
  for (int64_t j = 0; j < fc1.rows; j += kBlockRows) {
    const int64_t rows = product.rows = std::min(kBlockRows, fc1.rows - j);
    if (fc1.source.index != nullptr) {
      product.source.index = fc1.source.index + j;
    } else {
      product.source.data =
          static_cast<const char*>(fc1.source.data) + j * fc1.source.row_stride * element_;
    }
    if (fc1.source.row_factor != nullptr) product.source.row_factor = fc1.source.row_factor + j;
    product.panel_ready = false;
    const auto run = [&](const WeightView& weight, int64_t outputs, float* out) {
      product.weight = weight;
      product.weight.data = Element(weight, begin * (joint ? 2 : 1), 0);
      product.outputs = outputs;
      product.out = out;
      device_.kernels->product(product);
      product.panel_ready = same_panel;
    };
    if (joint) {
      run({e.gate.data, e.gate.dtype, 1, e.gate.in_stride}, 2 * count, worker.out);
    } else {
      if (gated) run(e.gate, count, worker.out);
      run(e.up, count, worker.out + stride / 2);
    }
    device_.kernels->activate({fc1.activation, gated ? worker.out : nullptr,
                               joint ? worker.out + 1 : worker.out + stride / 2, gate_bias, up_bias,
                               stride, joint ? 2 : 1, rows, count,
                               fc1.out + (j * fc1.out_stride + begin) * element_, dtype_,
                               fc1.out_stride});
  }
}

// sigmoid(x . w) of every token of the chunk.
void CpuExperts::SharedGate(const ExpertsCall& call, const Chunk& chunk,
                            const WorkerScratch& worker) const {
  WeightView weight = shared_gate_;
  weight.out_stride = hidden_;
  float* out = chunk.scratch.shared_gate;
  for (int64_t j = 0; j < chunk.tokens; j += kBlockRows) {
    device_.kernels->product({Rows(Row(call.x, chunk.begin + j), call.x.row_stride),
                              std::min(kBlockRows, chunk.tokens - j), hidden_, weight, 1, out + j,
                              1, worker.panel, false});
  }
  device_.kernels->sigmoid(out, chunk.tokens);
}

void CpuExperts::RunFc1(const ExpertsCall& call, const Chunk& chunk, bool shared) const {
  const Scratch& s = chunk.scratch;
  const int64_t block = BlockOutputs(intermediate_, std::max(chunk.num_active, 1), chunk.workers);
  const int64_t blocks = DivideUp(intermediate_, block);
  const int64_t shared_block = shared ? BlockOutputs(shared_intermediate_, 1, chunk.workers) : 1;
  const int64_t shared_blocks = shared ? DivideUp(shared_intermediate_, shared_block) : 0;
  const int64_t gate_items = shared && shared_gate_.data != nullptr ? 1 : 0;
  const RowSource x =
      latent_ != 0 ? Rows(s.latent, latent_) : Rows(Row(call.x, chunk.begin), call.x.row_stride);
  RunItems(
      *device_.scheduler, chunk.workers, gate_items + shared_blocks + chunk.num_active * blocks,
      [&](uint32_t index, int64_t item) {
        const WorkerScratch worker = s.Get(index);
        if (item < gate_items) return SharedGate(call, chunk, worker);
        item -= gate_items;
        if (item < shared_blocks) {
          const Fc1 fc1 = {&shared_,
                           &shared_activation_,
                           Rows(Row(call.x, chunk.begin), call.x.row_stride),
                           chunk.tokens,
                           hidden_,
                           s.shared,
                           shared_intermediate_};
          const int64_t begin = item * shared_block;
          return Fc1Block(fc1, begin, std::min(shared_block, shared_intermediate_ - begin), worker);
        }
        item -= shared_blocks;
        const int32_t e = s.active[item / blocks];
        const int64_t first = s.offsets[e];
        Fc1 fc1 = {
            &experts_[static_cast<size_t>(e)],           &activation_, x, s.counts[e], width_,
            s.hidden + first * intermediate_ * element_, intermediate_};
        fc1.source.index = s.tokens + first;
        if (weight_on_input_) {
          fc1.source.row_factor = s.weights + first;
          fc1.source.round = true;
        }
        const int64_t begin = item % blocks * block;
        Fc1Block(fc1, begin, std::min(block, intermediate_ - begin), worker);
      });
}

void CpuExperts::AddColumns(const Fc2& fc2, int64_t begin, int64_t count,
                            const WorkerScratch& worker) const {
  const float* bias = LoadBias(fc2.bias, begin, count, worker.up_bias);
  WeightView weight = fc2.weight;
  weight.data = Element(fc2.weight, begin, 0);
  const int64_t stride = Padded(count);
  for (int64_t j = 0; j < fc2.rows; j += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, fc2.rows - j);
    RowSource source = fc2.source;
    source.data = static_cast<const char*>(source.data) + j * source.row_stride * element_;
    device_.kernels->product(
        {source, rows, fc2.depth, weight, count, worker.out, stride, worker.panel, false});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t token = fc2.tokens != nullptr ? fc2.tokens[j + i] : j + i;
      device_.kernels->accumulate(worker.sums + token * stride, worker.out + i * stride, bias,
                                  fc2.factors != nullptr ? fc2.factors[j + i] : 1.0f, count);
    }
  }
}

void CpuExperts::AddSlots(const Chunk& chunk, int64_t begin, int64_t count,
                          const WorkerScratch& worker) const {
  const Scratch& s = chunk.scratch;
  for (int32_t a = 0; a < chunk.num_active; ++a) {
    const int32_t e = s.active[a];
    const int64_t first = s.offsets[e];
    const ExpertViews& expert = experts_[static_cast<size_t>(e)];
    AddColumns({expert.down, expert.down_bias,
                Rows(s.hidden + first * intermediate_ * element_, intermediate_), s.counts[e],
                intermediate_, s.tokens + first, weight_on_input_ ? nullptr : s.weights + first},
               begin, count, worker);
  }
}

void CpuExperts::AddShared(const Chunk& chunk, int64_t begin, int64_t count,
                           const WorkerScratch& worker) const {
  const Scratch& s = chunk.scratch;
  AddColumns(
      {shared_.down, shared_.down_bias, Rows(s.shared, shared_intermediate_), chunk.tokens,
       shared_intermediate_, nullptr, shared_gate_.data != nullptr ? s.shared_gate : nullptr},
      begin, count, worker);
}

void CpuExperts::RunColumns(const ExpertsCall& call, const Chunk& chunk, bool shared) const {
  const Scratch& s = chunk.scratch;
  // Shares columns out: zeroes their sums, lets `add` fill them, and hands each row to `store`.
  const auto run = [&](int64_t columns, const auto& add, const auto& store) {
    const int64_t block = BlockOutputs(columns, 1, chunk.workers);
    RunItems(*device_.scheduler, chunk.workers, DivideUp(columns, block),
             [&](uint32_t index, int64_t item) {
               const WorkerScratch worker = s.Get(index);
               const int64_t begin = item * block;
               const int64_t count = std::min(block, columns - begin);
               const int64_t stride = Padded(count);
               std::memset(worker.sums, 0,
                           static_cast<size_t>(chunk.tokens * stride) * sizeof(float));
               add(begin, count, worker);
               for (int64_t t = 0; t < chunk.tokens; ++t) {
                 store(t, begin, count, worker.sums + t * stride);
               }
             });
  };
  const auto add_slots = [&](int64_t begin, int64_t count, const WorkerScratch& worker) {
    AddSlots(chunk, begin, count, worker);
  };
  const auto store_y = [&](int64_t t, int64_t begin, int64_t count, const float* sums) {
    device_.kernels->store(Row(call.y, chunk.begin + t) + begin * element_, dtype_, sums,
                           call.accumulate, count);
  };
  if (latent_ == 0) {
    run(
        hidden_,
        [&](int64_t begin, int64_t count, const WorkerScratch& worker) {
          add_slots(begin, count, worker);
          if (shared) AddShared(chunk, begin, count, worker);
        },
        store_y);
    return;
  }
  if (chunk.slots != 0) {
    run(latent_, add_slots, [&](int64_t t, int64_t begin, int64_t count, const float* sums) {
      device_.kernels->store(s.latent_sum + (t * latent_ + begin) * element_, dtype_, sums, false,
                             count);
    });
  }
  run(
      hidden_,
      [&](int64_t begin, int64_t count, const WorkerScratch& worker) {
        if (chunk.slots != 0) {
          AddColumns({latent_out_,
                      {},
                      Rows(s.latent_sum, latent_),
                      chunk.tokens,
                      latent_,
                      nullptr,
                      nullptr},
                     begin, count, worker);
        }
        if (shared) AddShared(chunk, begin, count, worker);
      },
      store_y);
}

// A view as a matrix of rows: a vector is one row. Fails where columns are not contiguous.
Status AsMatrix(const WeightView& view, int64_t rows, int64_t cols, moert_matrix* out) {
  if (view.data == nullptr) return NotFound("the layer has no weight of that role");
  if (view.in_stride != 1) {
    return Unsupported("the weight lies in another order than [out, in], where it was borrowed");
  }
  *out = {const_cast<void*>(view.data),       rows,       cols,
          rows == 1 ? cols : view.out_stride, view.dtype, 0};
  return Status();
}

// Gate and up as the one matrix they were given as: concatenated or interleaved along the outputs,
// which are the columns of a vector (a bias).
Status AsPair(const WeightView& gate, const WeightView& up, bool vector, int64_t rows, int64_t cols,
              moert_matrix* out) {
  WeightView whole = gate;
  if (gate.data != nullptr && vector && gate.in_stride == 2) {
    whole.in_stride = 1;
    if (up.data == Element(whole, 0, 1)) return AsMatrix(whole, 1, 2 * cols, out);
  } else if (gate.data != nullptr && vector) {
    if (up.data == Element(whole, 0, cols)) return AsMatrix(whole, 1, 2 * cols, out);
  } else if (gate.data != nullptr) {
    if (up.data == Element(whole, rows, 0)) return AsMatrix(whole, 2 * rows, cols, out);
    whole.out_stride /= 2;
    if (up.data == Element(whole, 1, 0)) return AsMatrix(whole, 2 * rows, cols, out);
  }
  return NotFound("the layer's gate and up are not one tensor");
}

Status CpuExperts::Weight(moert_role role, int32_t expert, moert_matrix* out) const {
  const ExpertViews& e = experts_[static_cast<size_t>(expert)];
  switch (role) {
    case MOERT_ROLE_ROUTER:
      return AsMatrix(router_.router, routing_.num_experts, hidden_, out);
    case MOERT_ROLE_ROUTER_BIAS:
      return AsMatrix(router_.router_bias, 1, routing_.num_experts, out);
    case MOERT_ROLE_SELECTION_BIAS:
      return AsMatrix(router_.selection_bias, 1, routing_.num_experts, out);
    case MOERT_ROLE_ROUTER_INPUT_SCALE:
      return AsMatrix(router_.input_scale, 1, hidden_, out);
    case MOERT_ROLE_EXPERT_SCALE:
      return AsMatrix(router_.expert_scale, 1, routing_.num_experts, out);
    case MOERT_ROLE_EXPERT_GATE:
      return AsMatrix(e.gate, intermediate_, width_, out);
    case MOERT_ROLE_EXPERT_UP:
      return AsMatrix(e.up, intermediate_, width_, out);
    case MOERT_ROLE_EXPERT_GATE_UP:
      return AsPair(e.gate, e.up, false, intermediate_, width_, out);
    case MOERT_ROLE_EXPERT_DOWN:
      return AsMatrix(e.down, width_, intermediate_, out);
    case MOERT_ROLE_EXPERT_GATE_BIAS:
      return AsMatrix(e.gate_bias, 1, intermediate_, out);
    case MOERT_ROLE_EXPERT_UP_BIAS:
      return AsMatrix(e.up_bias, 1, intermediate_, out);
    case MOERT_ROLE_EXPERT_GATE_UP_BIAS:
      return AsPair(e.gate_bias, e.up_bias, true, 1, intermediate_, out);
    case MOERT_ROLE_EXPERT_DOWN_BIAS:
      return AsMatrix(e.down_bias, 1, width_, out);
    case MOERT_ROLE_LATENT_IN:
      return AsMatrix(latent_in_, latent_, hidden_, out);
    case MOERT_ROLE_LATENT_OUT:
      return AsMatrix(latent_out_, hidden_, latent_, out);
    case MOERT_ROLE_SHARED_GATE:
      return AsMatrix(shared_.gate, shared_intermediate_, hidden_, out);
    case MOERT_ROLE_SHARED_UP:
      return AsMatrix(shared_.up, shared_intermediate_, hidden_, out);
    case MOERT_ROLE_SHARED_GATE_UP:
      return AsPair(shared_.gate, shared_.up, false, shared_intermediate_, hidden_, out);
    case MOERT_ROLE_SHARED_DOWN:
      return AsMatrix(shared_.down, hidden_, shared_intermediate_, out);
    case MOERT_ROLE_SHARED_EXPERT_GATE:
      return AsMatrix(shared_gate_, 1, hidden_, out);
    default:
      return NotFound("role %d is unknown", role);
  }
}

}  // namespace

Status PrepareExperts(const DeviceParts& device, const LayerSpec& spec, const LayerWeights& weights,
                      WeightSource source, Owned<PreparedExperts>* out) {
  // A mapped file can't be written, and what is trained is.
  const bool copy =
      source == WeightSource::kCopy || (spec.trainable && source == WeightSource::kMapped);
  auto experts = MakeOwned<CpuExperts>(*device.allocator, device, spec);
  MOERT_RETURN_IF_ERROR(experts->Prepare(weights, copy));
  *out = std::move(experts);
  return Status();
}

}  // namespace moert::cpu
