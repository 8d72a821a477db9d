// SPDX-License-Identifier: Apache-2.0
// The ceilings of a CUDA device: kernels of the kernel file that only read or copy, and the best
// dense product that the library's own kernels reach.
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cli/ceilings.h"
#include "cli/cuda.h"
#include "cli/random_fill.h"
#include "cli/text.h"
#include "kernels/args.h"

namespace moert::cli {
namespace {

constexpr uint64_t kBytes = uint64_t{2} << 30;  // of a read or copied buffer
constexpr int64_t kDense = 8192;                // rows, columns and depth of the product

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

// Where the library finds its kernels.
std::string KernelPath() {
  const char* named = std::getenv("MOERT_KERNEL_PATH");
  std::string folder = named != nullptr ? named : "";
  if (folder.empty()) {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&moert_abi_version), &info) == 0) return "moert.fatbin";
    folder = info.dli_fname;
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
    if (!Exists(folder + "/moert.fatbin")) folder += "/moert";
  }
  struct stat info;
  const bool is_file = stat(folder.c_str(), &info) == 0 && S_ISREG(info.st_mode);
  return is_file ? folder : folder + "/moert.fatbin";
}

// The median of some runs, after warming up.
Status TimeMedian(Cuda& cuda, void* stream, const std::function<Status()>& enqueue,
                  double* seconds) {
  constexpr int kRuns = 11;
  std::vector<double> times(kRuns);
  for (int i = 0; i < 3; ++i) MOERT_CLI_TRY(cuda.Time(stream, enqueue, &times[0]));
  for (double& time : times) MOERT_CLI_TRY(cuda.Time(stream, enqueue, &time));
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  *seconds = times[kRuns / 2];
  return Status();
}

Status MeasureMemory(const GpuPlace& place, Ceilings* out) {
  DeviceMemory from, to;
  MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, kBytes, &from));
  MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, kBytes, &to));
  RandomFill fill(MOERT_DTYPE_FLOAT32, 1);
  MOERT_CLI_TRY(fill.Fill(place.stream, from.data(), kBytes / sizeof(float)));
  const moert_ceiling_kernel_args args = {from.data(), to.data(), kBytes / 16};
  void* stream = moert_stream_native(place.stream);
  for (const int per_multiprocessor : {1, 2, 4, 8}) {
    const int64_t blocks = int64_t{place.cuda->multiprocessors()} * per_multiprocessor;
    double seconds;
    const auto run = [&](const char* kernel) {
      return TimeMedian(
          *place.cuda, stream,
          [&] { return place.cuda->Launch(kernel, blocks, 1, 512, 0, stream, &args); }, &seconds);
    };
    MOERT_CLI_TRY(run("moert_ceiling_read"));
    out->read_gbps = std::max(out->read_gbps, kBytes / seconds / 1e9);
    MOERT_CLI_TRY(run("moert_ceiling_copy"));
    out->copy_gbps = std::max(out->copy_gbps, 2 * kBytes / seconds / 1e9);
  }
  return Status();
}

Status MeasureDense(const GpuPlace& place, moert_dtype dtype, Ceilings* out) {
  const uint64_t element = moert_dtype_bits(dtype) / 8;
  DeviceMemory rows, weight, product, table;
  RandomFill fill(dtype, 1);
  for (DeviceMemory* memory : {&rows, &weight, &product}) {
    MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, kDense * kDense * element, memory));
    MOERT_CLI_TRY(fill.Fill(place.stream, memory->data(), kDense * kDense));
  }
  const moert_weight_entry entry = {weight.data(), nullptr, nullptr, nullptr};
  MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, sizeof(entry), &table));
  MOERT_CLI_TRY(
      Call(moert_stream_copy, place.stream, table.data(), &entry, uint64_t{sizeof(entry)}));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, place.stream));
  moert_linear_kernel_args args = {};
  args.rows = rows.data();
  args.row_stride_in = args.dense_rows = args.outputs = args.depth = args.row_depth = kDense;
  args.weights = static_cast<const moert_weight_entry*>(table.data());
  args.weight_row_stride = args.out_stride = args.padded_outputs = kDense;
  args.weight_group_stride = 8 * kDense;
  args.weight_in_stride = 1;
  args.row_dtype = args.weight_dtype = args.out_dtype = dtype;
  args.activation = -1;
  args.limit = INFINITY;
  args.product_scale = 1;
  args.out = product.data();
  const bool matrix = dtype != MOERT_DTYPE_FLOAT32;
  args.tile_positions = matrix ? 128 : 64;
  const char* kernel = dtype == MOERT_DTYPE_BFLOAT16  ? "moert_linear_mma_plain_128_bf16"
                       : dtype == MOERT_DTYPE_FLOAT16 ? "moert_linear_mma_plain_128_f16"
                                                      : "moert_linear_generic";
  const int64_t tiles = kDense / args.tile_positions;
  void* stream = moert_stream_native(place.stream);
  double seconds;
  MOERT_CLI_TRY(TimeMedian(
      *place.cuda, stream,
      [&] {
        // The plain kernel spreads its outputs over the grid's second dimension.
        return matrix ? place.cuda->Launch(kernel, tiles * (kDense / 128), 1, 128, 98304, stream,
                                           &args)
                      : place.cuda->Launch(kernel, tiles, kDense / 64, 256, 0, stream, &args);
      },
      &seconds));
  out->gflops = 2.0 * kDense * kDense * kDense / seconds / 1e9;
  return Status();
}

}  // namespace

Status MeasureGpuCeilings(const GpuPlace& place, moert_dtype dtype, Ceilings* out) {
  MOERT_CLI_TRY(place.cuda->LoadKernels(KernelPath()));
  MOERT_CLI_TRY(MeasureMemory(place, out));
  return MeasureDense(place, dtype, out);
}

}  // namespace moert::cli
