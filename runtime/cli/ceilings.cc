// SPDX-License-Identifier: Apache-2.0
#include "cli/ceilings.h"

#include "cli/text.h"

namespace moert::cli {
namespace {

// No GPU of today has more last-level cache than this (MI300: 256 MB).
constexpr uint64_t kLargestGpuCache = 256u << 20;

}  // namespace

Status MeasureCeilings(const moert_device_info& device, moert_dtype dtype, Ceilings* out) {
  if (device.kind == MOERT_DEVICE_KIND_CPU) return MeasureCpuCeilings(device, dtype, out);
  return Status::Format("bench cannot measure the ceilings of device \"%s\" yet; cpu is accepted",
                        device.id);
}

uint64_t LastLevelCacheBytes(const moert_device_info& device) {
  return device.kind == MOERT_DEVICE_KIND_CPU ? CpuLastLevelCacheBytes() : kLargestGpuCache;
}

}  // namespace moert::cli
