// SPDX-License-Identifier: Apache-2.0
// The moert command on checkpoints: what a user gets when all is well.
#include "command.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

namespace moert::test {
namespace {

using Json = nlohmann::json;

std::string Forward(const TemporaryFolder& folder, const std::string& arguments) {
  return "forward " + folder / "model.moem" + " --output " + folder / "y.safetensors" + " " +
         arguments;
}

void CheckForward(const TemporaryFolder& folder, int layer, const std::string& block) {
  const CommandResult result =
      RunMoert(Forward(folder, "--layer " + std::to_string(layer) + " --input " +
                                   folder / "reference.safetensors" + ":" + block + ".in"));
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  CHECK(result.errors.empty());
  auto tensors = ReadSafetensors(folder / "y.safetensors");
  auto reference = ReadSafetensors(folder / "reference.safetensors");
  const StoredTensor& expected = reference.at(block + ".out");
  CHECK(tensors.size() == 4);
  CHECK(tensors["y"].dtype == "F32");
  CHECK(tensors["y"].shape == expected.shape);
  CHECK(RelativeError(tensors["y"].As<float>(), expected.As<float>()) < 1e-5);
}

TEST_CASE("devices lists the CPU first") {
  const CommandResult result = RunMoert("devices");
  CHECK(result.exit_code == 0);
  std::istringstream lines(result.output);
  std::string line;
  std::getline(lines, line);
  CHECK(line.starts_with("device"));
  std::getline(lines, line);
  CHECK(line.starts_with("cpu "));
}

TEST_CASE("every layer of the trained model gives the reference's output") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  for (int layer = 0; layer < 4; ++layer) {
    CAPTURE(layer);
    CheckForward(folder, layer, "layers." + std::to_string(layer) + ".mlp");
  }
}

TEST_CASE("a family's layers go by the model's own numbers, dense layers left out") {
  const TemporaryFolder folder;
  PackModel(FamilyModel("deepseek_v3"), folder);
  const Json inspected = Json::parse(RunMoert("inspect --json " + folder / "model.moem").output);
  auto reference = ReadSafetensors(folder / "reference.safetensors");
  std::set<std::string> blocks;
  for (const auto& [name, tensor] : reference) {
    if (name.ends_with(".mlp.in")) blocks.insert(name.substr(0, name.size() - 3));
  }
  REQUIRE(!blocks.empty());
  CHECK(blocks.size() == inspected["layers"].size());
  for (const Json& layer : inspected["layers"]) {
    const int number = layer["layer"];
    CAPTURE(number);
    CheckForward(folder, number, "model.layers." + std::to_string(number) + ".mlp");
  }
}

TEST_CASE("forward writes a routing that agrees with its logits") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  CheckForward(folder, 2, "layers.2.mlp");
  auto tensors = ReadSafetensors(folder / "y.safetensors");
  const int64_t rows = tensors["y"].shape[0];
  CHECK(tensors["ids"].dtype == "I32");
  CHECK(tensors["ids"].shape == std::vector<int64_t>{rows, 2});
  CHECK(tensors["weights"].dtype == "F32");
  CHECK(tensors["weights"].shape == std::vector<int64_t>{rows, 2});
  CHECK(tensors["logits"].dtype == "F32");
  CHECK(tensors["logits"].shape == std::vector<int64_t>{rows, 8});
  const auto ids = tensors["ids"].As<int32_t>();
  const auto weights = tensors["weights"].As<float>();
  const auto logits = tensors["logits"].As<float>();
  for (int64_t row = 0; row < rows; ++row) {
    CAPTURE(row);
    const float* scores = logits.data() + row * 8;
    const int first = static_cast<int>(std::max_element(scores, scores + 8) - scores);
    CHECK(ids[row * 2] == first);
    double sum = 0;
    for (int e = 0; e < 8; ++e) sum += std::exp(double{scores[e]});
    for (int slot = 0; slot < 2; ++slot) {
      const double score = std::exp(double{scores[ids[row * 2 + slot]]}) / sum;
      CHECK(weights[row * 2 + slot] == doctest::Approx(score).epsilon(1e-5));
    }
  }
}

TEST_CASE("forward reads its input in any float dtype") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const unsigned seed = std::random_device{}();
  INFO("seed ", seed);
  std::mt19937 engine(seed);
  // Small integers times 2^-6 are exact in every format here.
  std::uniform_int_distribution<int> integers(-8, 8);
  constexpr int64_t kRows = 5, kHidden = 128;
  StoredTensor f64{"F64", {kRows, kHidden}, {}}, f32{"F32", {kRows, kHidden}, {}};
  StoredTensor bf16{"BF16", {kRows, kHidden}, {}}, f16{"F16", {kRows, kHidden}, {}};
  for (int64_t i = 0; i < kRows * kHidden; ++i) {
    const int integer = integers(engine);
    const double wide = integer / 64.0;
    const auto single = static_cast<float>(wide);
    const auto brain = static_cast<uint16_t>(std::bit_cast<uint32_t>(single) >> 16);
    const int exponent = integer == 0 ? 0 : std::ilogb(single);
    const auto half = static_cast<uint16_t>(
        integer == 0 ? 0
                     : (integer < 0 ? 0x8000 : 0) | ((exponent + 15) << 10) |
                           static_cast<int>((std::fabs(std::ldexp(single, -exponent)) - 1) * 1024));
    f64.bytes.append(reinterpret_cast<const char*>(&wide), 8);
    f32.bytes.append(reinterpret_cast<const char*>(&single), 4);
    bf16.bytes.append(reinterpret_cast<const char*>(&brain), 2);
    f16.bytes.append(reinterpret_cast<const char*>(&half), 2);
  }
  WriteSafetensors(folder / "x.safetensors",
                   {{"F64", f64}, {"F32", f32}, {"BF16", bf16}, {"F16", f16}});
  std::string expected;
  for (const char* name : {"F32", "F64", "BF16", "F16"}) {
    CAPTURE(name);
    const CommandResult result =
        RunMoert(Forward(folder, "--layer 1 --input " + folder / "x.safetensors" + ":" + name));
    INFO(result.errors);
    REQUIRE(result.exit_code == 0);
    const std::string bytes = ReadText(folder / "y.safetensors");
    if (expected.empty()) expected = bytes;
    CHECK((bytes == expected));
  }
}

TEST_CASE("forward computes in bfloat16 when asked to, and still writes float32") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const CommandResult result =
      RunMoert(Forward(folder, "--layer 0 --dtype bf16 --device cpu --input " +
                                   folder / "reference.safetensors" + ":layers.0.mlp.in"));
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  auto tensors = ReadSafetensors(folder / "y.safetensors");
  auto reference = ReadSafetensors(folder / "reference.safetensors");
  CHECK(tensors["y"].dtype == "F32");
  const double error =
      RelativeError(tensors["y"].As<float>(), reference.at("layers.0.mlp.out").As<float>());
  CHECK(error < 2e-2);
  CHECK(error > 1e-5);  // else it was not bfloat16
}

TEST_CASE("forward of no tokens writes empty tensors") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  WriteSafetensors(folder / "x.safetensors", {{"x", {"F32", {0, 128}, ""}}});
  const CommandResult result =
      RunMoert(Forward(folder, "--layer 0 --input " + folder / "x.safetensors" + ":x"));
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  CHECK(ReadSafetensors(folder / "y.safetensors")["y"].shape == std::vector<int64_t>{0, 128});
}

// How often `what` stands in `text`.
int64_t Occurrences(const std::string& text, const std::string& what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_CASE("forward runs all layers at once and draws how often each expert was chosen") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const std::string input = "'" + folder / "reference.safetensors" + ":layers.{}.mlp.in'";
  const CommandResult result =
      RunMoert(Forward(folder, "--layer all --input " + input + " --load " + folder / "load.svg"));
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  auto tensors = ReadSafetensors(folder / "y.safetensors");
  auto reference = ReadSafetensors(folder / "reference.safetensors");
  const std::string picture = ReadText(folder / "load.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(tensors.size() == 16);
  std::map<std::string, int64_t> cells;  // the number in a cell -> how many cells have it
  for (int layer = 0; layer < 4; ++layer) {
    const std::string number = std::to_string(layer);
    const auto expected = reference.at("layers." + number + ".mlp.out").As<float>();
    CHECK(RelativeError(tensors.at(number + ".y").As<float>(), expected) < 1e-5);
    const auto ids = tensors.at(number + ".ids").As<int32_t>();
    for (int expert = 0; expert < 8; ++expert) {
      ++cells[std::to_string(std::count(ids.begin(), ids.end(), expert))];
    }
  }
  for (int expert = 0; expert < 8; ++expert) ++cells[std::to_string(expert)];  // the heading
  for (const auto& [number, count] : cells) {
    CAPTURE(number);
    // The heading and the cells are what is centred.
    int64_t drawn = 0;
    std::istringstream lines(picture);
    for (std::string line; std::getline(lines, line);) {
      drawn +=
          line.find("\"middle\"") != std::string::npos && line.ends_with(">" + number + "</text>");
    }
    CHECK(drawn == count);
  }
}

TEST_CASE("inspect shows the layers, their weights and what is not default") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const std::string text = RunMoert("inspect " + folder / "model.moem").output;
  CHECK(text.find("model qwen2_moe") != std::string::npos);
  CHECK(text.find("layer 0: 8 experts, top_k 2, hidden 128, intermediate 192, shared 256") !=
        std::string::npos);
  CHECK(text.find("layer 3: as layer 0") != std::string::npos);
  CHECK(text.find("shared_expert_gate") != std::string::npos);
  CHECK(text.find("renormalize") == std::string::npos);  // norm_topk_prob is false
  const TemporaryFolder other;
  PackModel(FamilyModel("gpt_oss"), other);
  const std::string gpt = RunMoert("inspect " + other / "model.moem").output;
  for (const char* knob : {"score softmax_top_k", "alpha 1.702", "limit 7", "up_offset 1",
                           "interleaved", "in_out", "router_bias"}) {
    CAPTURE(knob);
    CHECK(gpt.find(knob) != std::string::npos);
  }
}

TEST_CASE("inspect --json has every file, layer and tensor") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const Json all = Json::parse(RunMoert("inspect --json " + folder / "model.moem").output);
  CHECK(all["model_type"] == "qwen2_moe");
  CHECK(all["files"].size() == 1);
  CHECK(all["files"][0]["path"] == "model.safetensors");
  CHECK(all["files"][0]["bytes"] == std::filesystem::file_size(folder / "model.safetensors"));
  CHECK(all["files"][0]["xxh3_128"].get<std::string>().size() == 32);
  CHECK(all["tensors"].size() == ReadSafetensors(folder / "model.safetensors").size());
  CHECK(all["layers"].size() == 4);
  for (int number = 0; number < 4; ++number) {
    const Json& layer = all["layers"][number];
    CHECK(layer["layer"] == number);
    CHECK(layer["dtype"] == "BF16");
    CHECK(layer["routing"]["score"] == "softmax");
    bool found = false;
    for (const Json& weight : layer["weights"]) {
      if (weight["role"] != "expert_down") continue;
      found = true;
      CHECK(weight["rows"] == 128);
      CHECK(weight["cols"] == 192);
      CHECK(weight["tensors"].size() == 8);
    }
    CHECK(found);
  }
}

TEST_CASE("verify accepts what was packed and names what changed since") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  CHECK(RunMoert("verify " + folder / "model.moem").exit_code == 0);
  std::string bytes = ReadText(folder / "model.safetensors");
  bytes[bytes.size() - 5] ^= 1;
  WriteText(folder / "model.safetensors", bytes);
  const CommandResult changed = RunMoert("verify " + folder / "model.moem");
  CHECK(changed.exit_code == 1);
  CHECK(changed.errors.find("model.safetensors") != std::string::npos);
}

TEST_CASE("pack takes an output file and draws no progress bar off a terminal") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const CommandResult result = RunMoert("pack " + folder.path() + " -o " + folder / "other.moem");
  CHECK(result.exit_code == 0);
  CHECK(result.errors.empty());
  CHECK(result.output.find("4 MoE layers") != std::string::npos);
  CHECK((ReadText(folder / "other.moem") == ReadText(folder / "model.moem")));
}

void CheckBench(const std::string& arguments, const std::string& op, int64_t bytes, int64_t flops) {
  const CommandResult result = RunMoert("bench --json " + arguments);
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  std::istringstream lines(result.output);
  std::string line;
  REQUIRE(std::getline(lines, line));
  const Json object = Json::parse(line);
  CHECK_FALSE(std::getline(lines, line));
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  CHECK(keys == std::set<std::string>{"op", "device", "dtype", "experts", "top_k", "hidden",
                                      "intermediate", "tokens", "time_us", "bytes", "flops",
                                      "ceiling_read_gbps", "ceiling_copy_gbps", "ceiling_gflops",
                                      "ceiling_f32_gflops"});
  CHECK(object["op"] == op);
  CHECK(object["device"] == "cpu");
  CHECK(object["time_us"].get<double>() > 0);
  CHECK(object["bytes"] == bytes);
  CHECK(object["flops"] == flops);
  for (const char* ceiling : {"ceiling_read_gbps", "ceiling_copy_gbps", "ceiling_gflops"}) {
    CHECK(object[ceiling].get<double>() > 0.1);
  }
}

TEST_CASE("bench counts the least that a call must move and do") {
  // All 4 experts of 4 are hit: router, 3 matrices each, x and y, ids.
  CheckBench("--shape 4,4,96,40 --tokens 3 --dtype bf16", "layer",
             2 * (4 * 96 + 4 * 3 * 96 * 40 + 2 * 3 * 96) + 4 * 3 * 4,
             3 * (2 * 4 * 96 + 4 * 6 * 96 * 40));
  CheckBench("--shape 4,2,96,40 --tokens 3 --op router", "router",
             4 * (4 * 96 + 3 * 96) + 8 * 3 * 2, 3 * 2 * 4 * 96);
  CheckBench("--shape 4,2,96,40 --tokens 3 --op gate", "gate", 4 * 3 * 3 * 96, 4 * 3 * 96);
}

TEST_CASE("bench runs the layers of a manifest and prints a table") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const CommandResult result = RunMoert("bench " + folder / "model.moem" + " --tokens 1,7");
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  CHECK(result.output.find("8 experts, top_k 2, hidden 128, intermediate 192") !=
        std::string::npos);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 5);
}

TEST_CASE("bench draws one line a shape, over tokens and under the roofline") {
  const TemporaryFolder folder;
  const CommandResult result = RunMoert(
      "bench --op router --shape 4,2,96,40 --shape 16,2,96,40 --tokens 1,8,64 --json --plot " +
      folder / "plot.svg");
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
  CHECK(std::count(result.output.begin(), result.output.end(), '\n') == 6);
  const std::string picture = ReadText(folder / "plot.svg");
  CHECK(picture.starts_with("<svg"));
  CHECK(picture.ends_with("</svg>\n"));
  CHECK(Occurrences(picture, "<circle") == 2 * (3 + 3 + 2));        // both panels and the legend
  CHECK(Occurrences(picture, "<polyline") == 2 * (1 + 1 + 1) + 1);  // and the roof
  CHECK(Occurrences(picture, "nan") == 0);
  CHECK(Occurrences(picture, "inf") == 0);
  for (const char* text : {"4 experts, top_k 2", "16 experts, top_k 2", ">tokens<", "GFLOP/s"}) {
    CAPTURE(text);
    CHECK(Occurrences(picture, text) > 0);
  }
}

TEST_CASE("help and version are no errors") {
  CHECK(RunMoert("--help").exit_code == 0);
  CHECK(RunMoert("forward --help").output.find("--layer") != std::string::npos);
  CHECK(RunMoert("--version").output.find('.') != std::string::npos);
}

}  // namespace
}  // namespace moert::test
