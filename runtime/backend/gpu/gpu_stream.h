// SPDX-License-Identifier: Apache-2.0
// Streams and events of a GPU.
#ifndef MOERT_BACKEND_GPU_GPU_STREAM_H_
#define MOERT_BACKEND_GPU_GPU_STREAM_H_

#include <atomic>

#include "backend/gpu/gpu_device.h"

namespace moert {

class GpuStream final : public BackendStream {
 public:
  explicit GpuStream(GpuDevice& device) : device_(device) {}
  ~GpuStream() override;
  Status Create();
  Status Import(GpuStreamHandle native);

  Status Copy(void* destination, const void* source, uint64_t bytes) override;
  Status WaitEvent(const BackendEvent& event) override;
  Status Synchronize() override;
  Status Check() override;
  Status Reserve(uint64_t bytes) override;
  Status Scratch(Workspace* out) override;
  void* native() const override { return handle_; }

  GpuDevice& device() const { return device_; }
  GpuStreamHandle handle() const { return handle_; }
  moert_stream_status* status_word() const { return status_; }
  // A bit that this stream shares with few others.
  uint64_t use_bit() const { return use_bit_; }
  void WaitUnlessCapturing() const;
  // To be called in the scope of each enqueued call: remembers that a capture may hold the status.
  Status BeginCall();

 private:
  Status TakeStatusWord();
  bool IsCapturing() const;

  GpuDevice& device_;
  GpuStreamHandle handle_ = nullptr;
  bool owned_ = false;
  bool listed_ = false;
  std::atomic<bool> captured_{false};
  uint64_t use_bit_ = 0;
  moert_stream_status* status_ = nullptr;
  GpuMemory scratch_;
};

class GpuEvent final : public BackendEvent {
 public:
  explicit GpuEvent(GpuDevice& device) : device_(device) {}
  ~GpuEvent() override;
  Status Create();
  Status Record(BackendStream& stream) override;
  Status Query() const override;
  Status Wait() const override;
  GpuEventHandle handle() const { return handle_; }

 private:
  Status StreamStatus() const;

  GpuDevice& device_;
  GpuEventHandle handle_ = nullptr;
  const moert_stream_status* status_ = nullptr;  // of the stream it was recorded on
};

// The failure that a status word reports; OK when none is raised.
Status ReadStatusWord(const moert_stream_status& word);

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_STREAM_H_
