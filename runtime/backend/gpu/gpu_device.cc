// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu/gpu_device.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "backend/gpu/gpu_stream.h"
#include "backend/gpu/weight_loader.h"

namespace moert {
namespace {

constexpr const char* kKernelNames[] = {
#define MOERT_KERNEL_NAME(name) "moert_" #name,
    MOERT_KERNELS(MOERT_KERNEL_NAME)
#undef MOERT_KERNEL_NAME
};

const char* ErrorName(const GpuDriver& driver, int code) {
  const char* name = nullptr;
  if (driver.get_error_name(code, &name) != 0 || name == nullptr) return "unknown error";
  return name;
}

const char* ErrorText(const GpuDriver& driver, int code) {
  const char* text = nullptr;
  if (driver.get_error_string(code, &text) != 0 || text == nullptr) return "no description";
  return text;
}

moert_status CodeOf(GpuError error) {
  switch (error) {
    case GpuError::kNotReady:
      return MOERT_STATUS_NOT_READY;
    case GpuError::kOutOfMemory:
      return MOERT_STATUS_OUT_OF_MEMORY;
    case GpuError::kLost:
      return MOERT_STATUS_DEVICE_LOST;
    case GpuError::kNoDevice:
    case GpuError::kBadImage:
    case GpuError::kNoBinary:
    case GpuError::kNotCompilable:
      return MOERT_STATUS_UNAVAILABLE;
    default:
      return MOERT_STATUS_DEVICE_ERROR;
  }
}

}  // namespace

Status DriverStatus(const GpuDriver& driver, int code, const char* what) {
  if (code == 0) return Status();
  return Status::Make(CodeOf(driver.classify(code)), code, "%s: %s (%s %d): %s", what,
                      ErrorName(driver, code), driver.vendor, code, ErrorText(driver, code));
}

int PointerMemoryType(const GpuDriver& driver, const void* pointer) {
  int type = 0;
  int attribute = gpu::kPointerMemoryType;
  void* value = &type;
  const auto address = reinterpret_cast<GpuPointer>(pointer);
  return driver.pointer_get_attributes(1, &attribute, &value, address) == 0 ? type : 0;
}

ContextScope::ContextScope(const GpuDriver& driver, GpuContext context, CaptureMode mode)
    : driver_(driver) {
  status_ = DriverStatus(driver, driver.context_push(context), "making the context current");
  pushed_ = status_.ok();
  if (!pushed_ || mode == CaptureMode::kAsIs) return;
  int exchanged = gpu::kCaptureModeRelaxed;
  if (driver.exchange_capture_mode(&exchanged) == 0) mode_ = exchanged;
}

ContextScope::ContextScope(const GpuDevice& device, CaptureMode mode)
    : ContextScope(device.driver(), device.gpu_context(), mode) {}

ContextScope::~ContextScope() {
  if (mode_ >= 0) driver_.exchange_capture_mode(&mode_);
  GpuContext popped;
  if (pushed_) driver_.context_pop(&popped);
}

GpuMemory::~GpuMemory() {
  if (data_ != nullptr) device_->Free(data_);
}

Status GpuMemory::Allocate(const GpuDevice& device, uint64_t bytes, GpuMemory* out) {
  *out = GpuMemory();
  if (bytes == 0) return Status();
  MOERT_RETURN_IF_ERROR(device.Allocate(bytes, &out->data_));
  out->device_ = &device;
  out->bytes_ = bytes;
  return Status();
}

GpuDevice::GpuDevice(const BackendContext& context, const GpuDriver& driver)
    : context_(context),
      driver_(driver),
      streams_(context.allocator),
      status_blocks_(context.allocator),
      free_words_(context.allocator) {}

GpuDevice::~GpuDevice() {
  if (gpu_context_ == nullptr) return;
  staging_ = nullptr;
  {
    ContextScope scope(*this);
    for (void* block : status_blocks_) driver_.host_free(block);
    if (module_ != nullptr) driver_.module_unload(module_);
  }
  driver_.primary_context_release(device_);
}

Status ReadGpuInfo(const GpuDriver& driver, uint32_t ordinal, moert_device_info* out) {
  const auto check = [&](int code) { return DriverStatus(driver, code, "reading device facts"); };
  moert_device_info info = MOERT_DEVICE_INFO_INIT;
  int device, major, minor, multiprocessors;
  size_t bytes;
  MOERT_RETURN_IF_ERROR(check(driver.device_get(&device, static_cast<int>(ordinal))));
  MOERT_RETURN_IF_ERROR(check(driver.device_get_name(info.name, sizeof(info.name), device)));
  MOERT_RETURN_IF_ERROR(check(driver.device_total_memory(&bytes, device)));
  MOERT_RETURN_IF_ERROR(check(driver.device_get_attribute(&major, gpu::kAttributeMajor, device)));
  MOERT_RETURN_IF_ERROR(check(driver.device_get_attribute(&minor, gpu::kAttributeMinor, device)));
  MOERT_RETURN_IF_ERROR(
      check(driver.device_get_attribute(&multiprocessors, gpu::kAttributeMultiprocessors, device)));
  info.kind = driver.kind;
  info.ordinal = static_cast<int32_t>(ordinal);
  info.concurrency = static_cast<uint32_t>(multiprocessors);
  info.memory_bytes = bytes;
  info.max_experts = info.max_top_k = MOERT_KERNEL_MAX_EXPERTS;
  std::snprintf(info.id, sizeof(info.id), "%s:%u", driver.id, ordinal);
  std::snprintf(info.arch, sizeof(info.arch), "sm_%d", 10 * major + minor);
  *out = info;
  return Status();
}

Status GpuDevice::Open(uint32_t ordinal, const DeviceOptions& options) {
  MOERT_RETURN_IF_ERROR(ReadGpuInfo(driver_, ordinal, &info_));
  MOERT_RETURN_IF_ERROR(Check(driver_.device_get(&device_, static_cast<int>(ordinal)), "opening"));
  MOERT_RETURN_IF_ERROR(
      Check(driver_.device_get_attribute(&shared_opt_in_, gpu::kAttributeSharedBytesOptIn, device_),
            "reading device facts"));
  GpuContext context = nullptr;
  MOERT_RETURN_IF_ERROR(
      Check(driver_.primary_context_retain(&context, device_), "retaining the primary context"));
  gpu_context_ = context;
  int major = 0;
  MOERT_RETURN_IF_ERROR(Check(driver_.device_get_attribute(&major, gpu::kAttributeMajor, device_),
                              "reading device facts"));
  overlaps_ = driver_.launch_extended != nullptr && driver_.overlap_version != 0 &&
              driver_.version >= driver_.overlap_version && major >= 9;
  return LoadKernels(options);
}

Status GpuDevice::LoadKernels(const DeviceOptions& options) {
  KernelFile file;
  MOERT_RETURN_IF_ERROR(FindKernelFile(driver_, options, &file));
  ContextScope scope(*this);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  MOERT_RETURN_IF_ERROR(LoadModule(file));
  return FindKernels(file);
}

Status GpuDevice::LoadModule(const KernelFile& file) {
  char log[2048] = "";
  int keys[] = {gpu::kJitErrorLog, gpu::kJitErrorLogBytes};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log))};
  const int code = driver_.module_load(&module_, file.bytes.data(), 2, keys, values);
  if (code == 0) return Status();
  module_ = nullptr;
  const Status why = DriverStatus(driver_, code, "loading");
  switch (driver_.classify(code)) {
    case GpuError::kBadImage:
    case GpuError::kNoBinary:
    case GpuError::kNotCompilable:
      return Status::Make(
          MOERT_STATUS_UNAVAILABLE, code,
          "%s has no kernels for this device: it is %s under %s driver %d.%d, the file holds %s "
          "built with %s %s; %s%s%s",
          file.origin.c_str(), info_.arch, driver_.vendor, driver_.version / 1000,
          driver_.version % 1000 / 10, file.targets.c_str(), driver_.vendor, file.toolkit.c_str(),
          why.message(), log[0] != '\0' ? "; " : "", log);
    default:
      return Status::Make(why.code(), code, "kernel file %s: %s", file.origin.c_str(),
                          why.message());
  }
}

Status GpuDevice::FindKernels(const KernelFile& file) {
  for (int32_t i = 0; i < kNumKernels; ++i) {
    GpuFunction& function = functions_[i];
    if (const int code = driver_.module_get_function(&function, module_, kKernelNames[i]);
        code != 0) {
      return Status::Make(MOERT_STATUS_UNAVAILABLE, code, "%s lacks the kernel %s: %s",
                          file.origin.c_str(), kKernelNames[i], ErrorName(driver_, code));
    }
    // Loads it now rather than at the first launch, which may stand in a capture.
    if (driver_.function_load != nullptr) {
      MOERT_RETURN_IF_ERROR(Check(driver_.function_load(function), kKernelNames[i]));
    }
    int fixed = 0;
    MOERT_RETURN_IF_ERROR(
        Check(driver_.function_get_attribute(&fixed, gpu::kFunctionSharedBytes, function),
              kKernelNames[i]));
    const int dynamic = std::max(shared_opt_in_ - fixed, 0);
    MOERT_RETURN_IF_ERROR(
        Check(driver_.function_set_attribute(function, gpu::kFunctionMaxDynamicShared, dynamic),
              kKernelNames[i]));
    shared_bytes_[i] = static_cast<uint32_t>(dynamic);
  }
  return Status();
}

Status GpuDevice::Check(int code, const char* what) const {
  if (code == 0) return Status();
  if (driver_.classify(code) == GpuError::kLost) lost_.store(true, std::memory_order_relaxed);
  return DriverStatus(driver_, code, what);
}

Status GpuDevice::CheckAlive() const {
  if (!lost_.load(std::memory_order_relaxed)) return Status();
  return Status::Make(MOERT_STATUS_DEVICE_LOST, 0,
                      "%s was lost; create the device anew in a new "
                      "process or context",
                      info_.id);
}

Status GpuDevice::Allocate(uint64_t bytes, void** out) const {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  ContextScope scope(*this);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  GpuPointer memory = 0;
  const int code = driver_.memory_allocate(&memory, bytes);
  if (code != 0 && driver_.classify(code) == GpuError::kOutOfMemory) {
    return Status::Make(MOERT_STATUS_OUT_OF_MEMORY, code, "no %" PRIu64 " bytes of memory on %s",
                        bytes, info_.id);
  }
  MOERT_RETURN_IF_ERROR(Check(code, "allocating device memory"));
  *out = reinterpret_cast<void*>(memory);
  return Status();
}

void GpuDevice::Free(void* memory) const {
  if (memory == nullptr) return;
  ContextScope scope(*this);
  driver_.memory_free(reinterpret_cast<GpuPointer>(memory));
}

Status GpuDevice::AllocateHost(uint64_t bytes, void** out) const {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  ContextScope scope(*this);
  MOERT_RETURN_IF_ERROR(scope.TakeStatus());
  void* memory = nullptr;
  const int code = driver_.host_allocate(&memory, bytes, gpu::kHostPortable);
  if (code != 0 && driver_.classify(code) == GpuError::kOutOfMemory) {
    return Status::Make(MOERT_STATUS_OUT_OF_MEMORY, code, "no %" PRIu64 " bytes of pinned memory",
                        bytes);
  }
  MOERT_RETURN_IF_ERROR(Check(code, "allocating pinned memory"));
  *out = memory;
  return Status();
}

void GpuDevice::FreeHost(void* memory) const {
  if (memory == nullptr) return;
  ContextScope scope(*this);
  driver_.host_free(memory);
}

Status GpuDevice::Launch(Kernel kernel, GpuStreamHandle stream, const LaunchShape& shape,
                         const void* args) const {
  if (shape.grid_x == 0 || shape.grid_y == 0) return Status();
  void* parameters[] = {const_cast<void*>(args)};
  const size_t index = static_cast<size_t>(kernel);
  if (!overlaps_) {
    return Check(driver_.launch(functions_[index], static_cast<unsigned>(shape.grid_x),
                                static_cast<unsigned>(shape.grid_y), 1, shape.block_x,
                                shape.block_y, 1, shape.shared_bytes, stream, parameters, nullptr),
                 kKernelNames[index]);
  }
  // Every kernel waits for those before it, so starting early only hides the start.
  GpuLaunchAttribute overlap = {gpu::kLaunchOverlap, 0, {1}};
  const GpuLaunch launch = {static_cast<unsigned>(shape.grid_x),
                            static_cast<unsigned>(shape.grid_y),
                            1,
                            shape.block_x,
                            shape.block_y,
                            1,
                            shape.shared_bytes,
                            stream,
                            &overlap,
                            1};
  return Check(driver_.launch_extended(&launch, functions_[index], parameters, nullptr),
               kKernelNames[index]);
}

Status GpuDevice::TakeStatusWord(moert_stream_status** out) {
  const std::lock_guard lock(mutex_);
  if (free_words_.empty()) {
    ContextScope scope(*this);
    MOERT_RETURN_IF_ERROR(scope.TakeStatus());
    constexpr uint64_t kPitch = 64;  // a line each
    status_blocks_.reserve(status_blocks_.size() + 1);
    // Room for every word there is: ReturnStatusWord must not fail.
    free_words_.reserve((status_blocks_.size() + 1) * (kStatusBytes / kPitch));
    void* block = nullptr;
    MOERT_RETURN_IF_ERROR(
        Check(driver_.host_allocate(&block, kStatusBytes, gpu::kHostPortable | gpu::kHostMapped),
              "allocating pinned memory"));
    std::memset(block, 0, kStatusBytes);
    status_blocks_.push_back(block);
    for (uint64_t at = 0; at < kStatusBytes; at += kPitch) {
      free_words_.push_back(reinterpret_cast<moert_stream_status*>(static_cast<char*>(block) + at));
    }
  }
  *out = free_words_.back();
  free_words_.pop_back();
  return Status();
}

void GpuDevice::ReturnStatusWord(moert_stream_status* word, bool reusable) {
  if (!reusable) return;
  const std::lock_guard lock(mutex_);
  std::memset(word, 0, sizeof(*word));
  free_words_.push_back(word);
}

Owned<StagingBuffers> GpuDevice::TakeStaging() const {
  {
    const std::lock_guard lock(mutex_);
    if (staging_ != nullptr) return std::move(staging_);
  }
  return MakeOwned<StagingBuffers>(allocator(), *this);
}

void GpuDevice::ReturnStaging(Owned<StagingBuffers> staging) const {
  for (int i = 0; i < 2; ++i) staging->side(i).busy = false;
  const std::lock_guard lock(mutex_);
  // The larger set stays.
  if (staging_ == nullptr || staging_->bytes() < staging->bytes()) std::swap(staging_, staging);
}

void GpuDevice::AddStream(GpuStream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

void GpuDevice::RemoveStream(GpuStream* stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(std::remove(streams_.begin(), streams_.end(), stream), streams_.end());
}

void GpuDevice::WaitForStreams(uint64_t mask) const {
  if (mask == 0) return;
  const std::lock_guard lock(mutex_);
  for (const GpuStream* stream : streams_) {
    if ((stream->use_bit() & mask) != 0) stream->WaitUnlessCapturing();
  }
}

void StreamUses::Add(const GpuStream& stream) {
  if ((mask_.load(std::memory_order_relaxed) & stream.use_bit()) != 0) return;
  mask_.fetch_or(stream.use_bit(), std::memory_order_release);
}

Status GpuDevice::CreateStream(uint32_t, Owned<BackendStream>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  auto stream = MakeOwned<GpuStream>(allocator(), *this);
  MOERT_RETURN_IF_ERROR(stream->Create());
  *out = std::move(stream);
  return Status();
}

Status GpuDevice::ImportStream(void* native, Owned<BackendStream>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  auto stream = MakeOwned<GpuStream>(allocator(), *this);
  MOERT_RETURN_IF_ERROR(stream->Import(static_cast<GpuStreamHandle>(native)));
  *out = std::move(stream);
  return Status();
}

Status GpuDevice::CreateEvent(Owned<BackendEvent>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  auto event = MakeOwned<GpuEvent>(allocator(), *this);
  MOERT_RETURN_IF_ERROR(event->Create());
  *out = std::move(event);
  return Status();
}

Status GpuDevice::PrepareRouter(const RouterSpec& spec, const RouterWeights& weights,
                                WeightSource source, Owned<PreparedRouter>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  return PrepareGpuRouter(*this, spec, weights, source, out);
}

Status GpuDevice::PrepareExperts(const LayerSpec& spec, const LayerWeights& weights,
                                 WeightSource source, Owned<PreparedExperts>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  return PrepareGpuExperts(*this, spec, weights, source, out);
}

Status GpuDevice::PrepareGate(const GateSpec& spec, Owned<PreparedGate>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  return PrepareGpuGate(*this, spec, out);
}

Status GpuDevice::PrepareLayer(const LayerSpec& spec, const LayerWeights& weights,
                               WeightSource source, Owned<PreparedLayer>* out) {
  MOERT_RETURN_IF_ERROR(CheckAlive());
  return PrepareGpuLayer(*this, spec, weights, source, out);
}

}  // namespace moert
