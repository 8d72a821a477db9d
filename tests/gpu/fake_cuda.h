// SPDX-License-Identifier: Apache-2.0
// A CUDA driver for tests: a shared object that the backend opens by its path. It has as many
// devices as it is told, keeps "device" memory on the host, runs no kernel, fails where it is told
// and counts what is alive.
#ifndef MOERT_TESTS_GPU_FAKE_CUDA_H_
#define MOERT_TESTS_GPU_FAKE_CUDA_H_

#include <cstdint>

// What to do, and what happened. Shared by the driver and the test; see FakeCudaState().
struct FakeCuda {
  int devices = 1;
  int init_code = 0;
  int version = 13000;
  int major = 9, minor = 0;
  const char* missing = nullptr;  // an entry point that the driver lacks
  int fail_allocation = 0;        // the n-th allocation from now on runs out of memory; 0: none
  int fail_create = 0;            // the n-th creation of a stream or event fails; 0: none
  int module_code = 0;
  const char* module_log = nullptr;
  const char* missing_kernel = nullptr;
  int launch_code = 0;
  int synchronize_code = 0;
  bool capturing = false;
  bool foreign_stream = false;  // streams belong to another context

  int64_t memory = 0, host_memory = 0, streams = 0, events = 0, modules = 0, contexts = 0;
  int64_t pushed = 0;        // contexts current in this process
  int64_t strict_calls = 0;  // calls that a capture forbids, made in another mode than relaxed
  int64_t launches = 0;
};

extern "C" FakeCuda* FakeCudaState();

#endif  // MOERT_TESTS_GPU_FAKE_CUDA_H_
