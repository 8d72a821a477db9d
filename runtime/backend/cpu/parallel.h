// SPDX-License-Identifier: Apache-2.0
// Work items shared out to workers, each with scratch of its own.
#ifndef MOERT_BACKEND_CPU_PARALLEL_H_
#define MOERT_BACKEND_CPU_PARALLEL_H_

#include <atomic>

#include "backend/cpu/fp_control.h"
#include "core/scheduler.h"

namespace moert::cpu {

// Runs f(worker, item) once for each item < items, worker < max_workers: no two items at once on
// one worker. Workers take items in order as they become free.
template <class F>
void RunItems(Scheduler& scheduler, uint32_t max_workers, int64_t items, const F& f) {
  std::atomic<int64_t> next{0};
  const auto work = [&](uint32_t worker) {
    const FpControl control;
    for (;;) {
      const int64_t item = next.fetch_add(1, std::memory_order_relaxed);
      if (item >= items) return;
      f(worker, item);
    }
  };
  const uint32_t workers = items < max_workers ? static_cast<uint32_t>(items) : max_workers;
  if (workers != 0) ParallelFor(scheduler, workers, work);
}

// Hands out parts of a workspace, aligned to 256 bytes; with no base it only counts.
class Carver {
 public:
  explicit Carver(void* base) : base_(static_cast<char*>(base)) {}

  template <class T>
  T* Take(int64_t count) {
    char* part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += (static_cast<uint64_t>(count) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(part);
  }
  uint64_t used() const { return used_; }

 private:
  char* base_;
  uint64_t used_ = 0;
};

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_PARALLEL_H_
