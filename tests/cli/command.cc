// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace moert::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "moert-cli-XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

CommandResult RunMoert(const std::string& arguments, const std::string& setup) {
  const TemporaryFolder folder;
  const std::string script =
      (setup.empty() ? "" : setup + "; ") + "exec '" MOERT_COMMAND "' " + arguments;
  WriteText(folder / "script", script);
  const std::string line =
      "sh " + folder / "script" + " >" + folder / "output" + " 2>" + folder / "errors";
  const int status = std::system(line.c_str());
  CommandResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.output = ReadText(folder / "output");
  result.errors = ReadText(folder / "errors");
  return result;
}

void PackModel(const std::string& source, const TemporaryFolder& folder) {
  for (const char* name : {"config.json", "model.safetensors", "reference.safetensors"}) {
    std::filesystem::copy(source + "/" + name, folder / name);
  }
  const CommandResult packed = RunMoert("pack " + folder.path());
  INFO(packed.errors);
  REQUIRE(packed.exit_code == 0);
}

std::string TrainedModel() { return MOERT_SOURCE_DIR "/examples/tiny-shakespeare-qwen2moe"; }

std::string FamilyModel(const std::string& name) {
  return MOERT_SOURCE_DIR "/tests/data/families/" + name;
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.flush().good());
}

std::map<std::string, StoredTensor> ReadSafetensors(const std::string& path) {
  const std::string file = ReadText(path);
  REQUIRE(file.size() > 8);
  uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof(length));
  REQUIRE(length <= file.size() - 8);
  const auto header = nlohmann::json::parse(file.substr(8, length));
  std::map<std::string, StoredTensor> tensors;
  uint64_t covered = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const auto begin = entry["data_offsets"][0].get<uint64_t>();
    const auto end = entry["data_offsets"][1].get<uint64_t>();
    REQUIRE(end <= file.size() - 8 - length);
    covered += end - begin;
    tensors[name] = {entry["dtype"], entry["shape"], file.substr(8 + length + begin, end - begin)};
  }
  REQUIRE(covered == file.size() - 8 - length);
  return tensors;
}

void WriteSafetensors(const std::string& path, const std::map<std::string, StoredTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    header[name] = {{"dtype", tensor.dtype},
                    {"shape", tensor.shape},
                    {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  WriteText(path,
            std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text + data);
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace moert::test
