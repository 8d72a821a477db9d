// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/gpu_stream.h"

#include <cinttypes>

namespace moert {

Status ReadStatusWord(const moert_stream_status& word) {
  // The kernel writes `raised` last, from the device, at any time.
  if (__atomic_load_n(&word.raised, __ATOMIC_ACQUIRE) == 0) return Status();
  return Status::Make(
      MOERT_STATUS_INVALID_ROUTING, word.id,
      "token %" PRId64 ", slot %" PRId64 ": expert id %d is outside -1..%d; the slot adds nothing",
      word.slot / word.top_k, word.slot % word.top_k, word.id, word.num_experts - 1);
}

GpuStream::~GpuStream() {
  if (status_ == nullptr) return;
  ContextScope scope(device_);
  WaitUnlessCapturing();
  // Only now: until its work is done, layers that it used must find the stream.
  if (listed_) device_.RemoveStream(this);
  if (owned_ && handle_ != nullptr) device_.driver().stream_destroy(handle_);
  device_.ReturnStatusWord(status_, !captured_.load(std::memory_order_relaxed));
}

Status GpuStream::TakeStatusWord() {
  MOERT_RETURN_IF_ERROR(device_.TakeStatusWord(&status_));
  device_.AddStream(this);
  listed_ = true;
  use_bit_ = uint64_t{1} << (reinterpret_cast<uintptr_t>(status_) / 64 % 64);
  return Status();
}

Status GpuStream::Create() {
  MOERT_RETURN_IF_ERROR(TakeStatusWord());
  ContextScope scope(device_);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  MOERT_RETURN_IF_ERROR(device_.Check(
      device_.driver().stream_create(&handle_, gpu::kStreamNonBlocking), "creating a stream"));
  owned_ = true;
  return Status();
}

Status GpuStream::Import(GpuStreamHandle native) {
  {
    ContextScope scope(device_);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    GpuContext context = nullptr;
    const int code = device_.driver().stream_get_context(native, &context);
    if (code != 0) {
      return Status::Make(MOERT_STATUS_INVALID_ARGUMENT, code,
                          "the stream %p is not one of this process's %s streams",
                          static_cast<void*>(native), device_.driver().vendor);
    }
    if (context != device_.gpu_context()) {
      return InvalidArgument(
          "the stream %p is of another context than the primary context of %s, which is accepted",
          static_cast<void*>(native), device_.info().id);
    }
  }
  MOERT_RETURN_IF_ERROR(TakeStatusWord());
  handle_ = native;
  return Status();
}

bool GpuStream::IsCapturing() const {
  int status = 0;
  const int code = device_.driver().stream_is_capturing(handle_, &status);
  if (code != 0) return device_.driver().classify(code) == GpuError::kImplicitCapture;
  return status != 0;
}

void GpuStream::WaitUnlessCapturing() const {
  ContextScope scope(device_);
  if (!IsCapturing()) device_.driver().stream_synchronize(handle_);
}

Status GpuStream::BeginCall() {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  if (!captured_.load(std::memory_order_relaxed) && IsCapturing()) {
    captured_.store(true, std::memory_order_relaxed);
  }
  return Status();
}

Status GpuStream::Copy(void* destination, const void* source, uint64_t bytes) {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  ContextScope scope(device_, CaptureMode::kAsIs);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  return device_.Check(
      device_.driver().copy_async(reinterpret_cast<GpuPointer>(destination),
                                  reinterpret_cast<GpuPointer>(source), bytes, handle_),
      "copying");
}

Status GpuStream::WaitEvent(const BackendEvent& event) {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  ContextScope scope(device_, CaptureMode::kAsIs);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  return device_.Check(
      device_.driver().stream_wait_event(handle_, static_cast<const GpuEvent&>(event).handle(), 0),
      "waiting for an event");
}

Status GpuStream::Synchronize() {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  {
    ContextScope scope(device_);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    MOERT_RETURN_IF_ERROR(
        device_.Check(device_.driver().stream_synchronize(handle_), "synchronizing a stream"));
  }
  return Check();
}

Status GpuStream::Check() {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  Status status = ReadStatusWord(*status_);
  if (!status.ok()) __atomic_store_n(&status_->raised, 0u, __ATOMIC_RELEASE);
  return status;
}

Status GpuStream::Reserve(uint64_t bytes) {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  if (bytes <= scratch_.bytes()) return Status();
  ContextScope scope(device_);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  if (IsCapturing()) return InvalidArgument("scratch cannot grow while the stream is capturing");
  GpuMemory larger;
  MOERT_RETURN_IF_ERROR(GpuMemory::Allocate(device_, bytes, &larger));
  MOERT_RETURN_IF_ERROR(
      device_.Check(device_.driver().stream_synchronize(handle_), "synchronizing a stream"));
  scratch_ = std::move(larger);
  return Status();
}

Status GpuStream::Scratch(Workspace* out) {
  ContextScope scope(device_);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  if (IsCapturing()) {
    return InvalidArgument(
        "workspace is NULL while the stream is capturing; a captured call needs a workspace of the "
        "caller's, which stays as long as the graph");
  }
  *out = Workspace{scratch_.data(), scratch_.bytes()};
  return Status();
}

GpuEvent::~GpuEvent() {
  if (handle_ == nullptr) return;
  ContextScope scope(device_);
  device_.driver().event_destroy(handle_);
}

Status GpuEvent::Create() {
  ContextScope scope(device_);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  return device_.Check(device_.driver().event_create(&handle_, gpu::kEventNoTiming),
                       "creating an event");
}

Status GpuEvent::Record(BackendStream& stream) {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  ContextScope scope(device_, CaptureMode::kAsIs);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  const auto& gpu_stream = static_cast<GpuStream&>(stream);
  MOERT_RETURN_IF_ERROR(device_.Check(device_.driver().event_record(handle_, gpu_stream.handle()),
                                      "recording an event"));
  status_ = gpu_stream.status_word();
  return Status();
}

Status GpuEvent::StreamStatus() const {
  return status_ != nullptr ? ReadStatusWord(*status_) : Status();
}

Status GpuEvent::Query() const {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  {
    ContextScope scope(device_);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    const int code = device_.driver().event_query(handle_);
    if (code != 0 && device_.driver().classify(code) == GpuError::kNotReady) {
      return Status::Make(MOERT_STATUS_NOT_READY, code, "the event has not been reached");
    }
    MOERT_RETURN_IF_ERROR(device_.Check(code, "querying an event"));
  }
  return StreamStatus();
}

Status GpuEvent::Wait() const {
  MOERT_RETURN_IF_ERROR(device_.CheckAlive());
  {
    ContextScope scope(device_);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    MOERT_RETURN_IF_ERROR(
        device_.Check(device_.driver().event_synchronize(handle_), "waiting for an event"));
  }
  return StreamStatus();
}

}  // namespace moert
