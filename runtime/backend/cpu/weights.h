// SPDX-License-Identifier: Apache-2.0
// Weights as kernels read them: copied into memory of our own as [out, in] rows, or where they lie.
#ifndef MOERT_BACKEND_CPU_WEIGHTS_H_
#define MOERT_BACKEND_CPU_WEIGHTS_H_

#include <memory_resource>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/spec.h"
#include "core/allocator.h"
#include "core/scheduler.h"
#include "core/status.h"

namespace moert::cpu {

// As RouterWeights and ExpertWeights; data is null where there is none.
struct RouterViews {
  WeightView router = {};
  WeightView router_bias = {};
  WeightView selection_bias = {};
  WeightView input_scale = {};
  WeightView expert_scale = {};
};
struct ExpertViews {
  WeightView gate = {};
  WeightView up = {};
  WeightView down = {};
  WeightView gate_bias = {};
  WeightView up_bias = {};
  WeightView down_bias = {};
};

// Element (out, in) of a view.
const void* Element(const WeightView& view, int64_t out, int64_t in);

// Collects the weights of one object. Add and AddPair name a weight and where its view goes; Commit
// copies, unless the source lets weights be used in place, and fills the views.
class WeightStore {
 public:
  WeightStore(Allocator& allocator, bool copy)
      : allocator_(allocator), copy_(copy), items_(&allocator) {}

  void Add(const WeightMatrix& matrix, int64_t out, int64_t in, WeightView* view);
  // Gate and up, [out, in] each: a copy keeps them as one [2 out, in] matrix, interleaved if they
  // were, so that both stay views of what the host gave. Either may be absent.
  void AddPair(const WeightMatrix& gate, const WeightMatrix& up, bool vector, int64_t out,
               int64_t in, WeightView* gate_view, WeightView* up_view);
  void AddRouter(const RouterWeights& weights, int64_t experts, int64_t hidden, RouterViews* views);
  void AddExpert(const ExpertWeights& weights, int64_t intermediate, int64_t width,
                 ExpertViews* views);
  Status Commit(Scheduler& scheduler);

  // Of all weights, copied or not.
  uint64_t bytes() const { return bytes_; }
  Buffer TakeMemory() { return std::move(memory_); }

 private:
  struct Item {
    WeightMatrix source;
    int64_t out, in;
    int64_t out_stride, in_stride;  // of the copy
    uint64_t offset;
    WeightView* view;
  };
  uint64_t Place(uint64_t bytes);

  Allocator& allocator_;
  const bool copy_;
  std::pmr::vector<Item> items_;
  uint64_t size_ = 0;
  uint64_t bytes_ = 0;
  Buffer memory_;
};

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_WEIGHTS_H_
