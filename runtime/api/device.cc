// SPDX-License-Identifier: Apache-2.0
#include "api/handles.h"
#include "api/shell.h"

extern "C" moert_status moert_device_create(const moert_runtime* runtime, const char* name,
                                            const moert_device_desc* desc, moert_device** out,
                                            moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("runtime", runtime));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    moert_device_desc full;
    MOERT_RETURN_IF_ERROR(moert::ReadOptionalStruct("moert_device_desc", desc, &full));
    constexpr uint32_t kFlags = MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT;
    if ((full.flags & ~kFlags) != 0 || full.reserved != 0) {
      return moert::InvalidArgument(
          "moert_device_desc.flags 0x%x (known are 0x%x) or reserved %u (must be 0)", full.flags,
          kFlags, full.reserved);
    }
    if (full.kernel_data == nullptr && full.kernel_size != 0) {
      return moert::InvalidArgument("kernel_data is NULL but kernel_size is not 0");
    }
    moert::DeviceOptions options;
    options.ignore_environment = (full.flags & MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT) != 0;
    options.kernel_path = full.kernel_path;
    options.kernel_data = full.kernel_data;
    options.kernel_size = full.kernel_size;
    options.cpu_threads = full.cpu_threads;
    auto device =
        moert::Ref<moert_device>::Adopt(moert::MakeHandle<moert_device>(runtime->allocator));
    device->runtime = moert::Ref<const moert_runtime>::Retain(runtime);
    MOERT_RETURN_IF_ERROR(
        runtime->registry.OpenDevice(name != nullptr ? name : "cpu", options, &device->backend));
    *out = device.release();
    return {};
  });
}

MOERT_DEFINE_REFERENCE_COUNT(device)

extern "C" moert_status moert_device_get_info(const moert_device* device, moert_device_info* out,
                                              moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckOutputStruct("moert_device_info", out));
    moert::WriteCallerStruct(device->backend->info(), out);
    return {};
  });
}

namespace {

using AllocateFunction = moert::Status (moert::BackendDevice::*)(uint64_t, void**) const;

moert_status Allocate(const moert_device* device, AllocateFunction allocate, uint64_t bytes,
                      void** out, moert_error* error) {
  return moert::Call(error, [&]() -> moert::Status {
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("device", device));
    MOERT_RETURN_IF_ERROR(moert::CheckNotNull("out", out));
    void* memory = nullptr;
    if (bytes != 0) MOERT_RETURN_IF_ERROR((*device->backend.*allocate)(bytes, &memory));
    *out = memory;
    return {};
  });
}

}  // namespace

extern "C" moert_status moert_device_alloc(const moert_device* device, uint64_t bytes, void** out,
                                           moert_error* error) {
  return Allocate(device, &moert::BackendDevice::Allocate, bytes, out, error);
}

extern "C" void moert_device_free(const moert_device* device, void* memory) {
  if (device != nullptr && memory != nullptr) device->backend->Free(memory);
}

extern "C" moert_status moert_host_alloc(const moert_device* device, uint64_t bytes, void** out,
                                         moert_error* error) {
  return Allocate(device, &moert::BackendDevice::AllocateHost, bytes, out, error);
}

extern "C" void moert_host_free(const moert_device* device, void* memory) {
  if (device != nullptr && memory != nullptr) device->backend->FreeHost(memory);
}
