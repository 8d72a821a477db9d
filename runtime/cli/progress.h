// SPDX-License-Identifier: Apache-2.0
// A progress bar on stderr for pack and verify: drawn only on a terminal, gone when it ends. While
// one lives, an interrupt (Ctrl-C) stops the call instead of the process, so that it cleans up.
#ifndef MOERT_CLI_PROGRESS_H_
#define MOERT_CLI_PROGRESS_H_

#include <chrono>
#include <cstdint>

namespace moert::cli {

class Progress {
 public:
  explicit Progress(const char* title);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A moert_progress_fn whose user_data is the Progress.
  static int32_t Report(void* user_data, uint64_t done_bytes, uint64_t total_bytes);
  bool interrupted() const;

 private:
  void Draw(uint64_t done_bytes, uint64_t total_bytes);

  const char* title_;
  bool terminal_;
  void (*previous_handler_)(int);
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace moert::cli

#endif  // MOERT_CLI_PROGRESS_H_
