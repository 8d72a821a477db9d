// SPDX-License-Identifier: Apache-2.0
// The moert command: reads the command line, runs one command, exits with 0, or with 1 and one line
// on stderr.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "cli/commands.h"
#include "cli/text.h"
#include "moert/moert.h"

namespace moert::cli {
namespace {

struct Options {
  PackOptions pack;
  InspectOptions inspect;
  std::string verify;
  ForwardOptions forward;
  BenchOptions bench;
};

void Describe(CLI::App& app, Options& options) {
  app.set_version_flag("--version", moert_version_string());
  app.allow_extras();
  app.add_subcommand("devices", "List the devices that layers can run on");

  CLI::App* pack = app.add_subcommand("pack", "Describe the MoE layers of a checkpoint");
  pack->add_option("DIR", options.pack.directory, "Folder with config.json and safetensors files")
      ->required();
  pack->add_option("-o,--output", options.pack.output, "Manifest to write [DIR/model.moem]");
  pack->add_option("--family", options.pack.family, "Family description (JSON) to use");

  CLI::App* inspect = app.add_subcommand("inspect", "Show what a manifest describes");
  inspect->add_option("F", options.inspect.manifest, "Manifest")->required();
  inspect->add_flag("--json", options.inspect.json, "Everything, as JSON");

  CLI::App* verify = app.add_subcommand("verify", "Check a manifest's files: sizes and hashes");
  verify->add_option("F", options.verify, "Manifest")->required();

  CLI::App* forward = app.add_subcommand("forward", "Run a layer, or several, on a tensor");
  forward->add_option("F", options.forward.manifest, "Manifest")->required();
  forward
      ->add_option("--layer", options.forward.layers,
                   "The model's own layer number; N,M,... and all are accepted too")
      ->required();
  forward
      ->add_option("--input", options.forward.input,
                   "X.safetensors:TENSOR, [tokens, hidden]; {} stands for the layer number")
      ->required();
  forward->add_option("--output", options.forward.output,
                      "Safetensors file to write: y, ids, weights, logits (N.y, ... if several)");
  forward->add_option("--load", options.forward.load,
                      "SVG file to write: how often each expert was chosen");
  forward->add_option("--device", options.forward.device, "cpu, cuda:N, hip:N or best [cpu]");
  forward->add_option("--dtype", options.forward.dtype, "f32, bf16 or f16 [f32]");

  CLI::App* bench = app.add_subcommand("bench", "Time a layer against what the device can do");
  bench->add_option("F", options.bench.manifest, "Manifest, or give --shape");
  bench
      ->add_option("--shape", options.bench.shapes,
                   "EXPERTS,TOP_K,HIDDEN,INTERMEDIATE[,SHARED]; may be given several times")
      ->allow_extra_args(false);
  bench->add_option("--tokens", options.bench.tokens, "Token counts [1,64,512]");
  bench->add_option("--device", options.bench.device, "cpu, cuda:N, hip:N or best [cpu]");
  bench->add_option("--dtype", options.bench.dtype, "f32, bf16 or f16 [f32]");
  bench->add_option("--weights", options.bench.weights,
                    "dtype of a shape's weights: f32, bf16 or f16 [as --dtype]");
  bench->add_option("--op", options.bench.op,
                    "layer, router, gate (also gate-rows, gate-add, gate-linear) or train [layer]");
  bench->add_flag("--eager", options.bench.eager, "GPU: time plain calls, not graph replays");
  bench->add_option("--plot", options.bench.plot,
                    "SVG file to write: share of the ceilings over tokens, and the roofline");
  bench->add_flag("--json", options.bench.json, "One JSON object a line");
}

std::string Accepted(const CLI::App& app) {
  std::string names;
  const auto add = [&names](const std::string& name) {
    if (!names.empty()) names += ", ";
    names += name;
  };
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add(command->get_name());
  }
  for (const CLI::Option* option : app.get_options()) add(option->get_name());
  return names;
}

Status CheckExtras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return Status();
  return Status::Format("unexpected argument \"%s\"; %s accepts %s", extras[0].c_str(),
                        app.get_name().c_str(), Accepted(app).c_str());
}

Status Run(const CLI::App& app, const Options& options) {
  MOERT_CLI_TRY(CheckExtras(app));
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.size() != 1) {
    return Status::Format("%zu commands given; moert accepts one of %s", chosen.size(),
                          Accepted(app).c_str());
  }
  MOERT_CLI_TRY(CheckExtras(*chosen[0]));
  const std::string& name = chosen[0]->get_name();
  if (name == "devices") return RunDevices();
  if (name == "pack") return RunPack(options.pack);
  if (name == "inspect") return RunInspect(options.inspect);
  if (name == "verify") return RunVerify(options.verify);
  if (name == "forward") return RunForward(options.forward);
  return RunBench(options.bench);
}

Status Main(int argc, char** argv) {
  CLI::App app{"moert: Mixture-of-Experts layers and gate ops on whatever device is there",
               "moert"};
  Options options;
  Describe(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help, --version
    app.exit(request);
    return Status();
  } catch (const CLI::ParseError& error) {
    return Status::Failure(error.what());
  }
  return Run(app, options);
}

}  // namespace
}  // namespace moert::cli

int main(int argc, char** argv) {
  using moert::cli::Status;
  // A write past a file size limit, or into a closed pipe, is an error to report like any other.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  Status status;
  try {
    status = moert::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    status = Status::Failure("out of memory");
  } catch (const std::exception& error) {
    status = Status::Failure(error.what());
  }
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) != 0) && status.ok()) {
    status = Status::Format("cannot write to standard output: %s", std::strerror(errno));
  }
  if (status.ok()) return 0;
  std::fprintf(stderr, "moert: %s\n", moert::cli::OneLine(status.message()).c_str());
  return 1;
}
