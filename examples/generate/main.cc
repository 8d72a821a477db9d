// SPDX-License-Identifier: Apache-2.0
// Generates text with a small Mixture-of-Experts language model: the transformer is this example's
// own plain C++ (transformer.cc), its MoE layers are moert's (moe_model.cc). The text goes to
// standard output, what is said about it to standard error.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "moe_model.h"
#include "transformer.h"

namespace {

struct Options {
  std::string model;
  std::string prompt = "ROMEO:\nWhat light through yonder window breaks";
  std::string device = "best";
  std::string check;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  int64_t tokens = 400;
  double temperature = 0;
  uint64_t seed = 0;
};

// Fills options, or exits with help or with a line that says what is wrong.
void ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app{"Generates text with a small Mixture-of-Experts language model."};
  app.add_option("model", options->model, "Folder with config.json and model.safetensors")
      ->required();
  app.add_option("--prompt", options->prompt, "Text to continue")
      ->check([](const std::string& text) { return text.empty() ? "is empty" : ""; });
  app.add_option("--tokens", options->tokens, "Bytes to generate (default 400)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--temperature", options->temperature,
                 "0: always the likeliest byte (default); 1: as the model says")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--seed", options->seed, "Of the random choice, with a temperature");
  app.add_option("--device", options->device, "best (default), cpu, cuda:N or hip:N");
  app.add_option("--dtype", options->dtype, "MoE layers compute in f32 (default) or bf16")
      ->transform(CLI::CheckedTransformer(std::map<std::string, moert_dtype>{
          {"f32", MOERT_DTYPE_FLOAT32}, {"bf16", MOERT_DTYPE_BFLOAT16}}));
  app.add_option("--check", options->check, "Compare with this reference.json instead");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 1);
  }
}

// The next token: the likeliest, or one drawn from softmax(logits / temperature).
uint8_t ChooseToken(std::span<const float> logits, double temperature, std::mt19937_64* random) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature == 0) return static_cast<uint8_t>(likeliest - logits.begin());
  std::vector<double> odds;
  for (float logit : logits) odds.push_back(std::exp((logit - *likeliest) / temperature));
  std::discrete_distribution<int> distribution(odds.begin(), odds.end());
  return static_cast<uint8_t>(distribution(*random));
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Generate(const Options& options, Transformer* transformer) {
  std::mt19937_64 random(options.seed);
  const std::vector<uint8_t> prompt(options.prompt.begin(), options.prompt.end());
  std::fwrite(prompt.data(), 1, prompt.size(), stdout);
  std::fflush(stdout);

  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = transformer->Forward(prompt);
  const double prompt_seconds = SecondsSince(start);
  start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < options.tokens; ++i) {
    const uint8_t token =
        ChooseToken(logits.last(transformer->config().vocab_size), options.temperature, &random);
    std::fputc(token, stdout);
    std::fflush(stdout);
    logits = transformer->Forward({&token, 1});
  }
  const double seconds = SecondsSince(start);
  std::fputc('\n', stdout);
  std::fflush(stdout);
  std::fprintf(stderr, "\n%zu prompt tokens in %.1f ms; %lld tokens in %.2f s: %.0f tokens/s\n",
               prompt.size(), 1e3 * prompt_seconds, static_cast<long long>(options.tokens), seconds,
               seconds > 0 ? static_cast<double>(options.tokens) / seconds : 0.0);
}

// One line a layer: a bar and a share for each expert.
void PrintExpertUse(const MoeModel& moe) {
  constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::fprintf(stderr, "\nHow often each expert was used, in %% of a layer's choices:\n");
  for (int layer = 0; layer < moe.num_layers(); ++layer) {
    const std::vector<int64_t>& counts = moe.expert_counts(layer);
    const int64_t most = std::max<int64_t>(std::ranges::max(counts), 1);
    int64_t total = 0;
    for (int64_t count : counts) total += count;
    std::fprintf(stderr, "layer %-3d ", layer);
    for (int64_t count : counts) std::fputs(kBars[7 * count / most], stderr);
    for (int64_t count : counts) {
      std::fprintf(
          stderr, " %5.1f",
          100.0 * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(total, 1)));
    }
    std::fputc('\n', stderr);
  }
}

int Run(const Options& options) {
  const TransformerConfig config = ReadConfig(options.model);
  MoeModel moe(options.model, options.device, options.dtype);
  Transformer transformer(config, &moe);
  if (!options.check.empty()) {
    const double tolerance = options.dtype == MOERT_DTYPE_FLOAT32 ? 1e-5 : 1e-2;
    return CheckAgainstReference(options.check, tolerance, &transformer) ? 0 : 1;
  }
  const int64_t room = config.max_position_embeddings - static_cast<int64_t>(options.prompt.size());
  if (options.tokens > room) {
    std::fprintf(stderr,
                 "generate: --tokens %lld is too many: after this prompt the model has %lld of its "
                 "%lld positions left\n",
                 static_cast<long long>(options.tokens),
                 static_cast<long long>(std::max<int64_t>(room, 0)),
                 static_cast<long long>(config.max_position_embeddings));
    return 1;
  }
  std::fprintf(stderr, "MoE layers run on %s (%s)\n\n", moe.device_info().id,
               moe.device_info().name);
  Generate(options, &transformer);
  PrintExpertUse(moe);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  ParseOptions(argc, argv, &options);
  try {
    return Run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "generate: %s\n", error.what());
    return 1;
  }
}
