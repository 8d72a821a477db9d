// SPDX-License-Identifier: Apache-2.0
// The file of kernels that a device loads: where it is looked for, and what its last line says.
//
// A kernel file is what the vendor's compiler writes, followed by one line of text that drivers do
// not read: "\nmoert-kernels abi=1 toolkit=13.0 targets=sm_80,sm_90a,compute_80\n".
#ifndef MOERT_BACKEND_GPU_KERNEL_FILE_H_
#define MOERT_BACKEND_GPU_KERNEL_FILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "backend/gpu/gpu_driver.h"

namespace moert {

struct KernelFile {
  std::string origin;       // its path, or "kernel_data"
  std::vector<char> bytes;  // with a NUL behind them
  std::string toolkit;      // "13.0"
  std::string targets;      // "sm_80,sm_90a,compute_80"
};

// Finds and reads the file as `options` say, or names every place that was tried. Checks the
// kernel-ABI number.
Status FindKernelFile(const GpuDriver& driver, const DeviceOptions& options, KernelFile* out);

}  // namespace moert

#endif  // MOERT_BACKEND_GPU_KERNEL_FILE_H_
