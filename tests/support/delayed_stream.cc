// SPDX-License-Identifier: Apache-2.0
#include "delayed_stream.h"

#include <chrono>
#include <cstring>

namespace moert::test {
namespace {

constexpr std::chrono::microseconds kDelay{50};

}  // namespace

void Users::Enter() {
  std::lock_guard lock(mutex_);
  ++count_;
}

void Users::Leave() {
  std::lock_guard lock(mutex_);
  --count_;
  none_.notify_all();
}

void Users::Wait() {
  std::unique_lock lock(mutex_);
  none_.wait(lock, [this] { return count_ == 0; });
}

void Marker::Reach(const Failure& stream_failure) {
  std::lock_guard lock(mutex);
  reached = true;
  failure = stream_failure;
  changed.notify_all();
}

void Marker::Wait() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return reached; });
}

DelayedStream::DelayedStream(DelayedMemory& memory, Owned<BackendStream> cpu_stream)
    : memory_(memory), cpu_stream_(std::move(cpu_stream)), worker_([this] { Work(); }) {}

DelayedStream::~DelayedStream() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  worker_.join();
  memory_.Free(scratch_.data);
}

Status DelayedStream::Copy(void* destination, const void* source, uint64_t bytes) {
  void* to = memory_.ToHost(destination);
  const void* from = memory_.ToHost(source);
  Enqueue([to, from, bytes](BackendStream&) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return Status();
  });
  return Status();
}

Status DelayedStream::WaitEvent(const BackendEvent& event) {
  auto marker = static_cast<const DelayedEvent&>(event).marker();
  if (marker == nullptr) return Status();
  Enqueue([marker](BackendStream&) {
    marker->Wait();
    return Status();
  });
  return Status();
}

Status DelayedStream::Synchronize() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  }
  return Check();
}

Status DelayedStream::Check() {
  std::lock_guard lock(mutex_);
  return std::exchange(failure_, Failure()).ToStatus();
}

Status DelayedStream::Reserve(uint64_t bytes) {
  if (bytes <= scratch_.size) return Status();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty() && !busy_; });
  }
  void* memory = memory_.Allocate(bytes);
  if (memory == nullptr) {
    return OutOfMemory("no %llu bytes of scratch", static_cast<unsigned long long>(bytes));
  }
  memory_.Free(scratch_.data);
  scratch_ = {memory, bytes};
  return Status();
}

Status DelayedStream::Scratch(Workspace* out) {
  *out = scratch_;
  return Status();
}

void DelayedStream::Enqueue(Task task) {
  std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notify_all();
}

void DelayedStream::Enqueue(Users& users, Task task) {
  users.Enter();
  Enqueue([&users, task = std::move(task)](BackendStream& cpu_stream) {
    Status status = task(cpu_stream);
    users.Leave();
    return status;
  });
}

Failure DelayedStream::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void DelayedStream::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    std::this_thread::sleep_for(kDelay);
    Keep(task(*cpu_stream_));
    Keep(cpu_stream_->Check());
    task = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void DelayedStream::Keep(const Status& status) {
  std::lock_guard lock(mutex_);
  if (!status.ok() && failure_.code == MOERT_STATUS_OK) failure_ = Failure::Of(status);
}

Status DelayedEvent::Record(BackendStream& stream) {
  auto marker = std::make_shared<Marker>();
  auto& delayed = static_cast<DelayedStream&>(stream);
  delayed.Enqueue([marker, &delayed](BackendStream&) {
    marker->Reach(delayed.failure());
    return Status();
  });
  std::lock_guard lock(mutex_);
  marker_ = marker;
  return Status();
}

Status DelayedEvent::Query() const {
  auto current = marker();
  if (current == nullptr) return Status();
  std::lock_guard lock(current->mutex);
  if (!current->reached) {
    return Status::Make(MOERT_STATUS_NOT_READY, 0, "the event has not been reached yet");
  }
  return current->failure.ToStatus();
}

Status DelayedEvent::Wait() const {
  auto current = marker();
  if (current == nullptr) return Status();
  current->Wait();
  return Query();
}

std::shared_ptr<Marker> DelayedEvent::marker() const {
  std::lock_guard lock(mutex_);
  return marker_;
}

}  // namespace moert::test
