// SPDX-License-Identifier: Apache-2.0
// Handles of the C ABI as unique pointers, and calls of it as Status.
#ifndef MOERT_CLI_HANDLES_H_
#define MOERT_CLI_HANDLES_H_

#include <memory>

#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

template <auto kRelease>
struct Releaser {
  template <class T>
  void operator()(T* handle) const {
    kRelease(handle);
  }
};
using Runtime = std::unique_ptr<moert_runtime, Releaser<moert_runtime_release>>;
using Device = std::unique_ptr<moert_device, Releaser<moert_device_release>>;
using Stream = std::unique_ptr<moert_stream, Releaser<moert_stream_release>>;
using Manifest = std::unique_ptr<moert_manifest, Releaser<moert_manifest_release>>;
using Layer = std::unique_ptr<moert_layer, Releaser<moert_layer_release>>;
using Router = std::unique_ptr<moert_router, Releaser<moert_router_release>>;
using Gate = std::unique_ptr<moert_gate, Releaser<moert_gate_release>>;

// Calls a function of the ABI whose last argument is the error.
template <class Function, class... Args>
Status Call(Function function, Args... args) {
  moert_error error = MOERT_ERROR_INIT;
  const moert_status status = function(args..., &error);
  if (status == MOERT_STATUS_OK) return Status();
  return Status::Failure(error.message[0] != '\0' ? error.message : moert_status_name(status));
}

// Calls a function that makes a handle: (args..., out, error).
template <class Pointer, class Function, class... Args>
Status Make(Pointer& out, Function function, Args... args) {
  typename Pointer::pointer raw = nullptr;
  Status status = Call(function, args..., &raw);
  out.reset(raw);
  return status;
}

// Memory of a device, freed with it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) moert_device_free(device_, data_);
  }

  // The device must outlive it.
  static Status Allocate(const moert_device* device, uint64_t bytes, DeviceMemory* out) {
    DeviceMemory memory;
    memory.device_ = device;
    MOERT_CLI_TRY(Call(moert_device_alloc, device, bytes, &memory.data_));
    *out = std::move(memory);
    return Status();
  }
  void* data() const { return data_; }

 private:
  const moert_device* device_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace moert::cli

#endif  // MOERT_CLI_HANDLES_H_
