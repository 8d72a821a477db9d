// SPDX-License-Identifier: Apache-2.0
// Files of the command: read at an offset, or written whole or not at all.
#ifndef MOERT_CLI_FILE_H_
#define MOERT_CLI_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cli/status.h"

namespace moert::cli {

// "cannot VERB PATH: what errno says".
Status SystemError(const char* verb, const std::string& path);

// A regular file open for reading.
class InputFile {
 public:
  InputFile() = default;
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  Status Open(const std::string& path);
  uint64_t size() const { return size_; }
  // Reads exactly that many bytes.
  Status ReadAt(uint64_t offset, void* data, uint64_t bytes) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// Writes the parts one after another and replaces `path` in one step. What is no regular file (a
// pipe, a device) is written to directly.
Status WriteWholeFile(const std::string& path, std::span<const std::string_view> parts);

}  // namespace moert::cli

#endif  // MOERT_CLI_FILE_H_
