// SPDX-License-Identifier: Apache-2.0
// The CUDA driver as a GpuDriver. Entry points come from cuGetProcAddress with the version whose
// signature gpu_driver.h has; a CUDA toolkit is not needed to build this.
#include <string>

#include "backend/gpu/gpu_driver.h"
#include "core/dynamic_library.h"

namespace moert {
namespace {

#if defined(_WIN32)
constexpr const char* kLibraries[] = {"nvcuda.dll"};
#else
constexpr const char* kLibraries[] = {"libcuda.so.1"};
#endif

// X(member, symbol, version, required). Optional members stay null where the driver lacks them.
#define MOERT_CUDA_ENTRY_POINTS(X)                                           \
  X(init, "cuInit", 2000, true)                                              \
  X(driver_get_version, "cuDriverGetVersion", 2020, true)                    \
  X(device_get_count, "cuDeviceGetCount", 2000, true)                        \
  X(device_get, "cuDeviceGet", 2000, true)                                   \
  X(device_get_name, "cuDeviceGetName", 2000, true)                          \
  X(device_total_memory, "cuDeviceTotalMem", 3020, true)                     \
  X(device_get_attribute, "cuDeviceGetAttribute", 2000, true)                \
  X(primary_context_retain, "cuDevicePrimaryCtxRetain", 7000, true)          \
  X(primary_context_release, "cuDevicePrimaryCtxRelease", 11000, true)       \
  X(context_push, "cuCtxPushCurrent", 4000, true)                            \
  X(context_pop, "cuCtxPopCurrent", 4000, true)                              \
  X(memory_allocate, "cuMemAlloc", 3020, true)                               \
  X(memory_free, "cuMemFree", 3020, true)                                    \
  X(host_allocate, "cuMemHostAlloc", 2020, true)                             \
  X(host_free, "cuMemFreeHost", 2000, true)                                  \
  X(copy_async, "cuMemcpyAsync", 4000, true)                                 \
  X(fill32_async, "cuMemsetD32Async", 3020, true)                            \
  X(pointer_get_attributes, "cuPointerGetAttributes", 7000, true)            \
  X(stream_create, "cuStreamCreate", 2000, true)                             \
  X(stream_destroy, "cuStreamDestroy", 4000, true)                           \
  X(stream_synchronize, "cuStreamSynchronize", 2000, true)                   \
  X(stream_wait_event, "cuStreamWaitEvent", 3020, true)                      \
  X(stream_get_context, "cuStreamGetCtx", 9020, true)                        \
  X(stream_is_capturing, "cuStreamIsCapturing", 10000, true)                 \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, true) \
  X(event_create, "cuEventCreate", 2000, true)                               \
  X(event_destroy, "cuEventDestroy", 4000, true)                             \
  X(event_record, "cuEventRecord", 2000, true)                               \
  X(event_query, "cuEventQuery", 2000, true)                                 \
  X(event_synchronize, "cuEventSynchronize", 2000, true)                     \
  X(module_load, "cuModuleLoadDataEx", 2010, true)                           \
  X(module_unload, "cuModuleUnload", 2000, true)                             \
  X(module_get_function, "cuModuleGetFunction", 2000, true)                  \
  X(function_load, "cuFuncLoad", 12040, false)                               \
  X(function_get_attribute, "cuFuncGetAttribute", 2020, true)                \
  X(function_set_attribute, "cuFuncSetAttribute", 9000, true)                \
  X(launch, "cuLaunchKernel", 4000, true)                                    \
  X(launch_extended, "cuLaunchKernelEx", 11060, false)                       \
  X(get_error_name, "cuGetErrorName", 6000, true)                            \
  X(get_error_string, "cuGetErrorString", 6000, true)

GpuError Classify(int code) {
  switch (code) {
    case 2:  // OUT_OF_MEMORY
      return GpuError::kOutOfMemory;
    case 4:  // DEINITIALIZED
      return GpuError::kShuttingDown;
    case 46:   // DEVICE_UNAVAILABLE
    case 100:  // NO_DEVICE
    case 101:  // INVALID_DEVICE
      return GpuError::kNoDevice;
    case 200:  // INVALID_IMAGE
    case 300:  // INVALID_SOURCE
      return GpuError::kBadImage;
    case 209:  // NO_BINARY_FOR_GPU
      return GpuError::kNoBinary;
    case 218:  // INVALID_PTX
    case 221:  // JIT_COMPILER_NOT_FOUND
    case 222:  // UNSUPPORTED_PTX_VERSION
    case 223:  // JIT_COMPILATION_DISABLED
      return GpuError::kNotCompilable;
    case 600:  // NOT_READY
      return GpuError::kNotReady;
    case 214:  // ECC_UNCORRECTABLE
    case 220:  // NVLINK_UNCORRECTABLE
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
    case 721:  // TENSOR_MEMORY_LEAK, and other states that a context does not leave
      return GpuError::kLost;
    case 906:  // STREAM_CAPTURE_IMPLICIT
      return GpuError::kImplicitCapture;
    default:
      return GpuError::kOther;
  }
}

using GetProcAddress = int (*)(const char* symbol, void** out, int version, uint64_t flags,
                               int* status);

// Finds one entry point; null when the driver lacks it at that version.
void* Find(GetProcAddress get, const char* symbol, int version) {
  void* found = nullptr;
  int status = 0;
  return get(symbol, &found, version, 0, &status) == 0 ? found : nullptr;
}

Status FillTable(const char* path, GetProcAddress get, GpuDriver* out) {
  std::string missing;
  const auto fill = [&](auto& member, const char* symbol, int version, bool required) {
    void* found = Find(get, symbol, version);
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(found);
    if (found == nullptr && required) missing.append(missing.empty() ? "" : ", ").append(symbol);
  };
#define MOERT_FILL(member, symbol, version, required) fill(out->member, symbol, version, required);
  MOERT_CUDA_ENTRY_POINTS(MOERT_FILL)
#undef MOERT_FILL
  if (out->driver_get_version != nullptr) out->driver_get_version(&out->version);
  if (missing.empty()) return Status();
  return Unavailable("the CUDA driver %s (CUDA %d.%d) lacks %s; CUDA 11.3 or newer is needed", path,
                     out->version / 1000, out->version % 1000 / 10, missing.c_str());
}

}  // namespace

Status LoadCudaDriver(const char* library, GpuDriver* out) {
  std::string tried;
  void* handle = nullptr;
  const char* path = library;
  if (library != nullptr) {
    handle = OpenLibrary(library, &tried);
  } else {
    for (const char* name : kLibraries) {
      path = name;
      handle = OpenLibrary(name, &tried);
      if (handle != nullptr) break;
    }
  }
  if (handle == nullptr) return Unavailable("no CUDA driver: %s", tried.c_str());
  // The older name lacks the last parameter, which a callee that does not know it ignores.
  void* get = FindSymbol(handle, "cuGetProcAddress_v2");
  if (get == nullptr) get = FindSymbol(handle, "cuGetProcAddress");
  if (get == nullptr) {
    return Unavailable("the CUDA driver %s has no cuGetProcAddress; CUDA 11.3 or newer is needed",
                       path);
  }
  GpuDriver driver;
  driver.vendor = "CUDA";
  driver.id = "cuda";
  driver.kernel_file = "moert.fatbin";
  driver.kind = MOERT_DEVICE_KIND_CUDA;
  driver.overlap_version = 12040;
  driver.classify = Classify;
  MOERT_RETURN_IF_ERROR(FillTable(path, reinterpret_cast<GetProcAddress>(get), &driver));
  *out = driver;
  return Status();
}

}  // namespace moert
