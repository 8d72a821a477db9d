// SPDX-License-Identifier: Apache-2.0
// The library's own threads, and the host's behind the same interface. A parallel job lives on its
// caller's stack and is linked into a list that workers look through; the caller works too, and
// then waits only for workers that took part, so progress never needs a free worker.
#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/block_signals.h"
#include "core/scheduler.h"

namespace moert {
namespace {

// How often an idle thread looks for work before it sleeps: tens of microseconds, so that the
// phases of one call, and calls in a row, do not pay for waking.
constexpr int kSpins = 2000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

uint32_t AvailableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return static_cast<uint32_t>(CPU_COUNT(&set));
  const uint32_t cores = std::thread::hardware_concurrency();
  return cores != 0 ? cores : 1;
}

class ThreadPool final : public Scheduler {
 public:
  ThreadPool(Allocator& allocator, uint32_t threads)
      : threads_(threads), workers_(&allocator), queue_(kQueueCapacity, &allocator) {
    workers_.reserve(threads);
  }

  ~ThreadPool() override {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      ++version_;
    }
    work_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  uint32_t concurrency() const override { return threads_; }

  void ParallelFor(uint32_t count, moert_task_fn fn, void* task) override {
    if (count == 0) return;
    Job job{fn, task, count};
    if (count == 1 || threads_ == 1) {
      RunShare(job);
      return;
    }
    Publish(job);
    RunShare(job);
    Retire(job);
  }

  Status Submit(moert_task_fn fn, void* task) override {
    std::unique_lock lock(mutex_);
    StartWorkers(threads_ > 1 ? threads_ - 1 : 1);
    if (workers_.empty()) return Unavailable("no worker thread could be started");
    if (queued_ == queue_.size() && !GrowQueue()) {
      return OutOfMemory("no memory for more than %zu waiting tasks", queued_);
    }
    queue_[(first_ + queued_++) % queue_.size()] = {fn, task};
    ++version_;
    const bool wake = sleepers_ != 0;
    lock.unlock();
    if (wake) work_.notify_one();
    return Status();
  }

 private:
  // More than this many submissions waiting at once make the queue grow.
  static constexpr size_t kQueueCapacity = 256;

  struct Submission {
    moert_task_fn fn = nullptr;
    void* task = nullptr;
  };

  struct Job {
    moert_task_fn fn;
    void* task;
    uint32_t count;
    std::atomic<uint32_t> next{0};
    std::atomic<uint32_t> helpers{0};  // workers inside RunShare; changes under the mutex
    Job* previous = nullptr;
    Job* following = nullptr;
  };

  static void RunShare(Job& job) {
    for (;;) {
      const uint32_t index = job.next.fetch_add(1, std::memory_order_relaxed);
      if (index >= job.count) return;
      job.fn(job.task, index);
    }
  }

  void Publish(Job& job) {
    std::unique_lock lock(mutex_);
    StartWorkers(threads_ - 1);
    job.following = jobs_;
    if (jobs_ != nullptr) jobs_->previous = &job;
    jobs_ = &job;
    ++version_;
    const uint32_t wanted = job.count - 1 < sleepers_ ? job.count - 1 : sleepers_;
    lock.unlock();
    for (uint32_t i = 0; i < wanted; ++i) work_.notify_one();
  }

  // Takes the job off the list and waits for the workers that are still inside it.
  void Retire(Job& job) {
    std::unique_lock lock(mutex_);
    if (job.previous != nullptr) job.previous->following = job.following;
    if (job.following != nullptr) job.following->previous = job.previous;
    if (jobs_ == &job) jobs_ = job.following;
    if (job.helpers == 0) return;
    lock.unlock();
    for (int i = 0; i < kSpins && job.helpers != 0; ++i) Pause();
    lock.lock();
    done_.wait(lock, [&] { return job.helpers == 0; });
  }

  // Under the mutex. Fewer threads than asked for are not an error: callers work too. Never throws,
  // as it may run on a worker; where memory ran out, a later job tries again.
  void StartWorkers(uint32_t wanted) {
    if (workers_.size() >= wanted || start_failed_) return;
    const BlockSignals block;
    try {
      while (workers_.size() < wanted) workers_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      start_failed_ = true;
    } catch (const std::bad_alloc&) {
    }
  }

  // False when memory runs out; the queue is as before then.
  bool GrowQueue() {
    try {
      std::pmr::vector<Submission> larger(queue_.size() * 2, queue_.get_allocator());
      for (size_t i = 0; i < queued_; ++i) larger[i] = queue_[(first_ + i) % queue_.size()];
      queue_ = std::move(larger);
    } catch (const std::bad_alloc&) {
      return false;
    }
    first_ = 0;
    return true;
  }

  Job* FindJob() {
    for (Job* job = jobs_; job != nullptr; job = job->following) {
      if (job->next.load(std::memory_order_relaxed) < job->count) return job;
    }
    return nullptr;
  }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (Job* job = FindJob()) {
        ++job->helpers;
        lock.unlock();
        RunShare(*job);
        lock.lock();
        if (--job->helpers == 0) done_.notify_all();
      } else if (queued_ != 0) {
        const Submission next = queue_[first_];
        first_ = (first_ + 1) % queue_.size();
        --queued_;
        lock.unlock();
        next.fn(next.task, 0);
        lock.lock();
      } else if (stopping_) {
        return;
      } else {
        WaitForWork(lock);
      }
    }
  }

  void WaitForWork(std::unique_lock<std::mutex>& lock) {
    const uint64_t seen = version_;
    lock.unlock();
    for (int i = 0; i < kSpins && version_ == seen; ++i) Pause();
    lock.lock();
    ++sleepers_;
    work_.wait(lock, [&] { return version_ != seen; });
    --sleepers_;
  }

  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::atomic<uint64_t> version_{0};  // counts what could end a wait; changes under the mutex
  uint32_t sleepers_ = 0;
  bool stopping_ = false;
  bool start_failed_ = false;
  Job* jobs_ = nullptr;
  std::pmr::vector<std::thread> workers_;
  std::pmr::vector<Submission> queue_;  // a ring of queued_ submissions from first_ on
  size_t first_ = 0;
  size_t queued_ = 0;
};

class HostScheduler final : public Scheduler {
 public:
  explicit HostScheduler(const moert_scheduler& host) : host_(host) {}

  uint32_t concurrency() const override { return host_.concurrency != 0 ? host_.concurrency : 1; }

  void ParallelFor(uint32_t count, moert_task_fn fn, void* task) override {
    if (host_.parallel_for != nullptr && count > 1) {
      host_.parallel_for(host_.user_data, count, fn, task);
      return;
    }
    for (uint32_t i = 0; i < count; ++i) fn(task, i);
  }

  Status Submit(moert_task_fn fn, void* task) override {
    if (host_.submit == nullptr) {
      return Unsupported("the host's moert_scheduler has no submit, which asynchronous work needs");
    }
    host_.submit(host_.user_data, fn, task);
    return Status();
  }

 private:
  const moert_scheduler host_;
};

}  // namespace

Status MakeThreadPool(Allocator& allocator, uint32_t threads, Owned<Scheduler>* out) {
  *out = MakeOwned<ThreadPool>(allocator, allocator, threads != 0 ? threads : AvailableCores());
  return Status();
}

Owned<Scheduler> MakeHostScheduler(Allocator& allocator, const moert_scheduler& host) {
  return MakeOwned<HostScheduler>(allocator, host);
}

}  // namespace moert
