// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <string>

#include "cli/text.h"

namespace moert::cli {
namespace {

constexpr int kWidth = 40;  // columns of the bar itself
constexpr auto kInterval = std::chrono::milliseconds(50);

volatile std::sig_atomic_t g_interrupted = 0;

void Interrupt(int) { g_interrupted = 1; }

}  // namespace

Progress::Progress(const char* title)
    : title_(title),
      terminal_(isatty(STDERR_FILENO) == 1),
      previous_handler_(std::signal(SIGINT, Interrupt)) {}

Progress::~Progress() {
  std::signal(SIGINT, previous_handler_);
  if (terminal_) std::fputs("\r\033[K", stderr);
}

int32_t Progress::Report(void* user_data, uint64_t done_bytes, uint64_t total_bytes) {
  auto* progress = static_cast<Progress*>(user_data);
  if (progress->terminal_) progress->Draw(done_bytes, total_bytes);
  return g_interrupted;
}

bool Progress::interrupted() const { return g_interrupted != 0; }

void Progress::Draw(uint64_t done_bytes, uint64_t total_bytes) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  const double share =
      total_bytes == 0 ? 1.0 : static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const int filled = std::clamp(static_cast<int>(share * kWidth), 0, kWidth);
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '-');
  std::fprintf(stderr, "\r%s [%s] %3d%% of %s\033[K", title_, bar.c_str(),
               static_cast<int>(share * 100), Bytes(total_bytes).c_str());
}

}  // namespace moert::cli
