// SPDX-License-Identifier: Apache-2.0
// Where CPU work runs: the host's scheduler, or a pool of threads of our own.
#ifndef MOERT_CORE_SCHEDULER_H_
#define MOERT_CORE_SCHEDULER_H_

#include <cstdint>

#include "core/allocator.h"
#include "core/status.h"

namespace moert {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  // Tasks that can run at once, the caller's thread included.
  virtual uint32_t concurrency() const = 0;
  // Runs fn(task, i) once for each i < count; returns when all are done. Allocates nothing. May be
  // entered from several threads at once. Tasks never throw.
  virtual void ParallelFor(uint32_t count, moert_task_fn fn, void* task) = 0;
  // Runs fn(task, 0) once, later, on another thread. Fails if there is none.
  virtual Status Submit(moert_task_fn fn, void* task) = 0;
};

// A pool with `threads` threads, the caller's included (0: one a core); workers start on first use
// and are joined by the destructor.
Status MakeThreadPool(Allocator& allocator, uint32_t threads, Owned<Scheduler>* out);
// The host's; `host` is copied.
Owned<Scheduler> MakeHostScheduler(Allocator& allocator, const moert_scheduler& host);

// ParallelFor for a callable f(uint32_t index), without allocation.
template <class F>
void ParallelFor(Scheduler& scheduler, uint32_t count, const F& f) {
  if (count == 1) {
    f(0u);
    return;
  }
  scheduler.ParallelFor(
      count, [](void* task, uint32_t index) { (*static_cast<const F*>(task))(index); },
      const_cast<F*>(&f));
}

}  // namespace moert

#endif  // MOERT_CORE_SCHEDULER_H_
