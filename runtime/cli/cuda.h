// SPDX-License-Identifier: Apache-2.0
// What bench does with the CUDA driver beside the library, as any host could: graphs of captured
// calls, times by events, and the kernels of the kernel file that only read, copy or multiply.
#ifndef MOERT_CLI_CUDA_H_
#define MOERT_CLI_CUDA_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/status.h"

namespace moert::cli {

struct CudaTable;

// The driver with a device's primary context current in this thread while the object lives.
class Cuda {
 public:
  Cuda();
  ~Cuda();
  Cuda(const Cuda&) = delete;
  Status Open(int ordinal);

  // Captures what `enqueue` puts on `stream` into a graph that Replay runs.
  Status Capture(void* stream, const std::function<Status()>& enqueue);
  // Seconds of one replay of the captured graph.
  Status TimeReplay(void* stream, double* seconds);
  // Seconds of what `enqueue` puts on `stream`.
  Status Time(void* stream, const std::function<Status()>& enqueue, double* seconds);

  uint64_t l2_bytes() const { return l2_bytes_; }
  int multiprocessors() const { return multiprocessors_; }

  // Loads the kernel file at `path`.
  Status LoadKernels(const std::string& path);
  Status Launch(const char* kernel, int64_t blocks_x, int64_t blocks_y, unsigned threads,
                unsigned shared_bytes, void* stream, const void* args);

 private:
  Status Check(int code, const char* what) const;

  std::unique_ptr<CudaTable> table_;
  int device_ = -1;
  int multiprocessors_ = 0;
  uint64_t l2_bytes_ = 0;
  void* context_ = nullptr;
  void* module_ = nullptr;
  void* graph_ = nullptr;
  void* events_[2] = {};
};

}  // namespace moert::cli

#endif  // MOERT_CLI_CUDA_H_
