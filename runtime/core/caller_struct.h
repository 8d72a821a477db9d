// SPDX-License-Identifier: Apache-2.0
// The struct_size rule of the ABI: structs that callers fill are extended with zeros or accepted
// with a zero tail, structs that the library fills are written up to the caller's size.
#ifndef MOERT_CORE_CALLER_STRUCT_H_
#define MOERT_CORE_CALLER_STRUCT_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/status.h"

namespace moert {

// Copies a caller's struct into `out` by the rule. `name` is the type's, for the message. What is
// known is copied even when an unknown tail makes this fail, so that a free_fn in it can still be
// called.
template <class T>
Status ReadCallerStruct(const char* name, const T& in, T* out) {
  const uint32_t size = in.struct_size;
  *out = T{};
  if (size < sizeof(uint32_t) || size > 65536) {
    return InvalidArgument("%s.struct_size is %u; set it with the struct's INIT macro (%zu)", name,
                           size, sizeof(T));
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(&in);
  std::memcpy(static_cast<void*>(out), bytes, std::min<size_t>(size, sizeof(T)));
  out->struct_size = sizeof(T);
  for (uint32_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      return InvalidArgument(
          "%s.struct_size is %u and byte %u is not zero; this library knows %zu bytes and accepts "
          "only zeros beyond",
          name, size, i, sizeof(T));
    }
  }
  return Status();
}

// Checks struct_size of a struct that the library will fill.
template <class T>
Status CheckOutputStruct(const char* name, const T* out) {
  if (out == nullptr) return InvalidArgument("%s is NULL", name);
  if (out->struct_size < sizeof(uint32_t)) {
    return InvalidArgument("%s.struct_size is %u; set it with the struct's INIT macro (%zu)", name,
                           out->struct_size, sizeof(T));
  }
  return Status();
}

// Writes `full` up to out->struct_size, which stays.
template <class T>
void WriteCallerStruct(const T& full, T* out) {
  constexpr size_t kHead = sizeof(uint32_t);
  const size_t size = std::min<size_t>(out->struct_size, sizeof(T));
  if (size <= kHead) return;
  std::memcpy(reinterpret_cast<char*>(out) + kHead, reinterpret_cast<const char*>(&full) + kHead,
              size - kHead);
}

}  // namespace moert

#endif  // MOERT_CORE_CALLER_STRUCT_H_
