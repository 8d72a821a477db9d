// SPDX-License-Identifier: Apache-2.0
// Status: success, or the one line that the command prints before it exits with 1. The command is a
// client of moert.h alone, so it has its own.
#ifndef MOERT_CLI_STATUS_H_
#define MOERT_CLI_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace moert::cli {

class [[nodiscard]] Status {
 public:
  Status() = default;
  // The text names the value that was wrong and what is accepted.
  static Status Failure(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }
  [[gnu::format(printf, 1, 2)]] static Status Format(const char* format, ...);

  bool ok() const { return !message_.has_value(); }
  std::string message() const { return message_.value_or(""); }

 private:
  std::optional<std::string> message_;
};

}  // namespace moert::cli

#define MOERT_CLI_TRY(expression)                                           \
  do {                                                                      \
    if (::moert::cli::Status try_status = (expression); !try_status.ok()) { \
      return try_status;                                                    \
    }                                                                       \
  } while (false)

#endif  // MOERT_CLI_STATUS_H_
