// SPDX-License-Identifier: Apache-2.0
// moert devices: one line a device, the first column being what --device takes.
#include <cstdio>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/text.h"

namespace moert::cli {

Status RunDevices() {
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, nullptr));
  uint32_t count = 0;
  MOERT_CLI_TRY(Call(moert_runtime_num_devices, runtime.get(), &count));
  std::printf("%-8s %-14s %8s %12s  %s\n", "device", "arch", "units", "memory", "name");
  for (uint32_t i = 0; i < count; ++i) {
    moert_device_info info = MOERT_DEVICE_INFO_INIT;
    MOERT_CLI_TRY(Call(moert_runtime_device_info, runtime.get(), i, &info));
    std::printf("%-8s %-14s %8u %12s  %s\n", info.id, info.arch, info.concurrency,
                Bytes(info.memory_bytes).c_str(), info.name);
  }
  return Status();
}

}  // namespace moert::cli
