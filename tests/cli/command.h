// SPDX-License-Identifier: Apache-2.0
// Running the moert command in tests, and the files that it reads and writes.
#ifndef MOERT_TESTS_CLI_COMMAND_H_
#define MOERT_TESTS_CLI_COMMAND_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace moert::test {

// A folder that is gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct CommandResult {
  int exit_code = -1;  // -1: ended by a signal
  std::string output;
  std::string errors;
};

// Runs `moert ARGUMENTS` in a shell; `setup` are shell commands before it in the same process.
CommandResult RunMoert(const std::string& arguments, const std::string& setup = "");

// The trained model or a family's checkpoint, copied into `folder` and packed as folder/model.moem.
void PackModel(const std::string& source, const TemporaryFolder& folder);
std::string TrainedModel();
std::string FamilyModel(const std::string& name);

std::string ReadText(const std::string& path);
void WriteText(const std::string& path, const std::string& text);

struct StoredTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  template <class T>
  std::vector<T> As() const {
    std::vector<T> values(bytes.size() / sizeof(T));
    bytes.copy(reinterpret_cast<char*>(values.data()), values.size() * sizeof(T));
    return values;
  }
};
std::map<std::string, StoredTensor> ReadSafetensors(const std::string& path);
void WriteSafetensors(const std::string& path, const std::map<std::string, StoredTensor>& tensors);

// ||a - b|| / ||b||.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace moert::test

#endif  // MOERT_TESTS_CLI_COMMAND_H_
