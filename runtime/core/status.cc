// SPDX-License-Identifier: Apache-2.0
#include "core/status.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/caller_struct.h"

namespace moert {

struct Status::Payload {
  moert_status code;
  int64_t native_code;
  char message[sizeof(moert_error::message)];
};

namespace {

// Stands in for a payload that could not be allocated: one for each code, so the code is not lost.
constexpr moert_status kNumCodes = MOERT_STATUS_INTERNAL + 1;
constexpr moert_status kCodes[kNumCodes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace

// A payload pointer with its lowest bit set points into kCodes instead.
static bool IsBareCode(const void* payload) {
  return (reinterpret_cast<uintptr_t>(payload) & 1u) != 0;
}
static moert_status BareCode(const void* payload) {
  return *reinterpret_cast<const moert_status*>(reinterpret_cast<uintptr_t>(payload) - 1u);
}

Status Status::MakeV(moert_status code, int64_t native_code, const char* format, va_list args) {
  Status status;
  auto* payload = static_cast<Payload*>(std::malloc(sizeof(Payload)));
  if (payload == nullptr) {
    const moert_status known = code > 0 && code < kNumCodes ? code : MOERT_STATUS_INTERNAL;
    status.payload_ = reinterpret_cast<Payload*>(reinterpret_cast<uintptr_t>(&kCodes[known]) + 1u);
    return status;
  }
  payload->code = code;
  payload->native_code = native_code;
  std::vsnprintf(payload->message, sizeof(payload->message), format, args);
  status.payload_ = payload;
  return status;
}

Status Status::Make(moert_status code, int64_t native_code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = MakeV(code, native_code, format, args);
  va_end(args);
  return status;
}

void Status::Clear() {
  if (payload_ != nullptr && !IsBareCode(payload_)) std::free(payload_);
  payload_ = nullptr;
}

moert_status Status::code() const {
  if (ok()) return MOERT_STATUS_OK;
  return IsBareCode(payload_) ? BareCode(payload_) : payload_->code;
}

int64_t Status::native_code() const {
  return ok() || IsBareCode(payload_) ? 0 : payload_->native_code;
}

const char* Status::message() const {
  if (ok()) return "";
  return IsBareCode(payload_) ? "out of memory for the error text" : payload_->message;
}

moert_status Status::Report(moert_error* error) const {
  if (ok() || error == nullptr) return code();
  moert_error full = MOERT_ERROR_INIT;
  full.code = code();
  full.native_code = native_code();
  std::snprintf(full.message, sizeof(full.message), "%s", message());
  if (error->struct_size == 0) error->struct_size = sizeof(moert_error);
  WriteCallerStruct(full, error);
  // A caller's shorter struct still gets a text that ends.
  const size_t text = offsetof(moert_error, message);
  if (error->struct_size > text && error->struct_size < sizeof(moert_error)) {
    error->message[error->struct_size - text - 1] = '\0';
  }
  return full.code;
}

#define MOERT_DEFINE_STATUS(Name, CODE)                   \
  Status Name(const char* format, ...) {                  \
    va_list args;                                         \
    va_start(args, format);                               \
    Status status = Status::MakeV(CODE, 0, format, args); \
    va_end(args);                                         \
    return status;                                        \
  }
MOERT_DEFINE_STATUS(InvalidArgument, MOERT_STATUS_INVALID_ARGUMENT)
MOERT_DEFINE_STATUS(Unsupported, MOERT_STATUS_UNSUPPORTED)
MOERT_DEFINE_STATUS(Unavailable, MOERT_STATUS_UNAVAILABLE)
MOERT_DEFINE_STATUS(NotFound, MOERT_STATUS_NOT_FOUND)
MOERT_DEFINE_STATUS(OutOfMemory, MOERT_STATUS_OUT_OF_MEMORY)
MOERT_DEFINE_STATUS(FileChanged, MOERT_STATUS_FILE_CHANGED)
MOERT_DEFINE_STATUS(Internal, MOERT_STATUS_INTERNAL)
#undef MOERT_DEFINE_STATUS

Status IoError(int64_t error_number, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = Status::MakeV(MOERT_STATUS_IO_ERROR, error_number, format, args);
  va_end(args);
  return status;
}

Status CorruptData(moert_corruption what, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status = Status::MakeV(MOERT_STATUS_CORRUPT_DATA, what, format, args);
  va_end(args);
  return status;
}

}  // namespace moert
