// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/stream.h"

#include <cstdarg>
#include <cstdio>
#include <utility>

namespace moert::cpu {

void StreamState::Fail(moert_status code, const char* format, ...) {
  std::lock_guard lock(mutex_);
  if (failure_ != MOERT_STATUS_OK) return;
  failure_ = code;
  failure_position_ = completed_ + 1;
  va_list args;
  va_start(args, format);
  std::vsnprintf(message_, sizeof(message_), format, args);
  va_end(args);
}

Status StreamState::TakeFailure(uint64_t position, bool clear) {
  std::lock_guard lock(mutex_);
  if (failure_ == MOERT_STATUS_OK || failure_position_ > position) return Status();
  Status status = Status::Make(failure_, 0, "%s", message_);
  if (clear) failure_ = MOERT_STATUS_OK;
  return status;
}

CpuStream* StreamState::Complete() {
  std::lock_guard lock(mutex_);
  ++completed_;
  changed_.notify_all();
  CpuStream* ready = nullptr;
  for (CpuStream** link = &waiters_; *link != nullptr;) {
    CpuStream* waiter = *link;
    if (waiter->waits_for_ > completed_) {
      link = &waiter->next_waiter_;
      continue;
    }
    *link = waiter->next_waiter_;
    waiter->next_waiter_ = ready;
    ready = waiter;
  }
  return ready;
}

Status CpuEvent::Record(BackendStream& stream) {
  const auto& state = static_cast<CpuStream&>(stream).state_;
  uint64_t position;
  {
    std::lock_guard lock(state->mutex_);
    position = state->enqueued_;
  }
  std::lock_guard lock(mutex_);
  point_ = {state, position};
  return Status();
}

Status CpuEvent::Query() const {
  const Point at = point();
  if (at.stream == nullptr) return Status();
  if (!at.stream->Reached(at.position)) {
    return Status::Make(MOERT_STATUS_NOT_READY, 0, "the event has not been reached yet");
  }
  return at.stream->TakeFailure(at.position, false);
}

Status CpuEvent::Wait() const {
  const Point at = point();
  if (at.stream == nullptr) return Status();
  at.stream->Wait(at.position);
  return at.stream->TakeFailure(at.position, false);
}

Status CpuStream::Create(Allocator& allocator, Scheduler& scheduler, bool async,
                         Owned<BackendStream>* out) {
  auto stream = MakeOwned<CpuStream>(allocator, allocator, scheduler);
  if (async) {
    // A task that does nothing shows whether there is a thread to queue on.
    MOERT_RETURN_IF_ERROR(scheduler.Submit([](void*, uint32_t) {}, nullptr));
    stream->ring_ = MakeOwned<Ring>(allocator);
  }
  *out = std::move(stream);
  return Status();
}

CpuStream::CpuStream(Allocator& allocator, Scheduler& scheduler)
    : scheduler_(scheduler),
      allocator_(allocator),
      state_(std::allocate_shared<StreamState>(
          std::pmr::polymorphic_allocator<StreamState>(&allocator))) {}

CpuStream::~CpuStream() { WaitForAll(); }

void CpuStream::WaitForAll() {
  std::unique_lock lock(state_->mutex_);
  state_->changed_.wait(lock,
                        [&] { return state_->completed_ == state_->enqueued_ && !draining_; });
}

Status CpuStream::Copy(void* destination, const void* source, uint64_t bytes) {
  return Enqueue(nullptr, [=](StreamState&) { std::memcpy(destination, source, bytes); });
}

Status CpuStream::WaitEvent(const BackendEvent& event) {
  CpuEvent::Point at = static_cast<const CpuEvent&>(event).point();
  if (at.stream == nullptr || at.stream == state_ || at.stream->Reached(at.position)) {
    return Status();
  }
  if (ring_ == nullptr) {
    at.stream->Wait(at.position);
    return Status();
  }
  return Push(nullptr, nullptr, nullptr, 0, std::move(at));
}

Status CpuStream::Synchronize() {
  WaitForAll();
  return Check();
}

Status CpuStream::Check() { return state_->TakeFailure(UINT64_MAX, true); }

Status CpuStream::Reserve(uint64_t bytes) {
  if (bytes <= scratch_.size()) return Status();
  WaitForAll();
  Buffer larger;
  if (!larger.Allocate(allocator_, bytes)) {
    return OutOfMemory("no memory for %llu bytes of stream scratch",
                       static_cast<unsigned long long>(bytes));
  }
  scratch_ = std::move(larger);
  return Status();
}

void CpuStream::RunInline(RunFunction run, void* storage) {
  {
    std::lock_guard lock(state_->mutex_);
    ++state_->enqueued_;
  }
  run(storage, *state_);
  state_->Complete();  // nothing waits for an inline stream: its events are reached at once
}

Status CpuStream::Push(UseCount* uses, RunFunction run, const void* storage, size_t size,
                       CpuEvent::Point wait) {
  std::unique_lock lock(state_->mutex_);
  state_->changed_.wait(lock, [&] { return state_->enqueued_ - state_->completed_ < kCapacity; });
  Command& command = ring_->commands[state_->enqueued_ % kCapacity];
  command.run = run;
  command.uses = uses;
  command.wait = std::move(wait);
  if (size != 0) std::memcpy(command.storage, storage, size);
  if (uses != nullptr) uses->Add();
  ++state_->enqueued_;
  if (std::exchange(draining_, true)) return Status();
  lock.unlock();
  Status status = StartDrain();
  if (status.ok()) return status;
  // No thread took it, and no other command can be in the ring: take it back.
  lock.lock();
  --state_->enqueued_;
  draining_ = false;
  if (uses != nullptr) uses->Drop();
  return status;
}

Status CpuStream::StartDrain() {
  return scheduler_.Submit([](void* stream, uint32_t) { static_cast<CpuStream*>(stream)->Drain(); },
                           this);
}

bool CpuStream::WaitIsOver(const CpuEvent::Point& wait) {
  std::lock_guard lock(wait.stream->mutex_);
  if (wait.stream->completed_ >= wait.position) return true;
  waits_for_ = wait.position;
  next_waiter_ = wait.stream->waiters_;
  wait.stream->waiters_ = this;
  return false;
}

void CpuStream::Drain() {
  for (;;) {
    Command* command;
    {
      std::lock_guard lock(state_->mutex_);
      if (state_->completed_ == state_->enqueued_) {
        draining_ = false;
        state_->changed_.notify_all();
        return;  // the stream may be gone from here on
      }
      command = &ring_->commands[state_->completed_ % kCapacity];
    }
    if (command->run == nullptr) {
      // Once this stream is on the other's list, it may be resumed on another thread.
      if (!WaitIsOver(command->wait)) return;
      command->wait = {};
    } else {
      command->run(command->storage, *state_);
      if (command->uses != nullptr) command->uses->Drop();
    }
    Finish();
  }
}

void CpuStream::Finish() {
  for (CpuStream* ready = state_->Complete(); ready != nullptr;) {
    CpuStream* stream = std::exchange(ready, ready->next_waiter_);
    // Without a thread to take it, the waiting stream goes on here.
    if (!stream->StartDrain().ok()) stream->Drain();
  }
}

}  // namespace moert::cpu
