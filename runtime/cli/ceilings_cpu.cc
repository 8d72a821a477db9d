// SPDX-License-Identifier: Apache-2.0
// The ceilings of a CPU: loops that do nothing but read, copy or multiply-add, compiled for several
// instruction sets; the level that the device reports says which of them run.
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/ceilings.h"
#include "cli/text.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace moert::cli {
namespace {

// Loops.

// A cache line. Sums of them are loads as wide as the function's target has.
typedef uint64_t Line __attribute__((vector_size(64)));

// Sums 4 * count lines: line `lane * k + stride * i` for k below 4 and i below count.
#define MOERT_CLI_DEFINE_READ(NAME, TARGET)                                           \
  TARGET uint64_t NAME(const Line* lines, size_t lane, size_t stride, size_t count) { \
    Line sum0 = {}, sum1 = {}, sum2 = {}, sum3 = {};                                  \
    for (size_t i = 0; i < count; ++i) {                                              \
      const Line* line = lines + i * stride;                                          \
      sum0 += line[0];                                                                \
      sum1 += line[lane];                                                             \
      sum2 += line[2 * lane];                                                         \
      sum3 += line[3 * lane];                                                         \
    }                                                                                 \
    const Line sum = sum0 + sum1 + sum2 + sum3;                                       \
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];     \
  }

// `rounds` times ACCUMULATORS independent multiply-adds, all in registers; the empty assembler line
// keeps each of them.
#define MOERT_CLI_DEFINE_MULTIPLY_ADD(NAME, TARGET, ACCUMULATORS, TYPE, ZERO, STEP, REDUCE) \
  TARGET float NAME(int64_t rounds) {                                                       \
    TYPE sums[ACCUMULATORS];                                                                \
    _Pragma("GCC unroll 32") for (TYPE & sum : sums) sum = ZERO;                            \
    for (int64_t round = 0; round < rounds; ++round) {                                      \
      _Pragma("GCC unroll 32") for (TYPE & sum : sums) {                                    \
        sum = STEP;                                                                         \
        asm volatile("" : "+" MOERT_CLI_REGISTER(sum));                                     \
      }                                                                                     \
    }                                                                                       \
    float total = 0;                                                                        \
    _Pragma("GCC unroll 32") for (TYPE & sum : sums) total += REDUCE;                       \
    return total;                                                                           \
  }

struct MultiplyAdd {
  float (*run)(int64_t rounds) = nullptr;
  int64_t flops_per_round = 0;
};

struct Level {
  uint64_t (*read)(const Line*, size_t, size_t, size_t) = nullptr;
  MultiplyAdd f32;
  MultiplyAdd bf16;  // run is null where float32's rate is the best there is
};

MOERT_CLI_DEFINE_READ(ReadBaseline, )

#if defined(__x86_64__)

#define MOERT_CLI_REGISTER "v"
#define MOERT_CLI_AVX2 __attribute__((target("avx2,fma")))
#define MOERT_CLI_AVX512 __attribute__((target("avx512f")))
#define MOERT_CLI_AVX512_BF16 __attribute__((target("avx512f,avx512bf16")))

MOERT_CLI_DEFINE_READ(ReadAvx2, MOERT_CLI_AVX2)
MOERT_CLI_DEFINE_READ(ReadAvx512, MOERT_CLI_AVX512)

MOERT_CLI_DEFINE_MULTIPLY_ADD(MultiplyAddSse2, , 12, __m128, _mm_set1_ps(1.0f),
                              _mm_add_ps(_mm_mul_ps(sum, _mm_set1_ps(0.999f)), _mm_set1_ps(0.001f)),
                              _mm_cvtss_f32(sum))
MOERT_CLI_DEFINE_MULTIPLY_ADD(MultiplyAddAvx2, MOERT_CLI_AVX2, 12, __m256, _mm256_set1_ps(1.0f),
                              _mm256_fmadd_ps(sum, _mm256_set1_ps(0.999f), _mm256_set1_ps(0.001f)),
                              _mm256_cvtss_f32(sum))
MOERT_CLI_DEFINE_MULTIPLY_ADD(MultiplyAddAvx512, MOERT_CLI_AVX512, 20, __m512, _mm512_set1_ps(1.0f),
                              _mm512_fmadd_ps(sum, _mm512_set1_ps(0.999f), _mm512_set1_ps(0.001f)),
                              _mm512_cvtss_f32(sum))
// Pairs of products that cancel: the sums stay finite however long it runs.
MOERT_CLI_DEFINE_MULTIPLY_ADD(MultiplyAddBf16, MOERT_CLI_AVX512_BF16, 20, __m512,
                              _mm512_set1_ps(1.0f),
                              _mm512_dpbf16_ps(sum, (__m512bh)_mm512_set1_epi32(0x3f80bf80),
                                               (__m512bh)_mm512_set1_epi32(0x3f803f80)),
                              _mm512_cvtss_f32(sum))

Level LevelOf(std::string_view arch) {
  constexpr MultiplyAdd kAvx512 = {MultiplyAddAvx512, 20 * 16 * 2};
  if (arch.starts_with("avx512")) {
    const bool has_bf16 = __builtin_cpu_supports("avx512bf16") != 0;
    return {ReadAvx512, kAvx512,
            has_bf16 ? MultiplyAdd{MultiplyAddBf16, 20 * 32 * 2} : MultiplyAdd{}};
  }
  if (arch.starts_with("avx2")) return {ReadAvx2, {MultiplyAddAvx2, 12 * 8 * 2}, {}};
  return {ReadBaseline, {MultiplyAddSse2, 12 * 4 * 2}, {}};
}

// Past the caches: nothing is read for ownership.
void CopyLines(Line* to, const Line* from, size_t count) {
  auto* out = reinterpret_cast<__m128i*>(to);
  const auto* in = reinterpret_cast<const __m128i*>(from);
  for (size_t i = 0; i < 4 * count; i += 4) {
    const __m128i a = _mm_load_si128(in + i), b = _mm_load_si128(in + i + 1);
    const __m128i c = _mm_load_si128(in + i + 2), d = _mm_load_si128(in + i + 3);
    _mm_stream_si128(out + i, a);
    _mm_stream_si128(out + i + 1, b);
    _mm_stream_si128(out + i + 2, c);
    _mm_stream_si128(out + i + 3, d);
  }
  _mm_sfence();
}

#elif defined(__aarch64__)

#define MOERT_CLI_REGISTER "w"

MOERT_CLI_DEFINE_MULTIPLY_ADD(MultiplyAddNeon, , 24, float32x4_t, vdupq_n_f32(1.0f),
                              vfmaq_f32(vdupq_n_f32(0.001f), sum, vdupq_n_f32(0.999f)),
                              vgetq_lane_f32(sum, 0))

Level LevelOf(std::string_view) { return {ReadBaseline, {MultiplyAddNeon, 24 * 4 * 2}, {}}; }

void CopyLines(Line* to, const Line* from, size_t count) {
  std::memcpy(to, from, count * sizeof(Line));
}

#else
#error "bench needs a multiply-add loop for this architecture"
#endif

// Measuring.

constexpr auto kLeastTime = std::chrono::milliseconds(300);
constexpr int kLeastRuns = 5;

// The shortest time, in seconds, of fn(thread) on `threads` threads that start together.
double BestTime(uint32_t threads, const std::function<void(uint32_t)>& fn) {
  using Clock = std::chrono::steady_clock;
  std::barrier gate(threads);
  std::atomic<bool> done = false;
  double best = 0;
  const auto work = [&](uint32_t thread) {
    const auto begin = Clock::now();
    for (int run = 0; !done; ++run) {
      gate.arrive_and_wait();
      const auto start = Clock::now();
      fn(thread);
      gate.arrive_and_wait();
      if (thread == 0) {
        const double time = std::chrono::duration<double>(Clock::now() - start).count();
        best = run == 0 ? time : std::min(best, time);
        done = run + 1 >= kLeastRuns && Clock::now() - begin >= kLeastTime;
      }
      gate.arrive_and_wait();
    }
  };
  std::vector<std::thread> helpers;
  for (uint32_t thread = 1; thread < threads; ++thread) helpers.emplace_back(work, thread);
  work(0);
  for (std::thread& helper : helpers) helper.join();
  return best;
}

// Memory in large pages where the system gives them, touched by the threads that will use it.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return;
    madvise(data, bytes, MADV_HUGEPAGE);
    lines_ = static_cast<Line*>(data);
  }
  ~Buffer() {
    if (lines_ != nullptr) munmap(lines_, bytes_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Line* lines() const { return lines_; }

 private:
  size_t bytes_;
  Line* lines_ = nullptr;
};

double MultiplyAddGflops(const MultiplyAdd& loop, uint32_t threads) {
  constexpr int64_t kRounds = 1 << 20;
  std::atomic<float> sink = 0;
  const double time = BestTime(threads, [&](uint32_t) { sink = loop.run(kRounds); });
  return static_cast<double>(threads) * loop.flops_per_round * kRounds / time / 1e9;
}

// In one stream a thread, or in four.
double ReadGbps(const Level& level, const Line* lines, size_t lines_per_thread, uint32_t threads) {
  std::atomic<uint64_t> sink = 0;
  double best = 0;
  for (const size_t streams : {1, 4}) {
    const size_t count = lines_per_thread / 4;
    const size_t lane = streams == 1 ? 1 : count;
    const size_t stride = streams == 1 ? 4 : 1;
    const double time = BestTime(threads, [&](uint32_t thread) {
      sink = level.read(lines + thread * lines_per_thread, lane, stride, count);
    });
    best = std::max(best, static_cast<double>(threads * lines_per_thread * sizeof(Line)) / time);
  }
  return best / 1e9;
}

double CopyGbps(Line* to, const Line* from, size_t lines_per_thread, uint32_t threads) {
  const double bytes = 2.0 * static_cast<double>(threads * lines_per_thread * sizeof(Line));
  const double past_caches = BestTime(threads, [&](uint32_t thread) {
    CopyLines(to + thread * lines_per_thread, from + thread * lines_per_thread, lines_per_thread);
  });
  const double library = BestTime(threads, [&](uint32_t thread) {
    std::memcpy(to + thread * lines_per_thread, from + thread * lines_per_thread,
                lines_per_thread * sizeof(Line));
  });
  return bytes / std::min(past_caches, library) / 1e9;
}

// The caches of one CPU at its highest level: who shares them -> bytes.
void AddCaches(int cpu, int* level, std::map<std::string, uint64_t>* caches) {
  for (int index = 0; index < 16; ++index) {
    const std::string folder = Format("/sys/devices/system/cpu/cpu%d/cache/index%d/", cpu, index);
    int this_level = 0;
    uint64_t kilobytes = 0;
    std::string shared;
    std::ifstream(folder + "level") >> this_level;
    std::ifstream(folder + "size") >> kilobytes;
    std::ifstream(folder + "shared_cpu_list") >> shared;
    if (this_level == 0) return;
    if (this_level > *level) caches->clear();
    *level = std::max(*level, this_level);
    if (this_level == *level) (*caches)[shared] = kilobytes * 1024;
  }
}

}  // namespace

Status MeasureCpuCeilings(const moert_device_info& device, moert_dtype dtype, Ceilings* out) {
  const Level level = LevelOf(device.arch);
  const uint32_t threads = std::max(1u, device.concurrency);
  const double f32 = MultiplyAddGflops(level.f32, threads);
  out->f32_gflops = f32;
  out->gflops = f32;
  if (dtype == MOERT_DTYPE_BFLOAT16 && level.bf16.run != nullptr) {
    out->gflops = std::max(f32, MultiplyAddGflops(level.bf16, threads));
  }
  const uint64_t wanted = std::min(4 * CpuLastLevelCacheBytes(), device.memory_bytes / 8);
  const size_t lines_per_thread = wanted / threads / sizeof(Line) / 4 * 4;
  const size_t bytes = threads * lines_per_thread * sizeof(Line);
  const Buffer from(bytes);
  const Buffer to(bytes);
  if (from.lines() == nullptr || to.lines() == nullptr) {
    return Status::Format("out of memory: the ceilings need twice %s", Bytes(bytes).c_str());
  }
  BestTime(threads, [&](uint32_t thread) {
    std::memset(from.lines() + thread * lines_per_thread, 1, lines_per_thread * sizeof(Line));
    std::memset(to.lines() + thread * lines_per_thread, 2, lines_per_thread * sizeof(Line));
  });
  out->read_gbps = ReadGbps(level, from.lines(), lines_per_thread, threads);
  out->copy_gbps = CopyGbps(to.lines(), from.lines(), lines_per_thread, threads);
  return Status();
}

uint64_t CpuLastLevelCacheBytes() {
  // A virtual machine often reports less cache than its CPUs reach.
  constexpr uint64_t kLeast = 256u << 20;
  cpu_set_t allowed;
  int level = 0;
  std::map<std::string, uint64_t> caches;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) AddCaches(cpu, &level, &caches);
    }
  }
  uint64_t bytes = 0;
  for (const auto& [shared, size] : caches) bytes += size;
  return std::max(bytes, kLeast);
}

}  // namespace moert::cli
