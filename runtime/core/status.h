// SPDX-License-Identifier: Apache-2.0
// Status: the result of everything inside the library that can fail. A pointer wide; success costs
// nothing. The api/ shells copy it into the caller's moert_error.
#ifndef MOERT_CORE_STATUS_H_
#define MOERT_CORE_STATUS_H_

#include <cstdarg>
#include <cstdint>
#include <utility>

#include "moert/moert.h"

namespace moert {

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Status&& other) noexcept : payload_(std::exchange(other.payload_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    if (this != &other) {
      Clear();
      payload_ = std::exchange(other.payload_, nullptr);
    }
    return *this;
  }
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  ~Status() { Clear(); }

  // `format` as printf. If there is no memory for the text, the code alone is kept.
  static Status MakeV(moert_status code, int64_t native_code, const char* format, va_list args);
  [[gnu::format(printf, 3, 4)]] static Status Make(moert_status code, int64_t native_code,
                                                   const char* format, ...);

  bool ok() const { return payload_ == nullptr; }
  moert_status code() const;
  int64_t native_code() const;
  const char* message() const;  // "" on success

  // Fills `error` (may be null, may be short) on failure; returns the code.
  moert_status Report(moert_error* error) const;

 private:
  struct Payload;
  void Clear();
  Payload* payload_ = nullptr;
};

[[gnu::format(printf, 1, 2)]] Status InvalidArgument(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status Unsupported(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status Unavailable(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status NotFound(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status OutOfMemory(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status FileChanged(const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status Internal(const char* format, ...);
// `error_number` is errno's value.
[[gnu::format(printf, 2, 3)]] Status IoError(int64_t error_number, const char* format, ...);
[[gnu::format(printf, 2, 3)]] Status CorruptData(moert_corruption what, const char* format, ...);

}  // namespace moert

#define MOERT_RETURN_IF_ERROR(expression)                                    \
  do {                                                                       \
    if (::moert::Status moert_status_ = (expression); !moert_status_.ok()) { \
      return moert_status_;                                                  \
    }                                                                        \
  } while (false)

#endif  // MOERT_CORE_STATUS_H_
