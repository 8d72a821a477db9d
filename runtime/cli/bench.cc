// SPDX-License-Identifier: Apache-2.0
// moert bench: median times of an op next to what the device can do at best, as a table or as JSON.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/bench_case.h"
#include "cli/bench_plot.h"
#include "cli/ceilings.h"
#include "cli/commands.h"
#include "cli/cuda.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Op {
  const char* name;
  enum Kind { kLayer, kRouter, kGate, kTrain } kind;
  moert_gate_kind gate;
};
constexpr Op kOps[] = {{"layer", Op::kLayer, 0},
                       {"router", Op::kRouter, 0},
                       {"gate", Op::kGate, MOERT_GATE_KIND_MULTIPLY},
                       {"gate-rows", Op::kGate, MOERT_GATE_KIND_MULTIPLY_ROWS},
                       {"gate-add", Op::kGate, MOERT_GATE_KIND_ADD_ROWS},
                       {"gate-linear", Op::kGate, MOERT_GATE_KIND_ADD_LINEAR},
                       {"train", Op::kTrain, 0}};

// The command line, understood.
struct Plan {
  const Op* op = nullptr;
  std::vector<BenchShape> shapes;  // of --shape
  std::vector<int64_t> tokens;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  moert_dtype weights_dtype = MOERT_DTYPE_FLOAT32;
};

struct Bench {
  Cuda cuda;  // on a GPU; outlives what is made on it
  bool graphs = false;
  Runtime runtime;
  Device device;
  Stream stream;
  moert_device_info info = MOERT_DEVICE_INFO_INIT;
  BenchPlace place;
  Ceilings ceilings;
};

struct Measurement {
  double seconds = 0;  // median
  BenchCost cost;      // mean
};

Status ParseOp(const std::string& name, const Op** out) {
  std::string names;
  for (const Op& op : kOps) {
    if (name == op.name) {
      *out = &op;
      return Status();
    }
    names += (names.empty() ? "" : ", ") + std::string(op.name);
  }
  return Status::Format("--op \"%s\" is not one of %s", name.c_str(), names.c_str());
}

Status ParseShape(const std::string& text, BenchShape* out) {
  constexpr int64_t kMax = 1 << 20;
  std::vector<int64_t> numbers;
  MOERT_CLI_TRY(ParseIntegers("--shape", text, 0, kMax, &numbers));
  if (numbers.size() == 4) numbers.push_back(0);
  if (numbers.size() != 5) {
    return Status::Format("--shape \"%s\" is not EXPERTS,TOP_K,HIDDEN,INTERMEDIATE[,SHARED]",
                          text.c_str());
  }
  *out = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  if (out->experts < 1 || out->hidden < 1 || out->intermediate < 1) {
    return Status::Format("--shape \"%s\" has a zero; experts, hidden and intermediate start at 1",
                          text.c_str());
  }
  if (out->top_k < 1 || out->top_k > out->experts) {
    return Status::Format("--shape \"%s\": top_k %lld is not from 1 to %lld experts", text.c_str(),
                          static_cast<long long>(out->top_k), static_cast<long long>(out->experts));
  }
  return Status();
}

Status ParsePlan(const BenchOptions& options, Plan* out) {
  constexpr int64_t kMaxTokens = 1 << 24;
  MOERT_CLI_TRY(ParseOp(options.op, &out->op));
  if (out->op->kind == Op::kTrain) {
    return Status::Failure(
        "--op train is not supported by this version; layer, router and gate are");
  }
  MOERT_CLI_TRY(ParseComputeDtype("--dtype", options.dtype, &out->dtype));
  out->weights_dtype = out->dtype;
  if (!options.weights.empty()) {
    MOERT_CLI_TRY(ParseComputeDtype("--weights", options.weights, &out->weights_dtype));
  }
  MOERT_CLI_TRY(ParseIntegers("--tokens", options.tokens, 1, kMaxTokens, &out->tokens));
  if (options.manifest.empty() == options.shapes.empty()) {
    return Status::Failure("bench takes either a manifest F or --shape");
  }
  if (options.shapes.empty() && !options.weights.empty()) {
    return Status::Failure("--weights goes with --shape, not with F");
  }
  out->shapes.resize(options.shapes.size());
  for (size_t i = 0; i < options.shapes.size(); ++i) {
    MOERT_CLI_TRY(ParseShape(options.shapes[i], &out->shapes[i]));
  }
  return Status();
}

// Memory that the weights and inputs may take: most of what is free, the ceilings' buffers set
// aside.
uint64_t MemoryForLayers(const moert_device_info& device, uint64_t rotation_bytes) {
  uint64_t bytes = device.memory_bytes;
  if (device.kind == MOERT_DEVICE_KIND_CPU) {
    std::ifstream facts("/proc/meminfo");
    std::string key, unit;
    for (uint64_t kilobytes = 0; facts >> key >> kilobytes; std::getline(facts, unit)) {
      if (key == "MemAvailable:") bytes = kilobytes * 1024;
    }
  }
  if (device.kind != MOERT_DEVICE_KIND_CPU) bytes /= 2;  // a GPU keeps packed copies of weights
  return (bytes - std::min(bytes / 2, 2 * rotation_bytes)) / 4 * 3;
}

Status Open(const BenchOptions& options, const Plan& plan, Bench* out) {
  MOERT_CLI_TRY(Make(out->runtime, moert_runtime_create, nullptr));
  MOERT_CLI_TRY(
      Make(out->device, moert_device_create, out->runtime.get(), options.device.c_str(), nullptr));
  MOERT_CLI_TRY(Make(out->stream, moert_stream_create, out->device.get(), nullptr));
  MOERT_CLI_TRY(Call(moert_device_get_info, out->device.get(), &out->info));
  const bool on_gpu = out->info.kind == MOERT_DEVICE_KIND_CUDA;
  if (!on_gpu && out->info.kind != MOERT_DEVICE_KIND_CPU) {
    return Status::Format("bench cannot measure device \"%s\" yet; cpu and cuda:N are accepted",
                          out->info.id);
  }
  if (on_gpu) MOERT_CLI_TRY(out->cuda.Open(out->info.ordinal));
  out->graphs = on_gpu && !options.eager;
  const uint64_t rotation_bytes = 4 * (on_gpu ? out->cuda.l2_bytes() : CpuLastLevelCacheBytes());
  out->place = {out->runtime.get(), out->device.get(),
                out->stream.get(),  on_gpu,
                plan.dtype,         plan.weights_dtype,
                rotation_bytes,     MemoryForLayers(out->info, rotation_bytes)};
  return Status();
}

Status MeasureCeilings(Bench& bench, moert_dtype dtype) {
  if (!bench.place.on_gpu) return MeasureCpuCeilings(bench.info, dtype, &bench.ceilings);
  const GpuPlace place{bench.device.get(), bench.stream.get(), &bench.cuda};
  return MeasureGpuCeilings(place, dtype, &bench.ceilings);
}

// Runs calls from slot `next` on, waits for them, and gives the seconds that took.
Status RunBatch(const BenchPlace& place, const BenchCase& bench, int64_t next, int64_t calls,
                double* seconds) {
  const auto start = Clock::now();
  for (int64_t i = 0; i < calls; ++i) MOERT_CLI_TRY(bench.run((next + i) % bench.slots));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, place.stream));
  *seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return Status();
}

// As RunBatch by one replay of the graph that CaptureBatch made.
Status RunGraph(Bench& bench, double* seconds) {
  return bench.cuda.TimeReplay(moert_stream_native(bench.place.stream), seconds);
}

Status CaptureBatch(Bench& bench, const BenchCase& timed, int64_t calls) {
  MOERT_CLI_TRY(timed.own_workspace());
  return bench.cuda.Capture(moert_stream_native(bench.place.stream), [&]() -> Status {
    for (int64_t i = 0; i < calls; ++i) MOERT_CLI_TRY(timed.run(i % timed.slots));
    return Status();
  });
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// At least ten batches and 0.3 s, but calls that take seconds are not repeated that often.
Status Measure(Bench& bench, const BenchCase& timed, Measurement* out) {
  constexpr double kWarmUp = 0.05, kLeast = 0.3, kMost = 20;
  // On a GPU one wait serves many calls; on the CPU a call is done when it returns.
  int64_t calls = bench.info.kind == MOERT_DEVICE_KIND_CPU ? 1 : 16;
  if (bench.graphs) calls = (calls + timed.slots - 1) / timed.slots * timed.slots;
  int64_t next = 0;
  double seconds = 0;
  for (double spent = 0; next < 2 || (spent < kWarmUp && next < timed.slots); spent += seconds) {
    MOERT_CLI_TRY(RunBatch(bench.place, timed, next++, 1, &seconds));
  }
  if (bench.graphs) MOERT_CLI_TRY(CaptureBatch(bench, timed, calls));
  std::vector<double> times;
  BenchCost sum;
  double spent = 0;
  while (times.size() < 3 || (spent < kMost && (times.size() < 10 || spent < kLeast))) {
    MOERT_CLI_TRY(bench.graphs ? RunGraph(bench, &seconds)
                               : RunBatch(bench.place, timed, next, calls, &seconds));
    spent += seconds;
    times.push_back(seconds / static_cast<double>(calls));
    for (int64_t i = 0; i < calls; ++i) {
      BenchCost cost;
      MOERT_CLI_TRY(timed.cost((next + i) % timed.slots, &cost));
      sum.bytes += cost.bytes;
      sum.flops += cost.flops;
    }
    next += calls;
  }
  const double runs = static_cast<double>(times.size()) * static_cast<double>(calls);
  out->cost = {sum.bytes / runs, sum.flops / runs};
  out->seconds = Median(std::move(times));
  return Status();
}

void PrintJson(const Plan& plan, const Bench& bench, const BenchShape& shape, int64_t tokens,
               const Measurement& measured) {
  nlohmann::ordered_json line = {{"op", plan.op->name},
                                 {"device", bench.info.id},
                                 {"dtype", ComputeDtypeName(plan.dtype)},
                                 {"experts", shape.experts},
                                 {"top_k", shape.top_k},
                                 {"hidden", shape.hidden},
                                 {"intermediate", shape.intermediate},
                                 {"tokens", tokens},
                                 {"time_us", measured.seconds * 1e6},
                                 {"bytes", static_cast<uint64_t>(measured.cost.bytes + 0.5)},
                                 {"flops", static_cast<uint64_t>(measured.cost.flops + 0.5)},
                                 {"ceiling_read_gbps", bench.ceilings.read_gbps},
                                 {"ceiling_copy_gbps", bench.ceilings.copy_gbps},
                                 {"ceiling_gflops", bench.ceilings.gflops}};
  if (bench.ceilings.f32_gflops) line["ceiling_f32_gflops"] = *bench.ceilings.f32_gflops;
  std::printf("%s\n", line.dump().c_str());
}

std::string ShapeText(const BenchShape& shape) {
  std::string text =
      Format("%lld experts, top_k %lld, hidden %lld, intermediate %lld",
             static_cast<long long>(shape.experts), static_cast<long long>(shape.top_k),
             static_cast<long long>(shape.hidden), static_cast<long long>(shape.intermediate));
  if (shape.shared != 0) text += Format(", shared %lld", static_cast<long long>(shape.shared));
  return text;
}

std::string DeviceText(const Bench& bench) {
  return Format("%s on %s (%s, %s, %u units)", ComputeDtypeName(bench.place.dtype), bench.info.id,
                bench.info.name, bench.info.arch, bench.info.concurrency);
}

std::string CeilingsText(const Ceilings& ceilings) {
  std::string text = Format("read %.1f GB/s, copy %.1f GB/s, %.0f GFLOP/s", ceilings.read_gbps,
                            ceilings.copy_gbps, ceilings.gflops);
  if (ceilings.f32_gflops) text += Format(", %.0f in f32", *ceilings.f32_gflops);
  return text;
}

void PrintHeading(const Plan& plan, const Bench& bench, const BenchShape& shape) {
  std::printf("%s, %s, %s\nceilings: %s\n%10s %12s %10s %10s %10s %10s\n", plan.op->name,
              ShapeText(shape).c_str(), DeviceText(bench).c_str(),
              CeilingsText(bench.ceilings).c_str(), "tokens", "time", "GB/s",
              plan.op->kind == Op::kGate ? "of copy" : "of read", "GFLOP/s", "of peak");
}

std::string Time(double seconds) {
  return seconds < 1e-3 ? Format("%.1f us", seconds * 1e6)
         : seconds < 1  ? Format("%.2f ms", seconds * 1e3)
                        : Format("%.2f s", seconds);
}

void PrintRow(const Plan& plan, const Bench& bench, int64_t tokens, const Measurement& measured) {
  const double gbps = measured.cost.bytes / measured.seconds / 1e9;
  const double gflops = measured.cost.flops / measured.seconds / 1e9;
  const double memory =
      plan.op->kind == Op::kGate ? bench.ceilings.copy_gbps : bench.ceilings.read_gbps;
  std::printf("%10lld %12s %10.2f %8.0f %% %10.1f %8.0f %%\n", static_cast<long long>(tokens),
              Time(measured.seconds).c_str(), gbps, 100 * gbps / memory, gflops,
              100 * gflops / bench.ceilings.gflops);
}

Status MakeCase(const Plan& plan, const Bench& bench, const LayerSet& layers, int64_t tokens,
                BenchCase* out) {
  switch (plan.op->kind) {
    case Op::kRouter:
      return MakeRouterCase(bench.place, layers.shape, tokens, out);
    case Op::kGate:
      return MakeGateCase(bench.place, layers.shape, plan.op->gate, tokens, out);
    default:
      return MakeLayerCase(bench.place, layers, tokens, out);
  }
}

// The layers to time, or for other ops the shape alone. `shape` is null for the manifest's layers.
Status MakeLayers(const BenchOptions& options, const Plan& plan, const Bench& bench,
                  const BenchShape* shape, LayerSet* out, std::string* note) {
  const bool with_layers = plan.op->kind == Op::kLayer;
  if (shape != nullptr) {
    out->shape = *shape;
    if (!with_layers) return Status();
    return MakeShapeLayers(bench.place, *shape, plan.tokens, out, note);
  }
  if (!with_layers) return ReadManifestShape(bench.place, options.manifest, &out->shape);
  return MakeManifestLayers(bench.place, options.manifest, plan.tokens, out, note);
}

// Times one shape on all token counts, printing as it goes.
Status RunShape(const BenchOptions& options, const Plan& plan, const BenchShape* shape,
                Bench* bench, PlotSeries* series) {
  LayerSet layers;
  std::string note;
  MOERT_CLI_TRY(MakeLayers(options, plan, *bench, shape, &layers, &note));
  if (bench->ceilings.read_gbps == 0) {  // only now, so that wrong arguments are refused at once
    MOERT_CLI_TRY(MeasureCeilings(*bench, plan.dtype));
  }
  if (!note.empty()) std::fprintf(stderr, "moert: note: %s\n", note.c_str());
  if (!options.json) PrintHeading(plan, *bench, layers.shape);
  series->label = ShapeText(layers.shape);
  for (const int64_t tokens : plan.tokens) {
    BenchCase timed;
    MOERT_CLI_TRY(MakeCase(plan, *bench, layers, tokens, &timed));
    Measurement measured;
    MOERT_CLI_TRY(Measure(*bench, timed, &measured));
    series->points.push_back({tokens, measured.seconds, measured.cost.bytes, measured.cost.flops});
    if (options.json) {
      PrintJson(plan, *bench, layers.shape, tokens, measured);
    } else {
      PrintRow(plan, *bench, tokens, measured);
    }
    std::fflush(stdout);
  }
  return Status();
}

}  // namespace

Status RunBench(const BenchOptions& options) {
  Plan plan;
  MOERT_CLI_TRY(ParsePlan(options, &plan));
  Bench bench;
  MOERT_CLI_TRY(Open(options, plan, &bench));
  const size_t num_shapes = std::max<size_t>(1, plan.shapes.size());
  BenchPlot plot;
  plot.series.resize(num_shapes);
  for (size_t i = 0; i < num_shapes; ++i) {
    const BenchShape* shape = plan.shapes.empty() ? nullptr : &plan.shapes[i];
    MOERT_CLI_TRY(RunShape(options, plan, shape, &bench, &plot.series[i]));
  }
  if (options.plot.empty()) return Status();
  const bool copies = plan.op->kind == Op::kGate;
  plot.title = Format("moert %s, %s", plan.op->name, DeviceText(bench).c_str());
  plot.subtitle = "ceilings measured in the same run: " + CeilingsText(bench.ceilings);
  plot.memory_name = copies ? "copy" : "read";
  plot.memory_gbps = copies ? bench.ceilings.copy_gbps : bench.ceilings.read_gbps;
  plot.gflops = bench.ceilings.gflops;
  return WriteBenchPlot(options.plot, plot);
}

}  // namespace moert::cli
