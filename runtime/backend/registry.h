// SPDX-License-Identifier: Apache-2.0
// The backends of one runtime, in the order in which devices are listed.
#ifndef MOERT_BACKEND_REGISTRY_H_
#define MOERT_BACKEND_REGISTRY_H_

#include <memory_resource>
#include <string_view>
#include <vector>

#include "backend/backend.h"

namespace moert {

class Registry {
 public:
  explicit Registry(const BackendContext& context);  // registers the built-in backends

  // For tests, and for backends to come.
  void Add(Owned<Backend> backend);

  uint32_t NumDevices();
  Status DeviceInfo(uint32_t index, moert_device_info* out);
  // `id` as moert_device_create takes it, "best" included.
  Status OpenDevice(std::string_view id, const DeviceOptions& options, Owned<BackendDevice>* out);

 private:
  // The first device after the CPU that opens, else the CPU.
  Status OpenBest(const DeviceOptions& options, Owned<BackendDevice>* out);

  BackendContext context_;
  std::pmr::vector<Owned<Backend>> backends_;
};

// Makers of the built-in backends.
Owned<Backend> MakeCpuBackend(const BackendContext& context);
// `library` names the driver; null: the system's.
Owned<Backend> MakeCudaBackend(const BackendContext& context, const char* library = nullptr);

}  // namespace moert

#endif  // MOERT_BACKEND_REGISTRY_H_
