// SPDX-License-Identifier: Apache-2.0
// The picture of a routing: how often each expert of each layer was chosen.
#ifndef MOERT_CLI_LOAD_PLOT_H_
#define MOERT_CLI_LOAD_PLOT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cli/status.h"

namespace moert::cli {

struct LayerLoad {
  int64_t layer = 0;            // the model's own number
  std::vector<int64_t> counts;  // for each expert, how many tokens chose it
};

// A heatmap with one row a layer: white is the load that every expert has when all are used alike.
Status WriteLoadPlot(const std::string& path, const std::string& title,
                     std::span<const LayerLoad> layers);

}  // namespace moert::cli

#endif  // MOERT_CLI_LOAD_PLOT_H_
