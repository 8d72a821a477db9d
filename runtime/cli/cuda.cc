// SPDX-License-Identifier: Apache-2.0
#include "cli/cuda.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>
#include <vector>

namespace moert::cli {

// X(member, symbol, parameters)
#define MOERT_CLI_CUDA(X)                                                                        \
  X(init, "cuInit", (unsigned))                                                                  \
  X(device_get, "cuDeviceGet", (int*, int))                                                      \
  X(get_attribute, "cuDeviceGetAttribute", (int*, int, int))                                     \
  X(retain, "cuDevicePrimaryCtxRetain", (void**, int))                                           \
  X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                              \
  X(push, "cuCtxPushCurrent_v2", (void*))                                                        \
  X(pop, "cuCtxPopCurrent_v2", (void**))                                                         \
  X(begin_capture, "cuStreamBeginCapture_v2", (void*, int))                                      \
  X(end_capture, "cuStreamEndCapture", (void*, void**))                                          \
  X(instantiate, "cuGraphInstantiateWithFlags", (void**, void*, unsigned long long))             \
  X(graph_destroy, "cuGraphDestroy", (void*))                                                    \
  X(exec_destroy, "cuGraphExecDestroy", (void*))                                                 \
  X(graph_launch, "cuGraphLaunch", (void*, void*))                                               \
  X(event_create, "cuEventCreate", (void**, unsigned))                                           \
  X(event_destroy, "cuEventDestroy_v2", (void*))                                                 \
  X(event_record, "cuEventRecord", (void*, void*))                                               \
  X(event_wait, "cuEventSynchronize", (void*))                                                   \
  X(elapsed, "cuEventElapsedTime", (float*, void*, void*))                                       \
  X(module_load, "cuModuleLoadData", (void**, const void*))                                      \
  X(module_unload, "cuModuleUnload", (void*))                                                    \
  X(get_function, "cuModuleGetFunction", (void**, void*, const char*))                           \
  X(set_attribute, "cuFuncSetAttribute", (void*, int, int))                                      \
  X(launch, "cuLaunchKernel",                                                                    \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, \
     void**))                                                                                    \
  X(error_name, "cuGetErrorName", (int, const char**))

struct CudaTable {
#define MOERT_CLI_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  MOERT_CLI_CUDA(MOERT_CLI_MEMBER)
#undef MOERT_CLI_MEMBER
};

namespace {

constexpr int kMultiprocessors = 16, kL2Bytes = 38;  // device attributes
constexpr int kMaxDynamicShared = 8;                 // function attribute
constexpr int kCaptureThreadLocal = 1;

}  // namespace

Cuda::Cuda() = default;

Cuda::~Cuda() {
  if (context_ == nullptr) return;
  if (graph_ != nullptr) table_->exec_destroy(graph_);
  for (void* event : events_) {
    if (event != nullptr) table_->event_destroy(event);
  }
  if (module_ != nullptr) table_->module_unload(module_);
  void* popped;
  table_->pop(&popped);
  table_->release(device_);
}

Status Cuda::Check(int code, const char* what) const {
  if (code == 0) return Status();
  const char* name = nullptr;
  table_->error_name(code, &name);
  return Status::Format("%s: %s (CUDA %d)", what, name != nullptr ? name : "unknown error", code);
}

Status Cuda::Open(int ordinal) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status::Format("no CUDA driver: %s", dlerror());
  table_ = std::make_unique<CudaTable>();
  const char* missing = nullptr;
  const auto find = [&](auto& member, const char* symbol) {
    void* found = dlsym(library, symbol);
    if (found == nullptr) missing = symbol;
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(found);
  };
#define MOERT_CLI_FIND(member, symbol, parameters) find(table_->member, symbol);
  MOERT_CLI_CUDA(MOERT_CLI_FIND)
#undef MOERT_CLI_FIND
  if (missing != nullptr) return Status::Format("the CUDA driver lacks %s", missing);
  int l2 = 0;
  void* context = nullptr;
  MOERT_CLI_TRY(Check(table_->init(0), "cuInit"));
  MOERT_CLI_TRY(Check(table_->device_get(&device_, ordinal), "cuDeviceGet"));
  MOERT_CLI_TRY(Check(table_->get_attribute(&multiprocessors_, kMultiprocessors, device_),
                      "cuDeviceGetAttribute"));
  MOERT_CLI_TRY(Check(table_->get_attribute(&l2, kL2Bytes, device_), "cuDeviceGetAttribute"));
  l2_bytes_ = static_cast<uint64_t>(l2);
  MOERT_CLI_TRY(Check(table_->retain(&context, device_), "cuDevicePrimaryCtxRetain"));
  MOERT_CLI_TRY(Check(table_->push(context), "cuCtxPushCurrent"));
  context_ = context;
  for (void*& event : events_) {
    MOERT_CLI_TRY(Check(table_->event_create(&event, 0), "cuEventCreate"));
  }
  return Status();
}

Status Cuda::Capture(void* stream, const std::function<Status()>& enqueue) {
  if (graph_ != nullptr) table_->exec_destroy(std::exchange(graph_, nullptr));
  MOERT_CLI_TRY(Check(table_->begin_capture(stream, kCaptureThreadLocal), "cuStreamBeginCapture"));
  const Status enqueued = enqueue();
  void* captured = nullptr;
  const Status ended = Check(table_->end_capture(stream, &captured), "cuStreamEndCapture");
  MOERT_CLI_TRY(enqueued);
  MOERT_CLI_TRY(ended);
  const Status made =
      Check(table_->instantiate(&graph_, captured, 0), "cuGraphInstantiateWithFlags");
  table_->graph_destroy(captured);
  return made;
}

Status Cuda::TimeReplay(void* stream, double* seconds) {
  return Time(
      stream, [&] { return Check(table_->graph_launch(graph_, stream), "cuGraphLaunch"); },
      seconds);
}

Status Cuda::Time(void* stream, const std::function<Status()>& enqueue, double* seconds) {
  float milliseconds = 0;
  MOERT_CLI_TRY(Check(table_->event_record(events_[0], stream), "cuEventRecord"));
  MOERT_CLI_TRY(enqueue());
  MOERT_CLI_TRY(Check(table_->event_record(events_[1], stream), "cuEventRecord"));
  MOERT_CLI_TRY(Check(table_->event_wait(events_[1]), "cuEventSynchronize"));
  MOERT_CLI_TRY(
      Check(table_->elapsed(&milliseconds, events_[0], events_[1]), "cuEventElapsedTime"));
  *seconds = milliseconds * 1e-3;
  return Status();
}

Status Cuda::LoadKernels(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (bytes.empty()) return Status::Format("%s cannot be read", path.c_str());
  bytes.push_back('\0');
  return Check(table_->module_load(&module_, bytes.data()), path.c_str());
}

Status Cuda::Launch(const char* kernel, int64_t blocks_x, int64_t blocks_y, unsigned threads,
                    unsigned shared_bytes, void* stream, const void* args) {
  void* function = nullptr;
  MOERT_CLI_TRY(Check(table_->get_function(&function, module_, kernel), kernel));
  if (shared_bytes != 0) {
    MOERT_CLI_TRY(
        Check(table_->set_attribute(function, kMaxDynamicShared, static_cast<int>(shared_bytes)),
              kernel));
  }
  void* parameters[] = {const_cast<void*>(args)};
  return Check(
      table_->launch(function, static_cast<unsigned>(blocks_x), static_cast<unsigned>(blocks_y), 1,
                     threads, 1, 1, shared_bytes, stream, parameters, nullptr),
      kernel);
}

}  // namespace moert::cli
