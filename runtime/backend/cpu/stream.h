// SPDX-License-Identifier: Apache-2.0
// Streams and events of the CPU. A stream is inline, running each command on the caller's thread,
// or asynchronous, queueing it in a ring that one task at a time drains on the scheduler's threads.
//
// Each command has a position, counted from 1; an event is a stream and a position. A queued wait
// for another stream's event blocks no thread: the drain task ends and the other stream starts it
// again.
#ifndef MOERT_BACKEND_CPU_STREAM_H_
#define MOERT_BACKEND_CPU_STREAM_H_

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

#include "backend/backend.h"

namespace moert::cpu {

class CpuStream;

// Counts the queued commands that use a prepared object, whose destructor waits for none.
class UseCount {
 public:
  void Add() {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  void Drop() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) unused_.notify_all();
  }
  void WaitUntilUnused() {
    std::unique_lock lock(mutex_);
    unused_.wait(lock, [&] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable unused_;
  uint64_t count_ = 0;
};

// What of a stream outlives it: events refer to it.
class StreamState {
 public:
  // The first failure is kept until it is read. Called by running commands.
  [[gnu::format(printf, 3, 4)]] void Fail(moert_status code, const char* format, ...);
  // The failure of commands up to `position`; clears it if `clear`.
  Status TakeFailure(uint64_t position, bool clear);

 private:
  friend class CpuStream;
  friend class CpuEvent;

  bool Reached(uint64_t position) {
    std::lock_guard lock(mutex_);
    return completed_ >= position;
  }
  void Wait(uint64_t position) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return completed_ >= position; });
  }
  // Counts a finished command and returns the streams that waited for it, as a list.
  CpuStream* Complete();

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  CpuStream* waiters_ = nullptr;  // streams whose next command waits for a position of this one

  moert_status failure_ = MOERT_STATUS_OK;
  uint64_t failure_position_ = 0;
  char message_[256];
};

class CpuEvent final : public BackendEvent {
 public:
  Status Record(BackendStream& stream) override;
  Status Query() const override;
  Status Wait() const override;

 private:
  friend class CpuStream;
  struct Point {
    std::shared_ptr<StreamState> stream;  // null: never recorded
    uint64_t position = 0;
  };
  Point point() const {
    std::lock_guard lock(mutex_);
    return point_;
  }

  mutable std::mutex mutex_;
  Point point_;
};

class CpuStream final : public BackendStream {
 public:
  // Commands an asynchronous stream holds; when they are all taken, enqueueing blocks until the
  // oldest is done.
  static constexpr uint64_t kCapacity = 128;

  static Status Create(Allocator& allocator, Scheduler& scheduler, bool async,
                       Owned<BackendStream>* out);
  CpuStream(Allocator& allocator, Scheduler& scheduler);
  ~CpuStream() override;

  Status Copy(void* destination, const void* source, uint64_t bytes) override;
  Status WaitEvent(const BackendEvent& event) override;
  Status Synchronize() override;
  Status Check() override;
  Status Reserve(uint64_t bytes) override;
  Status Scratch(Workspace* out) override {
    *out = {scratch_.data(), scratch_.size()};
    return Status();
  }

  // Runs f(StreamState&) in stream order, now or later. f is copied; `uses` (may be null) counts it
  // while it is queued.
  template <class F>
  Status Enqueue(UseCount* uses, const F& f) {
    static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_destructible_v<F>);
    static_assert(sizeof(F) <= sizeof(Command::storage) && alignof(F) <= 16);
    const auto run = [](void* storage, StreamState& state) { (*static_cast<F*>(storage))(state); };
    if (ring_ == nullptr) {
      RunInline(run, const_cast<F*>(&f));
      return Status();
    }
    return Push(uses, run, &f, sizeof(F), CpuEvent::Point());
  }

 private:
  friend class StreamState;
  friend class CpuEvent;
  using RunFunction = void (*)(void* storage, StreamState& state);

  struct Command {
    RunFunction run = nullptr;  // null: a wait for `wait`
    UseCount* uses = nullptr;
    CpuEvent::Point wait;
    alignas(16) unsigned char storage[704];
  };
  struct Ring {
    Command commands[kCapacity];
  };

  void RunInline(RunFunction run, void* storage);
  Status Push(UseCount* uses, RunFunction run, const void* storage, size_t size,
              CpuEvent::Point wait);
  void Drain();
  // Whether the wait is over; if not, the other stream will resume this one.
  bool WaitIsOver(const CpuEvent::Point& wait);
  void Finish();
  Status StartDrain();
  void WaitForAll();

  Scheduler& scheduler_;
  Allocator& allocator_;
  std::shared_ptr<StreamState> state_;
  Owned<Ring> ring_;       // null: inline
  bool draining_ = false;  // a drain task is queued, running or waiting; under the state's mutex
  CpuStream* next_waiter_ = nullptr;
  uint64_t waits_for_ = 0;
  Buffer scratch_;
};

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_STREAM_H_
