// SPDX-License-Identifier: Apache-2.0
// Where CPU work runs: the library's own threads, and a host's scheduler.
#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include "core/scheduler.h"

namespace moert {
namespace {

Owned<Scheduler> MakePool(Allocator& allocator, uint32_t threads) {
  Owned<Scheduler> pool;
  REQUIRE(MakeThreadPool(allocator, threads, &pool).ok());
  return pool;
}

// Counts down to zero; tasks signal, the test waits.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void Signal() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

TEST_CASE("each index of a parallel job runs exactly once") {
  Allocator allocator(nullptr);
  for (uint32_t threads : {1u, 2u, 5u}) {
    const auto pool = MakePool(allocator, threads);
    CHECK(pool->concurrency() == threads);
    for (uint32_t count : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> runs(count);
      ParallelFor(*pool, count, [&](uint32_t i) { ++runs[i]; });
      for (auto& run : runs) CHECK(run == 1);
    }
  }
}

TEST_CASE("jobs of several callers, and jobs inside jobs, all finish") {
  Allocator allocator(nullptr);
  const auto pool = MakePool(allocator, 3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        ParallelFor(*pool, 5,
                    [&](uint32_t) { ParallelFor(*pool, 3, [&](uint32_t i) { total += i; }); });
      }
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(total == 4 * 50 * 5 * 3);
}

TEST_CASE("submitted work runs on another thread, even where only the caller's is counted") {
  Allocator allocator(nullptr);
  for (uint32_t threads : {1u, 2u}) {
    const auto pool = MakePool(allocator, threads);
    struct Task {
      Latch done{1};
      std::thread::id where;
    } task;
    REQUIRE(pool->Submit(
                    [](void* t, uint32_t index) {
                      CHECK(index == 0);
                      static_cast<Task*>(t)->where = std::this_thread::get_id();
                      static_cast<Task*>(t)->done.Signal();
                    },
                    &task)
                .ok());
    task.done.Wait();
    CHECK(task.where != std::this_thread::get_id());
  }
}

TEST_CASE("a parallel job inside submitted work needs no free worker") {
  Allocator allocator(nullptr);
  const auto pool = MakePool(allocator, 2);
  struct Task {
    Scheduler* pool;
    std::atomic<int> runs{0};
    Latch done{1};
  } task{pool.get()};
  REQUIRE(pool->Submit(
                  [](void* t, uint32_t) {
                    auto* task = static_cast<Task*>(t);
                    ParallelFor(*task->pool, 100, [&](uint32_t) { ++task->runs; });
                    task->done.Signal();
                  },
                  &task)
              .ok());
  task.done.Wait();
  CHECK(task.runs == 100);
}

TEST_CASE("the destructor runs what was submitted, however much that is") {
  Allocator allocator(nullptr);
  constexpr int kTasks = 3000;
  std::atomic<int> runs{0};
  {
    const auto pool = MakePool(allocator, 2);
    for (int i = 0; i < kTasks; ++i) {
      REQUIRE(pool->Submit([](void* n, uint32_t) { ++*static_cast<std::atomic<int>*>(n); }, &runs)
                  .ok());
    }
  }
  CHECK(runs == kTasks);
}

TEST_CASE("a submission that no memory is left for is refused, and the others run") {
  bool has_memory = true;
  moert_allocator host = MOERT_ALLOCATOR_INIT;
  host.user_data = &has_memory;
  host.alloc = [](void* has, uint64_t bytes, uint64_t alignment) {
    return *static_cast<bool*>(has)
               ? ::operator new(bytes, std::align_val_t(alignment), std::nothrow)
               : nullptr;
  };
  host.free = [](void*, void* block, uint64_t, uint64_t alignment) {
    ::operator delete(block, std::align_val_t(alignment));
  };
  Allocator allocator(&host);
  auto pool = MakePool(allocator, 2);
  std::mutex gate;
  std::atomic<int> ran{0};
  struct Tasks {
    std::mutex* gate;
    std::atomic<int>* ran;
  } tasks{&gate, &ran};
  const moert_task_fn count = [](void* task, uint32_t) {
    const auto* t = static_cast<Tasks*>(task);
    const std::lock_guard lock(*t->gate);
    ++*t->ran;
  };
  int accepted = 0;
  {
    const std::lock_guard lock(gate);
    REQUIRE(pool->Submit(count, &tasks).ok());
    has_memory = false;
    Status status;
    for (accepted = 1; accepted < 100'000 && status.ok();) {
      status = pool->Submit(count, &tasks);
      if (status.ok()) ++accepted;
    }
    CHECK(status.code() == MOERT_STATUS_OUT_OF_MEMORY);
    has_memory = true;
    REQUIRE(pool->Submit(count, &tasks).ok());
    ++accepted;
  }
  pool.reset();
  CHECK(ran == accepted);
}

TEST_CASE("a host's scheduler runs the work, and one without submit refuses it") {
  Allocator allocator(nullptr);
  int calls = 0;
  moert_scheduler host = MOERT_SCHEDULER_INIT;
  host.user_data = &calls;
  host.parallel_for = [](void* calls, uint32_t count, moert_task_fn fn, void* task) {
    ++*static_cast<int*>(calls);
    for (uint32_t i = count; i-- > 0;) fn(task, i);
  };
  const auto scheduler = MakeHostScheduler(allocator, host);
  CHECK(scheduler->concurrency() == 1);
  std::vector<int> runs(9);
  ParallelFor(*scheduler, 9, [&](uint32_t i) { ++runs[i]; });
  CHECK(runs == std::vector<int>(9, 1));
  CHECK(calls == 1);
  const Status status = scheduler->Submit([](void*, uint32_t) {}, nullptr);
  CHECK(status.code() == MOERT_STATUS_UNSUPPORTED);
}

}  // namespace
}  // namespace moert
