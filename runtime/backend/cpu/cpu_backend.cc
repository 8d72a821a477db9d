// SPDX-License-Identifier: Apache-2.0
// The CPU as a backend with one device, which needs nothing but the library.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "backend/cpu/device.h"
#include "backend/cpu/stream.h"
#include "backend/registry.h"

namespace moert {
namespace cpu {
namespace {

// Above any model; bounds the scratch of a row's choice.
constexpr int32_t kMaxExperts = 65536;
constexpr uint32_t kMaxThreads = 1024;
// Blocks of this many bytes get large pages.
constexpr size_t kLargePagesFrom = 8 << 20;

struct Level {
  const Kernels* kernels;
  bool present;
};

// Lowest first. __builtin_cpu_supports asks cpuid, and the system by xgetbv.
template <class F>
void ForEachLevel(const F& f) {
  f(Level{&kKernelsBaseline, true});
#if defined(__x86_64__)
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;  // clang's __builtin_cpu_supports does not know f16c
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  f(Level{&kKernelsAvx2, avx2});
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  f(Level{&kKernelsAvx512, avx512});
  f(Level{&kKernelsAvx512Bf16, avx512 && __builtin_cpu_supports("avx512bf16")});
#endif
}

void CopyText(char* out, size_t size, const char* text) { std::snprintf(out, size, "%s", text); }

void CpuName(char* out, size_t size) {
  CopyText(out, size, "CPU");
#if defined(__x86_64__)
  char brand[49] = {};
  unsigned words[12];
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* w = words + 4 * i;
    if (__get_cpuid(0x80000002u + i, &w[0], &w[1], &w[2], &w[3]) == 0) return;
  }
  std::memcpy(brand, words, sizeof(words));
  const char* start = brand;
  while (*start == ' ') ++start;
  if (*start != '\0') CopyText(out, size, start);
#endif
}

moert_device_info MakeInfo(const Kernels& kernels, uint32_t concurrency) {
  moert_device_info info = MOERT_DEVICE_INFO_INIT;
  info.kind = MOERT_DEVICE_KIND_CPU;
  info.concurrency = concurrency;
  info.memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  info.max_experts = info.max_top_k = kMaxExperts;
  CopyText(info.id, sizeof(info.id), "cpu");
  CopyText(info.arch, sizeof(info.arch), kernels.name);
  CpuName(info.name, sizeof(info.name));
  return info;
}

class CpuDevice final : public BackendDevice {
 public:
  CpuDevice(Allocator& allocator, Owned<Scheduler> scheduler, const Kernels& kernels)
      : scheduler_(std::move(scheduler)),
        parts_{&allocator, scheduler_.get(), &kernels},
        info_(MakeInfo(kernels, scheduler_->concurrency())) {}

  const moert_device_info& info() const override { return info_; }

  // A block's size stands in front of it: Free does not get it.
  Status Allocate(uint64_t bytes, void** out) const override {
    if (bytes > UINT64_MAX / 2) return NoMemory(bytes);
    auto* block = static_cast<char*>(
        parts_.allocator->TryAllocate(bytes + Buffer::kAlignment, Buffer::kAlignment));
    if (block == nullptr) return NoMemory(bytes);
    PreferLargePages(block, bytes + Buffer::kAlignment);
    std::memcpy(block, &bytes, sizeof(bytes));
    *out = block + Buffer::kAlignment;
    return Status();
  }
  void Free(void* memory) const override {
    if (memory == nullptr) return;
    char* block = static_cast<char*>(memory) - Buffer::kAlignment;
    uint64_t bytes;
    std::memcpy(&bytes, block, sizeof(bytes));
    parts_.allocator->deallocate(block, bytes + Buffer::kAlignment, Buffer::kAlignment);
  }
  Status AllocateHost(uint64_t bytes, void** out) const override { return Allocate(bytes, out); }
  void FreeHost(void* memory) const override { Free(memory); }

  Status CreateStream(uint32_t flags, Owned<BackendStream>* out) override {
    // Starts the workers, so that no call on the stream does.
    scheduler_->ParallelFor(
        scheduler_->concurrency(), [](void*, uint32_t) {}, nullptr);
    return CpuStream::Create(*parts_.allocator, *scheduler_, (flags & MOERT_STREAM_FLAG_ASYNC) != 0,
                             out);
  }
  Status ImportStream(void*, Owned<BackendStream>*) override {
    return Unsupported("the CPU has no streams to import");
  }
  Status CreateEvent(Owned<BackendEvent>* out) override {
    *out = MakeOwned<CpuEvent>(*parts_.allocator);
    return Status();
  }

  Status PrepareRouter(const RouterSpec& spec, const RouterWeights& weights, WeightSource source,
                       Owned<PreparedRouter>* out) override {
    return cpu::PrepareRouter(parts_, spec, weights, source, out);
  }
  Status PrepareExperts(const LayerSpec& spec, const LayerWeights& weights, WeightSource source,
                        Owned<PreparedExperts>* out) override {
    return cpu::PrepareExperts(parts_, spec, weights, source, out);
  }
  Status PrepareGate(const GateSpec& spec, Owned<PreparedGate>* out) override {
    return cpu::PrepareGate(parts_, spec, out);
  }

 private:
  static Status NoMemory(uint64_t bytes) {
    return OutOfMemory("no memory for %llu bytes", static_cast<unsigned long long>(bytes));
  }

  Owned<Scheduler> scheduler_;
  DeviceParts parts_;
  moert_device_info info_;
};

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendContext& context) : context_(context) {}

  const char* name() const override { return "cpu"; }
  uint32_t NumDevices(Status*) override { return 1; }

  Status DeviceInfo(uint32_t, moert_device_info* out) override {
    // What opening it would give; a wrong MOERT_CPU_ISA is for OpenDevice to tell.
    const Kernels* kernels;
    if (!ChooseKernels(std::getenv("MOERT_CPU_ISA"), &kernels).ok()) {
      MOERT_RETURN_IF_ERROR(ChooseKernels(nullptr, &kernels));
    }
    Owned<Scheduler> scheduler;
    MOERT_RETURN_IF_ERROR(MakeScheduler(0, &scheduler));
    *out = MakeInfo(*kernels, scheduler->concurrency());
    return Status();
  }

  Status OpenDevice(uint32_t, const DeviceOptions& options, Owned<BackendDevice>* out) override {
    const Kernels* kernels;
    MOERT_RETURN_IF_ERROR(ChooseKernels(
        options.ignore_environment ? nullptr : std::getenv("MOERT_CPU_ISA"), &kernels));
    if (options.cpu_threads > kMaxThreads) {
      return InvalidArgument("cpu_threads %u is above %u", options.cpu_threads, kMaxThreads);
    }
    Owned<Scheduler> scheduler;
    MOERT_RETURN_IF_ERROR(MakeScheduler(options.cpu_threads, &scheduler));
    *out = MakeOwned<CpuDevice>(*context_.allocator, *context_.allocator, std::move(scheduler),
                                *kernels);
    return Status();
  }

 private:
  Status MakeScheduler(uint32_t threads, Owned<Scheduler>* out) {
    if (context_.host_scheduler == nullptr) {
      return MakeThreadPool(*context_.allocator, threads, out);
    }
    *out = MakeHostScheduler(*context_.allocator, *context_.host_scheduler);
    return Status();
  }

  const BackendContext context_;
};

}  // namespace

void PreferLargePages(void* data, size_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + size) / page * page;
  if (size < kLargePagesFrom || begin >= end) return;
#if defined(MADV_HUGEPAGE)
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

Status ChooseKernels(const char* wanted, const Kernels** out) {
  const bool any = wanted == nullptr || *wanted == '\0';
  const Kernels* found = nullptr;
  bool absent = false;
  ForEachLevel([&](const Level& level) {
    if (any ? level.present : std::strcmp(wanted, level.kernels->name) == 0) {
      found = level.kernels;
      absent = !level.present;
    }
  });
  if (found == nullptr) {
    char known[128] = "";
    ForEachLevel([&](const Level& level) {
      const size_t used = std::strlen(known);
      std::snprintf(known + used, sizeof(known) - used, "%s%s", used != 0 ? ", " : "",
                    level.kernels->name);
    });
    return InvalidArgument("MOERT_CPU_ISA is '%s'; accepted are %s", wanted, known);
  }
  if (absent) return Unavailable("MOERT_CPU_ISA is '%s', which this CPU does not have", wanted);
  *out = found;
  return Status();
}

}  // namespace cpu

Owned<Backend> MakeCpuBackend(const BackendContext& context) {
  return MakeOwned<cpu::CpuBackend>(*context.allocator, context);
}

}  // namespace moert
