// SPDX-License-Identifier: Apache-2.0
// One GPU: its primary context, kernels, memory and streams.
//
// Every use of the driver stands in a ContextScope, which makes the device's context current and
// gives the caller's back. Calls that a stream capture forbids also set the thread's capture mode
// to relaxed, so that a host may capture on one stream while another thread creates or destroys
// objects.
#ifndef MOERT_BACKEND_GPU_GPU_DEVICE_H_
#define MOERT_BACKEND_GPU_GPU_DEVICE_H_

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/gpu_driver.h"
#include "backend/gpu/kernel_file.h"
#include "backend/gpu/kernel_list.h"
#include "kernels/args.h"

namespace moert {

class GpuDevice;
class GpuStream;
class StagingBuffers;

// The status for a driver's code; OK for 0. `what` names the call that failed.
Status DriverStatus(const GpuDriver& driver, int code, const char* what);

enum class CaptureMode { kAsIs, kRelaxed };

class ContextScope {
 public:
  ContextScope(const GpuDriver& driver, GpuContext context, CaptureMode mode);
  explicit ContextScope(const GpuDevice& device, CaptureMode mode = CaptureMode::kRelaxed);
  ~ContextScope();
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;
  // Why the context could not be made current; call it once.
  Status TakeStatus() { return std::move(status_); }

 private:
  const GpuDriver& driver_;
  bool pushed_ = false;
  int mode_ = -1;  // what to restore
  Status status_;
};

// Device memory, owned. Move-only.
class GpuMemory {
 public:
  GpuMemory() = default;
  GpuMemory(GpuMemory&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  GpuMemory& operator=(GpuMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~GpuMemory();
  static Status Allocate(const GpuDevice& device, uint64_t bytes, GpuMemory* out);

  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  const GpuDevice* device_ = nullptr;
  void* data_ = nullptr;
  uint64_t bytes_ = 0;
};

struct LaunchShape {
  int64_t grid_x = 1;
  int64_t grid_y = 1;
  uint32_t block_x = 256;
  uint32_t block_y = 1;
  uint32_t shared_bytes = 0;
};

class GpuDevice final : public BackendDevice {
 public:
  GpuDevice(const BackendContext& context, const GpuDriver& driver);
  ~GpuDevice() override;
  Status Open(uint32_t ordinal, const DeviceOptions& options);

  const moert_device_info& info() const override { return info_; }
  Status Allocate(uint64_t bytes, void** out) const override;
  void Free(void* memory) const override;
  Status AllocateHost(uint64_t bytes, void** out) const override;
  void FreeHost(void* memory) const override;
  Status CreateStream(uint32_t flags, Owned<BackendStream>* out) override;
  Status ImportStream(void* native, Owned<BackendStream>* out) override;
  Status CreateEvent(Owned<BackendEvent>* out) override;
  Status PrepareRouter(const RouterSpec& spec, const RouterWeights& weights, WeightSource source,
                       Owned<PreparedRouter>* out) override;
  Status PrepareExperts(const LayerSpec& spec, const LayerWeights& weights, WeightSource source,
                        Owned<PreparedExperts>* out) override;
  Status PrepareGate(const GateSpec& spec, Owned<PreparedGate>* out) override;
  Status PrepareLayer(const LayerSpec& spec, const LayerWeights& weights, WeightSource source,
                      Owned<PreparedLayer>* out) override;

  Allocator& allocator() const { return *context_.allocator; }
  const BackendContext& context() const { return context_; }
  const GpuDriver& driver() const { return driver_; }
  GpuContext gpu_context() const { return gpu_context_; }
  int64_t num_multiprocessors() const { return info_.concurrency; }
  // Dynamic shared memory that a block of this kernel may have.
  uint32_t SharedBytes(Kernel kernel) const { return shared_bytes_[static_cast<size_t>(kernel)]; }

  // Turns a driver's code into a status and remembers a lost device.
  Status Check(int code, const char* what) const;
  // DEVICE_LOST once the device has been found lost.
  Status CheckAlive() const;

  // Enqueues a kernel; the context must be current. `args` is its argument struct.
  Status Launch(Kernel kernel, GpuStreamHandle stream, const LaunchShape& shape,
                const void* args) const;

  // The sticky status words of streams lie in pinned memory that lives as long as the device. One
  // that a captured graph may still write is not handed out again.
  Status TakeStatusWord(moert_stream_status** out);
  void ReturnStatusWord(moert_stream_status* word, bool reusable);

  // The buffers that weights pass through; new ones while others use the device's.
  Owned<StagingBuffers> TakeStaging() const;
  void ReturnStaging(Owned<StagingBuffers> staging) const;

  // Streams alive, so that a prepared object can wait for its uses.
  void AddStream(GpuStream* stream);
  void RemoveStream(GpuStream* stream);
  // Waits for the streams whose bit is set in `mask`.
  void WaitForStreams(uint64_t mask) const;

 private:
  static constexpr uint64_t kStatusBytes = 4096;

  Status ReadInfo(uint32_t ordinal);
  Status LoadKernels(const DeviceOptions& options);
  Status LoadModule(const KernelFile& file);
  Status FindKernels(const KernelFile& file);

  BackendContext context_;
  GpuDriver driver_;
  moert_device_info info_ = MOERT_DEVICE_INFO_INIT;
  int device_ = -1;
  int shared_opt_in_ = 0;
  bool overlaps_ = false;  // launches may begin before the one in front of them has ended
  GpuContext gpu_context_ = nullptr;
  GpuModule module_ = nullptr;
  GpuFunction functions_[kNumKernels] = {};
  uint32_t shared_bytes_[kNumKernels] = {};
  mutable std::atomic<bool> lost_{false};
  mutable std::mutex mutex_;  // guards what follows
  mutable Owned<StagingBuffers> staging_;
  std::pmr::vector<GpuStream*> streams_;
  std::pmr::vector<void*> status_blocks_;
  std::pmr::vector<moert_stream_status*> free_words_;
};

// Counts the streams that use a prepared object; its destructor waits for them.
class StreamUses {
 public:
  explicit StreamUses(const GpuDevice& device) : device_(device) {}
  ~StreamUses() { device_.WaitForStreams(mask_.load(std::memory_order_acquire)); }
  void Add(const GpuStream& stream);

 private:
  const GpuDevice& device_;
  std::atomic<uint64_t> mask_{0};
};

// Facts of a device without opening it.
Status ReadGpuInfo(const GpuDriver& driver, uint32_t ordinal, moert_device_info* out);

// The parts of a device, in files of their own.
Status PrepareGpuRouter(const GpuDevice& device, const RouterSpec& spec,
                        const RouterWeights& weights, WeightSource source,
                        Owned<PreparedRouter>* out);
Status PrepareGpuExperts(const GpuDevice& device, const LayerSpec& spec,
                         const LayerWeights& weights, WeightSource source,
                         Owned<PreparedExperts>* out);
Status PrepareGpuLayer(const GpuDevice& device, const LayerSpec& spec, const LayerWeights& weights,
                       WeightSource source, Owned<PreparedLayer>* out);
Status PrepareGpuGate(const GpuDevice& device, const GateSpec& spec, Owned<PreparedGate>* out);

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_DEVICE_H_
