// SPDX-License-Identifier: Apache-2.0
// What the CPU backend's tests share: every instruction level that runs here, a device, random
// data.
#ifndef MOERT_TESTS_UNIT_CPU_SUPPORT_H_
#define MOERT_TESTS_UNIT_CPU_SUPPORT_H_

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "backend/cpu/device.h"
#include "backend/cpu/kernels.h"
#include "backend/registry.h"
#include "core/dtype.h"

namespace moert::test {

constexpr moert_dtype kDtypes[] = {MOERT_DTYPE_FLOAT32, MOERT_DTYPE_BFLOAT16, MOERT_DTYPE_FLOAT16};

// Kernel tables that this CPU can run, the baseline first.
inline std::vector<const cpu::Kernels*> Levels() {
  std::vector<const cpu::Kernels*> levels;
  for (const char* name : {"baseline", "neon", "avx2", "avx512", "avx512_bf16"}) {
    const cpu::Kernels* kernels;
    if (cpu::ChooseKernels(name, &kernels).ok()) levels.push_back(kernels);
  }
  return levels;
}

// A stream of random numbers whose seed a failing test shows.
struct Random {
  uint32_t seed = std::random_device()();
  std::mt19937 engine{seed};

  float Normal(float scale = 1) { return std::normal_distribution<float>(0, scale)(engine); }
  int64_t Int(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine);
  }
  // Random values of a compute dtype, as its bytes.
  std::vector<char> Values(moert_dtype dtype, int64_t n, float scale = 1) {
    std::vector<char> out(static_cast<size_t>(n * ElementSize(dtype)));
    for (int64_t i = 0; i < n; ++i) Store(out.data(), dtype, i, Normal(scale));
    return out;
  }
  static void Store(char* out, moert_dtype dtype, int64_t i, float value) {
    if (dtype == MOERT_DTYPE_FLOAT32) {
      std::memcpy(out + i * 4, &value, 4);
    } else {
      const uint16_t bits =
          dtype == MOERT_DTYPE_BFLOAT16 ? FloatToBfloat16(value) : FloatToFloat16(value);
      std::memcpy(out + i * 2, &bits, 2);
    }
  }
};

// A CPU device of its own.
struct CpuFixture {
  explicit CpuFixture(uint32_t threads = 2, const moert_scheduler* host = nullptr)
      : context{&allocator, &log, host}, backend(MakeCpuBackend(context)) {
    DeviceOptions options;
    options.cpu_threads = threads;
    REQUIRE(backend->OpenDevice(0, options, &device).ok());
  }
  Owned<BackendStream> Stream(bool async = false) {
    Owned<BackendStream> stream;
    REQUIRE(device->CreateStream(async ? MOERT_STREAM_FLAG_ASYNC : 0, &stream).ok());
    return stream;
  }
  Owned<BackendEvent> Event() {
    Owned<BackendEvent> event;
    REQUIRE(device->CreateEvent(&event).ok());
    return event;
  }

  Allocator allocator{nullptr};
  Logger log{nullptr};
  BackendContext context;
  Owned<Backend> backend;
  Owned<BackendDevice> device;
};

}  // namespace moert::test

#endif  // MOERT_TESTS_UNIT_CPU_SUPPORT_H_
