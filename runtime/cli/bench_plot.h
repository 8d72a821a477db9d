// SPDX-License-Identifier: Apache-2.0
// The picture of a bench run: how much of the ceilings each shape reaches over tokens, and where
// its calls lie under the roofline.
#ifndef MOERT_CLI_BENCH_PLOT_H_
#define MOERT_CLI_BENCH_PLOT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/status.h"

namespace moert::cli {

struct PlotPoint {
  int64_t tokens = 0;
  double seconds = 0;
  double bytes = 0;
  double flops = 0;
};

struct PlotSeries {
  std::string label;
  std::vector<PlotPoint> points;
};

struct BenchPlot {
  std::string title;
  std::string subtitle;
  std::string memory_name;  // "read" or "copy", whichever bounds the op
  double memory_gbps = 0;
  double gflops = 0;
  std::vector<PlotSeries> series;
};

Status WriteBenchPlot(const std::string& path, const BenchPlot& plot);

}  // namespace moert::cli

#endif  // MOERT_CLI_BENCH_PLOT_H_
