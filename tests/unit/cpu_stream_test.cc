// SPDX-License-Identifier: Apache-2.0
// Streams and events of the CPU: order, waits that block no thread, sticky failures, what outlives
// what.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "backend/cpu/stream.h"
#include "unit/cpu_support.h"

namespace moert::test {
namespace {

using cpu::CpuStream;
using cpu::StreamState;

// A gate that commands wait at; opened by the test.
class Barrier {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

template <class F>
void Enqueue(BackendStream& stream, const F& f, cpu::UseCount* uses = nullptr) {
  REQUIRE(static_cast<CpuStream&>(stream).Enqueue(uses, f).ok());
}

TEST_CASE("an inline stream has done its work when the call returns") {
  CpuFixture cpu;
  const auto stream = cpu.Stream();
  const auto event = cpu.Event();
  CHECK(event->Query().ok());  // never recorded counts as reached
  int source = 5, target = 0;
  REQUIRE(stream->Copy(&target, &source, sizeof(int)).ok());
  CHECK(target == 5);
  REQUIRE(event->Record(*stream).ok());
  CHECK(event->Query().ok());
  CHECK(stream->Synchronize().ok());
}

TEST_CASE("commands of an asynchronous stream run in order, more of them than the ring holds") {
  CpuFixture cpu;
  const auto stream = cpu.Stream(true);
  std::vector<int> order;
  const int count = 5 * CpuStream::kCapacity;
  for (int i = 0; i < count; ++i) {
    Enqueue(*stream, [&order, i](StreamState&) { order.push_back(i); });
  }
  REQUIRE(stream->Synchronize().ok());
  REQUIRE(order.size() == static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("an event is not ready until its stream got there, and recording again moves it") {
  CpuFixture cpu;
  const auto stream = cpu.Stream(true);
  const auto event = cpu.Event();
  Barrier first, second;
  Enqueue(*stream, [&](StreamState&) { first.Pass(); });
  REQUIRE(event->Record(*stream).ok());
  CHECK(event->Query().code() == MOERT_STATUS_NOT_READY);
  Enqueue(*stream, [&](StreamState&) { second.Pass(); });
  first.Open();
  CHECK(event->Wait().ok());
  CHECK(event->Query().ok());
  REQUIRE(event->Record(*stream).ok());
  CHECK(event->Query().code() == MOERT_STATUS_NOT_READY);
  second.Open();
  CHECK(event->Wait().ok());
}

TEST_CASE("streams wait for each other in a ring on a single worker without a deadlock") {
  CpuFixture cpu(1);
  constexpr int kStreams = 4, kRounds = 60;
  std::vector<Owned<BackendStream>> streams;
  std::vector<Owned<BackendEvent>> events;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(cpu.Stream(true));
    events.push_back(cpu.Event());
  }
  // The first command is held up, so that all waits are met before what they wait for.
  Barrier start;
  Enqueue(*streams[0], [&](StreamState&) { start.Pass(); });
  std::vector<int> order;
  for (int step = 0; step < kStreams * kRounds; ++step) {
    const int i = step % kStreams, previous = (step + kStreams - 1) % kStreams;
    REQUIRE(streams[i]->WaitEvent(*events[previous]).ok());
    Enqueue(*streams[i], [&order, step](StreamState&) { order.push_back(step); });
    REQUIRE(events[i]->Record(*streams[i]).ok());
    if (step == kStreams * 20) start.Open();
  }
  for (auto& stream : streams) REQUIRE(stream->Synchronize().ok());
  REQUIRE(order.size() == static_cast<size_t>(kStreams * kRounds));
  for (size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<int>(i));
}

TEST_CASE("an inline stream waits for an event of an asynchronous one") {
  CpuFixture cpu;
  const auto slow = cpu.Stream(true);
  const auto stream = cpu.Stream();
  const auto event = cpu.Event();
  int value = 0, seen = -1;
  Enqueue(*slow, [&](StreamState&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    value = 7;
  });
  REQUIRE(event->Record(*slow).ok());
  REQUIRE(stream->WaitEvent(*event).ok());
  REQUIRE(stream->Copy(&seen, &value, sizeof(int)).ok());
  CHECK(seen == 7);
}

TEST_CASE("the first failure sticks, is reported by events past it, and is cleared by a check") {
  for (bool async : {false, true}) {
    CpuFixture cpu;
    const auto stream = cpu.Stream(async);
    const auto before = cpu.Event(), after = cpu.Event();
    REQUIRE(before->Record(*stream).ok());
    Enqueue(*stream, [](StreamState& s) { s.Fail(MOERT_STATUS_INVALID_ROUTING, "first %d", 1); });
    Enqueue(*stream, [](StreamState& s) { s.Fail(MOERT_STATUS_DEVICE_ERROR, "second"); });
    REQUIRE(after->Record(*stream).ok());
    CHECK(after->Wait().code() == MOERT_STATUS_INVALID_ROUTING);
    CHECK(after->Query().code() == MOERT_STATUS_INVALID_ROUTING);
    CHECK(before->Query().ok());
    const Status status = stream->Check();
    CHECK(status.code() == MOERT_STATUS_INVALID_ROUTING);
    CHECK(std::string(status.message()) == "first 1");
    CHECK(stream->Check().ok());
    CHECK(after->Query().ok());
  }
}

TEST_CASE("a stream's destructor waits for its work, and its events outlive it") {
  CpuFixture cpu;
  const auto event = cpu.Event();
  std::atomic<int> done{0};
  {
    const auto stream = cpu.Stream(true);
    for (int i = 0; i < 20; ++i) {
      Enqueue(*stream, [&](StreamState&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++done;
      });
    }
    REQUIRE(event->Record(*stream).ok());
  }
  CHECK(done == 20);
  CHECK(event->Query().ok());
  CHECK(event->Wait().ok());
}

TEST_CASE("what a queued command uses is in use until the command has run") {
  CpuFixture cpu;
  const auto stream = cpu.Stream(true);
  cpu::UseCount uses;
  Barrier barrier;
  std::atomic<bool> ran{false};
  Enqueue(*stream, [&](StreamState&) { barrier.Pass(); });
  Enqueue(
      *stream, [&](StreamState&) { ran = true; }, &uses);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    barrier.Open();
  });
  uses.WaitUntilUnused();
  CHECK(ran);
  opener.join();
}

TEST_CASE("scratch only grows, keeps its alignment, and stays when there is no memory for more") {
  moert_allocator host = MOERT_ALLOCATOR_INIT;
  host.alloc = [](void*, uint64_t bytes, uint64_t alignment) -> void* {
    if (bytes > 1 << 20) return nullptr;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  };
  host.free = [](void*, void* block, uint64_t, uint64_t) { std::free(block); };
  Allocator allocator(&host);
  Owned<Scheduler> pool;
  REQUIRE(MakeThreadPool(allocator, 2, &pool).ok());
  Owned<BackendStream> stream;
  REQUIRE(CpuStream::Create(allocator, *pool, true, &stream).ok());
  Workspace scratch;
  REQUIRE(stream->Scratch(&scratch).ok());
  CHECK(scratch.size == 0);
  REQUIRE(stream->Reserve(1000).ok());
  REQUIRE(stream->Reserve(10).ok());
  CHECK(stream->Reserve(2 << 20).code() == MOERT_STATUS_OUT_OF_MEMORY);
  REQUIRE(stream->Scratch(&scratch).ok());
  CHECK(scratch.size == 1000);
  CHECK(reinterpret_cast<uintptr_t>(scratch.data) % 256 == 0);
}

TEST_CASE("a host scheduler without submit has no asynchronous streams") {
  moert_scheduler host = MOERT_SCHEDULER_INIT;
  host.concurrency = 3;
  host.parallel_for = [](void*, uint32_t count, moert_task_fn fn, void* task) {
    for (uint32_t i = 0; i < count; ++i) fn(task, i);
  };
  CpuFixture cpu(0, &host);
  CHECK(cpu.device->info().concurrency == 3);
  Owned<BackendStream> stream;
  CHECK(cpu.device->CreateStream(MOERT_STREAM_FLAG_ASYNC, &stream).code() ==
        MOERT_STATUS_UNSUPPORTED);
  CHECK(stream == nullptr);
  CHECK(cpu.device->CreateStream(0, &stream).ok());
}

TEST_CASE("a failed submission leaves the stream as it was") {
  // Stands in for a scheduler whose threads have run out.
  class Refusing final : public Scheduler {
   public:
    explicit Refusing(Scheduler& pool) : pool_(pool) {}
    uint32_t concurrency() const override { return 1; }
    void ParallelFor(uint32_t count, moert_task_fn fn, void* task) override {
      pool_.ParallelFor(count, fn, task);
    }
    Status Submit(moert_task_fn fn, void* task) override {
      return refuse ? Unavailable("no thread") : pool_.Submit(fn, task);
    }
    bool refuse = false;

   private:
    Scheduler& pool_;
  };
  Allocator allocator(nullptr);
  Owned<Scheduler> pool;
  REQUIRE(MakeThreadPool(allocator, 2, &pool).ok());
  Refusing scheduler(*pool);
  Owned<BackendStream> stream;
  REQUIRE(CpuStream::Create(allocator, scheduler, true, &stream).ok());
  cpu::UseCount uses;
  std::atomic<int> runs{0};
  const auto command = [&](StreamState&) { ++runs; };
  scheduler.refuse = true;
  CHECK(static_cast<CpuStream&>(*stream).Enqueue(&uses, command).code() ==
        MOERT_STATUS_UNAVAILABLE);
  uses.WaitUntilUnused();
  scheduler.refuse = false;
  Enqueue(*stream, command, &uses);
  REQUIRE(stream->Synchronize().ok());
  CHECK(runs == 1);
}

}  // namespace
}  // namespace moert::test
