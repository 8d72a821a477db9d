// SPDX-License-Identifier: Apache-2.0
// The part of the CUDA driver that a host of the library uses beside it, for tests on a GPU.
#ifndef MOERT_TESTS_GPU_CUDA_API_H_
#define MOERT_TESTS_GPU_CUDA_API_H_

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <functional>
#include <type_traits>

namespace moert::test {

#define MOERT_TEST_CUDA(X)                                                           \
  X(get_device, "cuDeviceGet", (int*, int))                                          \
  X(retain, "cuDevicePrimaryCtxRetain", (void**, int))                               \
  X(release, "cuDevicePrimaryCtxRelease_v2", (int))                                  \
  X(context_create, "cuCtxCreate_v2", (void**, unsigned, int))                       \
  X(context_destroy, "cuCtxDestroy_v2", (void*))                                     \
  X(push, "cuCtxPushCurrent_v2", (void*))                                            \
  X(pop, "cuCtxPopCurrent_v2", (void**))                                             \
  X(current, "cuCtxGetCurrent", (void**))                                            \
  X(stream_create, "cuStreamCreate", (void**, unsigned))                             \
  X(stream_destroy, "cuStreamDestroy_v2", (void*))                                   \
  X(stream_synchronize, "cuStreamSynchronize", (void*))                              \
  X(begin_capture, "cuStreamBeginCapture_v2", (void*, int))                          \
  X(end_capture, "cuStreamEndCapture", (void*, void**))                              \
  X(instantiate, "cuGraphInstantiateWithFlags", (void**, void*, unsigned long long)) \
  X(graph_destroy, "cuGraphDestroy", (void*))                                        \
  X(exec_destroy, "cuGraphExecDestroy", (void*))                                     \
  X(graph_launch, "cuGraphLaunch", (void*, void*))                                   \
  X(event_create, "cuEventCreate", (void**, unsigned))                               \
  X(event_destroy, "cuEventDestroy_v2", (void*))                                     \
  X(event_record, "cuEventRecord", (void*, void*))                                   \
  X(event_wait, "cuEventSynchronize", (void*))                                       \
  X(elapsed, "cuEventElapsedTime", (float*, void*, void*))

struct CudaApi {
  CudaApi() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    REQUIRE(library != nullptr);
    const auto find = [&](auto& member, const char* symbol) {
      void* found = dlsym(library, symbol);
      INFO(symbol);
      REQUIRE(found != nullptr);
      member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(found);
    };
#define MOERT_TEST_FIND(member, symbol, parameters) find(member, symbol);
    MOERT_TEST_CUDA(MOERT_TEST_FIND)
#undef MOERT_TEST_FIND
    REQUIRE(get_device(&device, 0) == 0);
  }
#define MOERT_TEST_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  MOERT_TEST_CUDA(MOERT_TEST_MEMBER)
#undef MOERT_TEST_MEMBER
  int device = 0;
};

inline CudaApi& Cuda() {
  static CudaApi api;
  return api;
}

// The primary context, current while it lives.
class PrimaryContext {
 public:
  PrimaryContext() {
    REQUIRE(Cuda().retain(&context_, Cuda().device) == 0);
    REQUIRE(Cuda().push(context_) == 0);
  }
  ~PrimaryContext() {
    void* popped;
    Cuda().pop(&popped);
    Cuda().release(Cuda().device);
  }
  void* get() const { return context_; }

 private:
  void* context_ = nullptr;
};

// A graph of what `enqueue` puts on a stream.
class Graph {
 public:
  Graph(void* stream, int mode, const std::function<void()>& enqueue) {
    REQUIRE(Cuda().begin_capture(stream, mode) == 0);
    enqueue();
    void* graph = nullptr;
    REQUIRE(Cuda().end_capture(stream, &graph) == 0);
    REQUIRE(Cuda().instantiate(&exec_, graph, 0) == 0);
    Cuda().graph_destroy(graph);
  }
  ~Graph() {
    if (exec_ != nullptr) Cuda().exec_destroy(exec_);
  }
  Graph(const Graph&) = delete;
  void Launch(void* stream) const { REQUIRE(Cuda().graph_launch(exec_, stream) == 0); }

 private:
  void* exec_ = nullptr;
};

}  // namespace moert::test

#endif  // MOERT_TESTS_GPU_CUDA_API_H_
