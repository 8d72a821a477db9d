// SPDX-License-Identifier: Apache-2.0
// The moert command on bad input: it exits with 1, says on one line what was wrong and leaves no
// file.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "command.h"

namespace moert::test {
namespace {

// The command fails, and its one line of errors has each of the words.
void CheckRefused(const std::string& arguments, const std::vector<std::string>& words,
                  const std::string& setup = "") {
  CAPTURE(arguments);
  const CommandResult result = RunMoert(arguments, setup);
  CAPTURE(result.errors);
  CHECK(result.exit_code == 1);
  CHECK(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  CHECK(result.errors.starts_with("moert: "));
  CHECK(result.errors.ends_with('\n'));
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(result.errors.find(word) != std::string::npos);
  }
}

// The packed trained model, and a forward call of it that is right but for what a test changes.
struct Model {
  TemporaryFolder folder;
  std::string manifest, input, layer = "0", output, options;

  Model() {
    PackModel(TrainedModel(), folder);
    manifest = folder / "model.moem";
    input = folder / "reference.safetensors" + ":layers.0.mlp.in";
    output = folder / "y.safetensors";
  }
  std::string Arguments() const {
    return "forward '" + manifest + "' --layer '" + layer + "' --input '" + input + "' --output '" +
           output + "' " + options;
  }
  size_t NumFiles() const {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  }
  // Refused, and nothing was left in the folder.
  void CheckForwardRefused(const std::vector<std::string>& words,
                           const std::string& setup = "") const {
    const size_t before = NumFiles();
    CheckRefused(Arguments(), words, setup);
    CHECK(NumFiles() == before);
  }
};

TEST_CASE("a command line that is wrong is refused with what is accepted") {
  CheckRefused("", {"devices", "forward"});
  CheckRefused("frobnicate", {"frobnicate", "devices", "bench"});
  CheckRefused("--frobnicate devices", {"--frobnicate"});
  CheckRefused("devices --json", {"--json"});
  CheckRefused("devices extra", {"extra"});
  CheckRefused("inspect", {"F"});
  CheckRefused("pack", {"DIR"});
  CheckRefused("forward model.moem --frobnicate", {"--"});
  CheckRefused("forward model.moem --layer", {"--layer"});
  CheckRefused("devices 'a\nb'", {"a\\x0ab"});
}

TEST_CASE("a missing file is named") {
  const TemporaryFolder folder;
  CheckRefused("inspect " + folder / "none.moem", {"none.moem"});
  CheckRefused("verify " + folder / "none.moem", {"none.moem"});
  CheckRefused("bench " + folder / "none.moem", {"none.moem"});
  CheckRefused("pack " + folder / "none", {"none"});
  CheckRefused("pack " + folder.path(), {"config.json"});
  Model model;
  model.input = model.folder / "none.safetensors" + ":x";
  model.CheckForwardRefused({"none.safetensors"});
  std::filesystem::remove(model.folder / "model.safetensors");
  CheckRefused("inspect " + model.manifest, {"model.safetensors"});
}

TEST_CASE("a file that is no manifest is refused") {
  const TemporaryFolder folder;
  WriteText(folder / "text", "this is no manifest, whatever its length may be");
  WriteText(folder / "empty", "");
  for (const char* name : {"text", "empty"}) {
    CheckRefused("inspect " + folder / name, {name});
    CheckRefused("verify " + folder / name, {name});
  }
  CheckRefused("inspect " + folder.path(), {});
  CheckRefused("inspect " + TrainedModel() + "/model.safetensors", {"model.safetensors"});
}

TEST_CASE("pack names an unknown model type and an unusable family") {
  const TemporaryFolder folder;
  std::filesystem::copy(TrainedModel() + "/model.safetensors", folder / "model.safetensors");
  WriteText(folder / "config.json", R"({"model_type": "frobnicator"})");
  CheckRefused("pack " + folder.path(), {"frobnicator", "mixtral"});
  WriteText(folder / "config.json", ReadText(TrainedModel() + "/config.json"));
  CheckRefused("pack " + folder.path() + " --family " + folder / "none.json", {"none.json"});
  WriteText(folder / "family.json", "not JSON");
  CheckRefused("pack " + folder.path() + " --family " + folder / "family.json", {});
  CHECK_FALSE(std::filesystem::exists(folder / "model.moem"));
}

TEST_CASE("pack leaves no half file") {
  const TemporaryFolder folder;
  PackModel(TrainedModel(), folder);
  const std::string before = ReadText(folder / "model.moem");
  CheckRefused("pack " + folder.path() + " -o " + folder / "none/x.moem", {"none/x.moem"});
  // A file size limit stands for a disk that fills.
  CheckRefused("pack " + folder.path(), {"model.moem"}, "ulimit -f 1");
  CHECK((ReadText(folder / "model.moem") == before));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 4);
}

TEST_CASE("forward refuses a layer that the model does not have") {
  Model model;
  for (const char* layer : {"4", "-1", "x", "1.5", "", "99999999999"}) {
    model.layer = layer;
    model.CheckForwardRefused({layer});
  }
}

TEST_CASE("forward refuses an input that is not there or does not fit") {
  Model model;
  const std::string reference = model.folder / "reference.safetensors";
  model.input = reference + ":layers.9.mlp.in";
  model.CheckForwardRefused({"layers.9.mlp.in", "layers.0.mlp.in"});
  model.input = reference;
  model.CheckForwardRefused({"X.safetensors:TENSOR"});
  model.input = reference + ":";
  model.CheckForwardRefused({"X.safetensors:TENSOR"});
  model.input = reference + ":logits";
  model.CheckForwardRefused({"[46, 256]", "128"});
  model.input = reference + ":input_ids";
  model.CheckForwardRefused({"input_ids", "I32"});
  model.input = model.folder / "config.json" + ":x";
  model.CheckForwardRefused({"config.json"});
  model.input = model.folder.path() + ":x";
  model.CheckForwardRefused({model.folder.path()});
}

TEST_CASE("forward refuses a safetensors header that lies") {
  Model model;
  const auto with_header = [&](const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    WriteText(model.folder / "x.safetensors",
              std::string(reinterpret_cast<const char*>(&length), 8) + header +
                  std::string(data_bytes, '\0'));
  };
  WriteText(model.folder / "x.safetensors", "");
  model.input = model.folder / "x.safetensors" + ":x";
  model.CheckForwardRefused({"x.safetensors"});
  with_header("", 512);
  model.CheckForwardRefused({"header length 0"});
  WriteText(model.folder / "x.safetensors", std::string(64, '\xff'));
  model.CheckForwardRefused({"header length"});
  for (const char* header :
       {"[1]", "{", R"({"x":1})", R"({"x":{"dtype":"F32","shape":[1,128]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":[0,508]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":[512,0]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":[512,1024]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":[0]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":["0",512]}})",
        R"({"x":{"dtype":"F33","shape":[1,128],"data_offsets":[0,512]}})",
        R"({"x":{"dtype":7,"shape":[1,128],"data_offsets":[0,512]}})",
        R"({"x":{"dtype":"F32","shape":[-1,128],"data_offsets":[0,512]}})",
        R"({"x":{"dtype":"F32","shape":"1","data_offsets":[0,512]}})",
        R"({"x":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
        R"({"x":{"dtype":"F32","shape":[1,128],"data_offsets":[0,512]},)"
        R"("x":{"dtype":"F32","shape":[1,128],"data_offsets":[0,512]}})"}) {
    CAPTURE(header);
    with_header(header, 512);
    model.CheckForwardRefused({"x.safetensors"});
  }
}

TEST_CASE("forward refuses unknown devices and dtypes") {
  Model model;
  for (const char* device : {"gpu", "cuda:99", "cuda:x", "hip:", "cpu:1", ""}) {
    model.options = "--device '" + std::string(device) + "'";
    model.CheckForwardRefused({device});
  }
  for (const char* dtype : {"f64", "float32", "F32", ""}) {
    model.options = "--dtype '" + std::string(dtype) + "'";
    model.CheckForwardRefused({dtype, "bf16"});
  }
  model.options = "--dtype f16";  // the weights are bfloat16, which float16 cannot hold
  model.CheckForwardRefused({"F16", "BF16"});
}

TEST_CASE("forward leaves no half file") {
  Model model;
  model.output = model.folder / "none/y.safetensors";
  model.CheckForwardRefused({"none/y.safetensors"});
  model.output = model.folder.path();
  model.CheckForwardRefused({model.folder.path()});
  model.output = "/dev/full";
  model.CheckForwardRefused({"/dev/full"});
  CHECK(std::filesystem::is_character_file("/dev/full"));
  model.output = model.folder / "y.safetensors";
  WriteText(model.output, "what was there before");
  model.CheckForwardRefused({"y.safetensors"}, "ulimit -f 1");
  CHECK(ReadText(model.output) == "what was there before");
}

TEST_CASE("forward replaces nothing that it reads") {
  Model model;
  for (const char* name : {"model.safetensors", "model.moem", "reference.safetensors"}) {
    model.output = model.folder / name;
    const std::string before = ReadText(model.output);
    model.CheckForwardRefused({name, "which the call reads"});
    CHECK(ReadText(model.output) == before);
  }
  std::filesystem::create_hard_link(model.folder / "model.safetensors", model.folder / "other");
  model.output = model.folder / "other";
  model.CheckForwardRefused({"other", "which the call reads"});
}

TEST_CASE("forward of several layers needs an input for each, and somewhere to write") {
  Model model;
  model.layer = "0,1";
  model.CheckForwardRefused({"{}", "layers.0.mlp.in"});
  model.layer = "0,9";
  model.input = model.folder / "reference.safetensors" + ":layers.{}.mlp.in";
  model.CheckForwardRefused({"9"});
  CheckRefused("forward " + model.manifest + " --layer 0,0 --input '" + model.input +
                   "' --output '" + model.output + "'",
               {"names 0 twice"});
  CheckRefused("forward " + model.manifest + " --layer all --input '" + model.input + "'",
               {"--output", "--load"});
  CheckRefused("forward " + model.manifest + " --layer all --input '" + model.input + "' --load " +
                   model.folder / "none/load.svg",
               {"none/load.svg"});
}

TEST_CASE("bench refuses what it cannot time") {
  CheckRefused("bench", {"--shape"});
  CheckRefused("bench model.moem --shape 8,2,64,32", {"--shape"});
  CheckRefused("bench --shape 8,2,64", {"8,2,64", "EXPERTS,TOP_K,HIDDEN,INTERMEDIATE"});
  CheckRefused("bench --shape 8,2,64,32,16,1", {"8,2,64,32,16,1"});
  CheckRefused("bench --shape 8,9,64,32", {"top_k 9", "8 experts"});
  CheckRefused("bench --shape 8,0,64,32", {"top_k 0"});
  CheckRefused("bench --shape 0,0,64,32", {"0,0,64,32"});
  CheckRefused("bench --shape 8,2,x,32", {"\"x\""});
  CheckRefused("bench --shape 8,2,64,32 --tokens 0", {"--tokens", "\"0\""});
  CheckRefused("bench --shape 8,2,64,32 --tokens 1,,2", {"--tokens", "\"\""});
  CheckRefused("bench --shape 8,2,64,32 --op frobnicate", {"frobnicate", "router"});
  CheckRefused("bench --shape 8,2,64,32 --op train", {"train", "not supported"});
  CheckRefused("bench --shape 8,2,64,32 --dtype int8", {"int8", "bf16"});
  CheckRefused("bench --shape 8,2,64,32 --weights int8", {"int8", "bf16"});
  CheckRefused("bench --shape 8,2,64,32 --device tpu:0", {"tpu:0"});
  CheckRefused("bench --shape 8,2,64,32 --shape 8,2,64", {"8,2,64\""});
  CheckRefused("bench --shape 1000000,1,1000000,1000000 --tokens 1", {"memory"});
}

TEST_CASE("output that cannot be written is an error") {
  CheckRefused("devices", {"standard output"}, "exec >/dev/full");
}

}  // namespace
}  // namespace moert::test
