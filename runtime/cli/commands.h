// SPDX-License-Identifier: Apache-2.0
// The commands: what main.cc reads from the command line, and one function each.
#ifndef MOERT_CLI_COMMANDS_H_
#define MOERT_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "cli/status.h"

namespace moert::cli {

Status RunDevices();

struct PackOptions {
  std::string directory;
  std::string output;  // empty: DIR/model.moem
  std::string family;  // empty: a built-in one
};
Status RunPack(const PackOptions& options);

struct InspectOptions {
  std::string manifest;
  bool json = false;
};
Status RunInspect(const InspectOptions& options);

Status RunVerify(const std::string& manifest);

struct ForwardOptions {
  std::string manifest;
  std::string layers;  // the model's own numbers, or "all"
  std::string input;   // FILE.safetensors:TENSOR; {} stands for the layer's number
  std::string output;  // a safetensors file; may be empty if load is not
  std::string load;    // an SVG file; empty: none
  std::string device = "cpu";
  std::string dtype = "f32";
};
Status RunForward(const ForwardOptions& options);

struct BenchOptions {
  std::string manifest;             // or shapes
  std::vector<std::string> shapes;  // each EXPERTS,TOP_K,HIDDEN,INTERMEDIATE[,SHARED]
  std::string tokens = "1,64,512";
  std::string device = "cpu";
  std::string dtype = "f32";
  std::string weights;  // dtype of the weights of a shape; empty: as dtype
  std::string op = "layer";
  bool eager = false;  // GPU: plain calls instead of graph replays
  std::string plot;    // an SVG file; empty: none
  bool json = false;
};
Status RunBench(const BenchOptions& options);

}  // namespace moert::cli

#endif  // MOERT_CLI_COMMANDS_H_
