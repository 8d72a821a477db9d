// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured in this process: the ceilings that bench compares with.
#ifndef MOERT_CLI_CEILINGS_H_
#define MOERT_CLI_CEILINGS_H_

#include <cstdint>
#include <optional>

#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

// GB are 1e9 bytes.
struct Ceilings {
  double read_gbps = 0;              // reading memory, far beyond the caches
  double copy_gbps = 0;              // copying memory, bytes read plus bytes written
  double gflops = 0;                 // multiply-adds in the compute dtype; each counts twice
  std::optional<double> f32_gflops;  // CPU only: multiply-adds in float32
};

class Cuda;

// A GPU and how bench reaches it beside the library.
struct GpuPlace {
  moert_device* device = nullptr;
  moert_stream* stream = nullptr;
  Cuda* cuda = nullptr;
};

// Measures with as many threads as the device uses.
Status MeasureCpuCeilings(const moert_device_info& device, moert_dtype dtype, Ceilings* out);
Status MeasureGpuCeilings(const GpuPlace& place, moert_dtype dtype, Ceilings* out);

// Bytes of all last-level caches that the CPU's work can use.
uint64_t CpuLastLevelCacheBytes();

}  // namespace moert::cli

#endif  // MOERT_CLI_CEILINGS_H_
