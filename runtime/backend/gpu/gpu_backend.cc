// SPDX-License-Identifier: Apache-2.0
// A kind of GPU as a backend. The driver is looked for once, on first use.
#include <mutex>
#include <string>

#include "backend/gpu/gpu_device.h"
#include "backend/registry.h"

namespace moert {
namespace {

class GpuBackend final : public Backend {
 public:
  using Load = Status (*)(const char* library, GpuDriver* out);

  GpuBackend(const BackendContext& context, const char* name, Load load, const char* library)
      : context_(context), name_(name), load_(load), library_(context.allocator) {
    if (library != nullptr) library_ = library;
  }

  const char* name() const override { return name_; }

  uint32_t NumDevices(Status* why) override {
    const std::lock_guard lock(mutex_);
    if (!looked_) {
      absence_ = Look();
      looked_ = true;
    }
    if (!absence_.ok()) {
      *why = Status::Make(absence_.code(), absence_.native_code(), "%s", absence_.message());
      return 0;
    }
    return count_;
  }

  Status DeviceInfo(uint32_t ordinal, moert_device_info* out) override {
    return ReadGpuInfo(driver_, ordinal, out);
  }

  Status OpenDevice(uint32_t ordinal, const DeviceOptions& options,
                    Owned<BackendDevice>* out) override {
    auto device = MakeOwned<GpuDevice>(*context_.allocator, context_, driver_);
    MOERT_RETURN_IF_ERROR(device->Open(ordinal, options));
    *out = std::move(device);
    return Status();
  }

 private:
  Status Look() {
    MOERT_RETURN_IF_ERROR(load_(library_.empty() ? nullptr : library_.c_str(), &driver_));
    if (const int code = driver_.init(0); code != 0) {
      const Status why = DriverStatus(driver_, code, "starting the driver");
      return Status::Make(MOERT_STATUS_UNAVAILABLE, code, "%s", why.message());
    }
    int count = 0;
    MOERT_RETURN_IF_ERROR(
        DriverStatus(driver_, driver_.device_get_count(&count), "counting devices"));
    if (count <= 0) return Unavailable("the %s driver finds no device", driver_.vendor);
    count_ = static_cast<uint32_t>(count);
    return Status();
  }

  BackendContext context_;
  const char* name_;
  Load load_;
  std::pmr::string library_;
  std::mutex mutex_;
  bool looked_ = false;
  Status absence_;
  uint32_t count_ = 0;
  GpuDriver driver_;
};

}  // namespace

Owned<Backend> MakeCudaBackend(const BackendContext& context, const char* library) {
  return MakeOwned<GpuBackend>(*context.allocator, context, "cuda", LoadCudaDriver, library);
}

}  // namespace moert
