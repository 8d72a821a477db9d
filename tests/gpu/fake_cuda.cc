// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda.h"

#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

FakeCuda state;
thread_local int capture_mode = 0;  // global
int context_object, module_object, function_object;

constexpr int kOutOfMemory = 2, kNotFound = 500, kNoDevice = 100;

// Calls that cuStreamBeginCapture's documentation calls potentially unsafe.
void NoteUnsafe() {
  if (capture_mode != 2) ++state.strict_calls;
}

bool Countdown(int& counter) { return counter > 0 && --counter == 0; }

int Init(unsigned) { return state.init_code; }
int GetVersion(int* out) { return *out = state.version, 0; }
int GetCount(int* out) { return *out = state.devices, 0; }
int GetDevice(int* out, int ordinal) {
  if (ordinal >= state.devices) return kNoDevice;
  return *out = ordinal, 0;
}
int GetName(char* out, int length, int) { return std::strncpy(out, "Fake GPU", length), 0; }
int TotalMemory(size_t* out, int) { return *out = size_t{1} << 34, 0; }
int GetAttribute(int* out, int attribute, int) {
  *out = attribute == 75   ? state.major
         : attribute == 76 ? state.minor
         : attribute == 16 ? 4
         : attribute == 97 ? 232448
                           : 0;
  return 0;
}
int Retain(void** out, int) { return ++state.contexts, *out = &context_object, 0; }
int Release(int) { return --state.contexts, 0; }
int Push(void*) { return ++state.pushed, 0; }
int Pop(void** out) { return --state.pushed, *out = &context_object, 0; }
int Allocate(uint64_t* out, size_t bytes) {
  NoteUnsafe();
  if (Countdown(state.fail_allocation)) return kOutOfMemory;
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (block == nullptr) return kOutOfMemory;
  return ++state.memory, *out = reinterpret_cast<uint64_t>(block), 0;
}
int Free(uint64_t block) {
  NoteUnsafe();
  std::free(reinterpret_cast<void*>(block));
  return --state.memory, 0;
}
int HostAllocate(void** out, size_t bytes, unsigned) {
  NoteUnsafe();
  if (Countdown(state.fail_allocation)) return kOutOfMemory;
  *out = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return ++state.host_memory, 0;
}
int HostFree(void* block) { return std::free(block), --state.host_memory, 0; }
int CopyAsync(uint64_t to, uint64_t from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
int Fill(uint64_t to, unsigned value, size_t count, void*) {
  for (size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
  return 0;
}
// All memory is the host's, which the driver does not know.
int PointerAttributes(unsigned, int*, void** values, uint64_t) {
  return *static_cast<int*>(values[0]) = 0, 0;
}
int StreamCreate(void** out, unsigned) {
  if (Countdown(state.fail_create)) return kOutOfMemory;
  return ++state.streams, *out = &state.streams, 0;
}
int StreamDestroy(void*) { return --state.streams, 0; }
int StreamSynchronize(void*) {
  NoteUnsafe();
  return state.synchronize_code;
}
int StreamWaitEvent(void*, void*, unsigned) { return 0; }
int StreamContext(void*, void** out) {
  return *out = state.foreign_stream ? static_cast<void*>(&module_object) : &context_object, 0;
}
int IsCapturing(void*, int* out) { return *out = state.capturing ? 1 : 0, 0; }
int ExchangeMode(int* mode) {
  const int old = capture_mode;
  capture_mode = *mode;
  return *mode = old, 0;
}
int EventCreate(void** out, unsigned) {
  if (Countdown(state.fail_create)) return kOutOfMemory;
  return ++state.events, *out = &state.events, 0;
}
int EventDestroy(void*) { return --state.events, 0; }
int EventRecord(void*, void*) { return 0; }
int EventQuery(void*) {
  NoteUnsafe();
  return state.synchronize_code;
}
int ModuleLoad(void** out, const void*, unsigned count, int* options, void** values) {
  NoteUnsafe();
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5 && state.module_log != nullptr) {
      std::strcpy(static_cast<char*>(values[i]), state.module_log);
    }
  }
  if (state.module_code != 0) return state.module_code;
  return ++state.modules, *out = &module_object, 0;
}
int ModuleUnload(void*) { return --state.modules, 0; }
int GetFunction(void** out, void*, const char* name) {
  if (state.missing_kernel != nullptr && std::strcmp(name, state.missing_kernel) == 0) {
    return kNotFound;
  }
  return *out = &function_object, 0;
}
int FunctionLoad(void*) { return 0; }
int FunctionGet(int* out, int, void*) { return *out = 1024, 0; }
int FunctionSet(void*, int, int) { return 0; }
int Launch(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
           void**, void**) {
  return ++state.launches, state.launch_code;
}
int LaunchExtended(const void*, void*, void**, void**) {
  return ++state.launches, state.launch_code;
}
int ErrorName(int code, const char** out) {
  *out = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
         : code == 719 ? "CUDA_ERROR_LAUNCH_FAILED"
         : code == 209 ? "CUDA_ERROR_NO_BINARY_FOR_GPU"
                       : "CUDA_ERROR";
  return 0;
}
int ErrorString(int, const char** out) { return *out = "as the test told it to", 0; }

struct Entry {
  const char* name;
  void* function;
};
#define ENTRY(name, function) \
  { name, reinterpret_cast<void*>(&function) }
const Entry kEntries[] = {
    ENTRY("cuInit", Init),
    ENTRY("cuDriverGetVersion", GetVersion),
    ENTRY("cuDeviceGetCount", GetCount),
    ENTRY("cuDeviceGet", GetDevice),
    ENTRY("cuDeviceGetName", GetName),
    ENTRY("cuDeviceTotalMem", TotalMemory),
    ENTRY("cuDeviceGetAttribute", GetAttribute),
    ENTRY("cuDevicePrimaryCtxRetain", Retain),
    ENTRY("cuDevicePrimaryCtxRelease", Release),
    ENTRY("cuCtxPushCurrent", Push),
    ENTRY("cuCtxPopCurrent", Pop),
    ENTRY("cuMemAlloc", Allocate),
    ENTRY("cuMemFree", Free),
    ENTRY("cuMemHostAlloc", HostAllocate),
    ENTRY("cuMemFreeHost", HostFree),
    ENTRY("cuMemcpyAsync", CopyAsync),
    ENTRY("cuMemsetD32Async", Fill),
    ENTRY("cuPointerGetAttributes", PointerAttributes),
    ENTRY("cuStreamCreate", StreamCreate),
    ENTRY("cuStreamDestroy", StreamDestroy),
    ENTRY("cuStreamSynchronize", StreamSynchronize),
    ENTRY("cuStreamWaitEvent", StreamWaitEvent),
    ENTRY("cuStreamGetCtx", StreamContext),
    ENTRY("cuStreamIsCapturing", IsCapturing),
    ENTRY("cuThreadExchangeStreamCaptureMode", ExchangeMode),
    ENTRY("cuEventCreate", EventCreate),
    ENTRY("cuEventDestroy", EventDestroy),
    ENTRY("cuEventRecord", EventRecord),
    ENTRY("cuEventQuery", EventQuery),
    ENTRY("cuEventSynchronize", EventQuery),
    ENTRY("cuModuleLoadDataEx", ModuleLoad),
    ENTRY("cuModuleUnload", ModuleUnload),
    ENTRY("cuModuleGetFunction", GetFunction),
    ENTRY("cuFuncLoad", FunctionLoad),
    ENTRY("cuFuncGetAttribute", FunctionGet),
    ENTRY("cuFuncSetAttribute", FunctionSet),
    ENTRY("cuLaunchKernel", Launch),
    ENTRY("cuLaunchKernelEx", LaunchExtended),
    ENTRY("cuGetErrorName", ErrorName),
    ENTRY("cuGetErrorString", ErrorString),
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) FakeCuda* FakeCudaState() { return &state; }

__attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* name, void** out,
                                                               int version, uint64_t, int*) {
  *out = nullptr;
  if (version > state.version) return 0;
  if (state.missing != nullptr && std::strcmp(name, state.missing) == 0) return kNotFound;
  for (const Entry& entry : kEntries) {
    if (std::strcmp(entry.name, name) == 0) *out = entry.function;
  }
  return *out != nullptr ? 0 : kNotFound;
}

}  // extern "C"
