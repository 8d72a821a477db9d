// SPDX-License-Identifier: Apache-2.0
// What every exported function shares: nothing thrown crosses the ABI, and null handles are
// refused.
#ifndef MOERT_API_SHELL_H_
#define MOERT_API_SHELL_H_

#include <exception>
#include <new>

#include "core/caller_struct.h"
#include "core/status.h"

namespace moert {

// Runs `body`, a callable that returns Status, and reports its result to the caller.
template <class Body>
moert_status Call(moert_error* error, const Body& body) noexcept {
  try {
    return body().Report(error);
  } catch (const std::bad_alloc&) {
    return OutOfMemory("host memory ran out").Report(error);
  } catch (const std::exception& exception) {
    return Internal("unexpected: %s", exception.what()).Report(error);
  } catch (...) {
    return Internal("unexpected exception").Report(error);
  }
}

template <class T>
Status CheckNotNull(const char* name, const T* pointer) {
  return pointer != nullptr ? Status() : InvalidArgument("%s is NULL", name);
}

// Reads a caller's struct that may be NULL, which means all defaults.
template <class T>
Status ReadOptionalStruct(const char* name, const T* in, T* out) {
  if (in != nullptr) return ReadCallerStruct(name, *in, out);
  *out = T{};
  out->struct_size = sizeof(T);
  return Status();
}

template <class T>
Status ReadRequiredStruct(const char* name, const T* in, T* out) {
  MOERT_RETURN_IF_ERROR(CheckNotNull(name, in));
  return ReadCallerStruct(name, *in, out);
}

}  // namespace moert

#endif  // MOERT_API_SHELL_H_
