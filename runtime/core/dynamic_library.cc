// SPDX-License-Identifier: Apache-2.0
#include "core/dynamic_library.h"

#if defined(_WIN32)
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace moert {
namespace {

void AppendFailure(const char* name, const char* reason, std::string* tried) {
  if (!tried->empty()) tried->append("; ");
  // The system's reason mostly begins with the name.
  const std::string text = reason;
  if (text.rfind(name, 0) != 0) tried->append(name).append(": ");
  tried->append(text);
}

[[maybe_unused]] const char kAnchor = 0;  // an address inside this file

}  // namespace

#if defined(_WIN32)

void* OpenLibrary(const char* name, std::string* tried) {
  HMODULE library = LoadLibraryExA(name, nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32);
  if (library == nullptr) library = LoadLibraryA(name);
  if (library == nullptr) {
    AppendFailure(name, ("error " + std::to_string(GetLastError())).c_str(), tried);
  }
  return library;
}

void* FindSymbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
}

std::string OwnDirectory() {
  HMODULE module = nullptr;
  char path[MAX_PATH];
  GetModuleHandleExA(
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
      &kAnchor, &module);
  const DWORD length = GetModuleFileNameA(module, path, sizeof(path));
  std::string text(path, length);
  const size_t slash = text.find_last_of("\\/");
  return slash == std::string::npos ? "" : text.substr(0, slash);
}

#else

void* OpenLibrary(const char* name, std::string* tried) {
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    AppendFailure(name, reason != nullptr ? reason : "cannot be opened", tried);
  }
  return library;
}

void* FindSymbol(void* library, const char* name) { return dlsym(library, name); }

std::string OwnDirectory() {
  Dl_info info;
  if (dladdr(&kAnchor, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

#endif

}  // namespace moert
