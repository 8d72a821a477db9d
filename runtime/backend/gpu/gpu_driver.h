// SPDX-License-Identifier: Apache-2.0
// What a vendor's driver looks like to this backend: a table of entry points in neutral types,
// filled from a shared library that is never linked and never unloaded, and how its error codes are
// meant.
#ifndef MOERT_BACKEND_GPU_GPU_DRIVER_H_
#define MOERT_BACKEND_GPU_GPU_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace moert {

using GpuPointer = uint64_t;
using GpuContext = struct GpuContextTag*;
using GpuModule = struct GpuModuleTag*;
using GpuFunction = struct GpuFunctionTag*;
using GpuStreamHandle = struct GpuStreamTag*;
using GpuEventHandle = struct GpuEventTag*;

// One attribute of a launch, and a launch with attributes, as both vendors lay them out.
struct GpuLaunchAttribute {
  int id;
  int padding;
  int value[16];
};
struct GpuLaunch {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  GpuStreamHandle stream;
  GpuLaunchAttribute* attributes;
  unsigned num_attributes;
};

// X(member, parameters): every entry point returns the driver's code, 0 for success.
#define MOERT_GPU_ENTRY_POINTS(X)                                                                 \
  X(init, (unsigned flags))                                                                       \
  X(driver_get_version, (int* version))                                                           \
  X(device_get_count, (int* count))                                                               \
  X(device_get, (int* device, int ordinal))                                                       \
  X(device_get_name, (char* name, int length, int device))                                        \
  X(device_total_memory, (size_t * bytes, int device))                                            \
  X(device_get_attribute, (int* value, int attribute, int device))                                \
  X(primary_context_retain, (GpuContext * context, int device))                                   \
  X(primary_context_release, (int device))                                                        \
  X(context_push, (GpuContext context))                                                           \
  X(context_pop, (GpuContext * context))                                                          \
  X(memory_allocate, (GpuPointer * memory, size_t bytes))                                         \
  X(memory_free, (GpuPointer memory))                                                             \
  X(host_allocate, (void** memory, size_t bytes, unsigned flags))                                 \
  X(host_free, (void* memory))                                                                    \
  X(copy_async, (GpuPointer to, GpuPointer from, size_t bytes, GpuStreamHandle stream))           \
  X(fill32_async, (GpuPointer to, unsigned value, size_t count, GpuStreamHandle stream))          \
  X(pointer_get_attributes, (unsigned count, int* attributes, void** values, GpuPointer pointer)) \
  X(stream_create, (GpuStreamHandle * stream, unsigned flags))                                    \
  X(stream_destroy, (GpuStreamHandle stream))                                                     \
  X(stream_synchronize, (GpuStreamHandle stream))                                                 \
  X(stream_wait_event, (GpuStreamHandle stream, GpuEventHandle event, unsigned flags))            \
  X(stream_get_context, (GpuStreamHandle stream, GpuContext * context))                           \
  X(stream_is_capturing, (GpuStreamHandle stream, int* status))                                   \
  X(exchange_capture_mode, (int* mode))                                                           \
  X(event_create, (GpuEventHandle * event, unsigned flags))                                       \
  X(event_destroy, (GpuEventHandle event))                                                        \
  X(event_record, (GpuEventHandle event, GpuStreamHandle stream))                                 \
  X(event_query, (GpuEventHandle event))                                                          \
  X(event_synchronize, (GpuEventHandle event))                                                    \
  X(module_load,                                                                                  \
    (GpuModule * module, const void* image, unsigned num_options, int* options, void** values))   \
  X(module_unload, (GpuModule module))                                                            \
  X(module_get_function, (GpuFunction * function, GpuModule module, const char* name))            \
  X(function_load, (GpuFunction function))                                                        \
  X(function_get_attribute, (int* value, int attribute, GpuFunction function))                    \
  X(function_set_attribute, (GpuFunction function, int attribute, int value))                     \
  X(launch, (GpuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
             unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,         \
             GpuStreamHandle stream, void** parameters, void** extra))                            \
  X(launch_extended,                                                                              \
    (const GpuLaunch* launch, GpuFunction function, void** parameters, void** extra))             \
  X(get_error_name, (int code, const char** name))                                                \
  X(get_error_string, (int code, const char** text))

enum class GpuError {
  kOther,
  kNotReady,
  kOutOfMemory,
  kLost,          // the context no longer works
  kShuttingDown,  // the process is exiting
  kNoDevice,
  kBadImage,       // not a kernel file
  kNoBinary,       // a kernel file without code for this device
  kNotCompilable,  // its intermediate code does not compile here
  kImplicitCapture,
};

struct GpuDriver {
#define MOERT_GPU_MEMBER(name, parameters) int(*name) parameters = nullptr;
  MOERT_GPU_ENTRY_POINTS(MOERT_GPU_MEMBER)
#undef MOERT_GPU_MEMBER

  const char* vendor = "";       // "CUDA"
  const char* id = "";           // of devices, before the colon
  const char* kernel_file = "";  // its name
  moert_device_kind kind = MOERT_DEVICE_KIND_OTHER;
  int version = 0;  // 1000 * major + 10 * minor
  // From this version on a captured launch keeps its overlap with the one before; 0: never.
  int overlap_version = 0;
  GpuError (*classify)(int code) = nullptr;
};

// What the driver says about a pointer: gpu::kMemoryTypeDevice and others, 0 for memory it does not
// know.
int PointerMemoryType(const GpuDriver& driver, const void* pointer);

// Attributes and flags that this backend uses; the numbers are the same for CUDA and HIP or are
// translated by the vendor's table.
namespace gpu {
constexpr int kAttributeMultiprocessors = 16;
constexpr int kAttributeMajor = 75;
constexpr int kAttributeMinor = 76;
constexpr int kAttributeSharedBytesOptIn = 97;
constexpr int kFunctionSharedBytes = 1;  // static shared memory of a function
constexpr int kFunctionMaxDynamicShared = 8;
constexpr int kPointerMemoryType = 2;
constexpr int kMemoryTypeDevice = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventNoTiming = 2;
constexpr unsigned kHostPortable = 1;
constexpr unsigned kHostMapped = 2;
constexpr int kCaptureModeRelaxed = 2;
constexpr int kLaunchOverlap = 6;  // may begin before the kernel in front of it has ended
constexpr int kJitErrorLog = 5;
constexpr int kJitErrorLogBytes = 6;
}  // namespace gpu

// Loads the CUDA driver; `library` null: the system's. Fills `out` or says what was tried.
Status LoadCudaDriver(const char* library, GpuDriver* out);

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_GPU_DRIVER_H_
