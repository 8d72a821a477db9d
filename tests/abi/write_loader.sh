#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints include/moert/moert_loader.h, made from moert.h and symbols.txt. After a change of either:
#   tests/abi/write_loader.sh > /tmp/loader.h && mv /tmp/loader.h include/moert/moert_loader.h
# A test runs this again and compares.
set -euo pipefail
cd "$(dirname "$0")/../.."

# One line per exported function, in the header's order: "name|return type|parameters".
functions=$(awk '
  /^MOERT_API/ { text = ""; inside = 1 }
  inside { gsub(/^[ \t]+/, ""); text = text " " $0 }
  inside && /;/ {
    inside = 0
    sub(/^ MOERT_API /, "", text)
    match(text, /moert_[a-z0-9_]*\(/)
    name = substr(text, RSTART, RLENGTH - 1)
    type = substr(text, 1, RSTART - 1)
    parameters = substr(text, RSTART + RLENGTH - 1)
    sub(/;.*/, "", parameters)
    sub(/ $/, "", type)
    print name "|" type "|" parameters
  }' include/moert/moert.h)

listed=$(sed -n 's/^\(moert_[a-z0-9_]*\) .*/\1/p' tests/abi/symbols.txt)
if ! difference=$(diff <(echo "$functions" | cut -d'|' -f1 | LC_ALL=C sort) \
                       <(echo "$listed" | LC_ALL=C sort)); then
  echo "moert.h (<) and tests/abi/symbols.txt (>) do not name the same functions:" >&2
  echo "$difference" >&2
  exit 1
fi

members=$(echo "$functions" | awk -F'|' '{
  member = $1; sub(/^moert_/, "", member); print "  " $2 " (*" member ")" $3 ";" }')
names=$(echo "$functions" | awk -F'|' '{ print "      \"" $1 "\"," }' | sed '$ s/,$//')

{
cat <<'TEXT'
/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file moert_loader.h
 * For hosts that load moert at run time instead of linking it: moert_load fills a table with one
 * function pointer per function of moert.h, without the "moert_" in front of its name.
 *
 *   struct moert_api moert;
 *   char why[512];
 *   if (moert_load(&moert, NULL, why, sizeof why) != MOERT_STATUS_OK) { ...no moert here: why... }
 *   moert.runtime_create(NULL, &runtime, &error);
 *   ...
 *   moert_unload(&moert);
 *
 * The functions are static: include this in the files that load. Where dlopen is not part of libc
 * (glibc before 2.34), link with -ldl. Written by tests/abi/write_loader.sh; do not edit.
 */
#ifndef MOERT_MOERT_LOADER_H_
#define MOERT_MOERT_LOADER_H_

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "moert/moert.h"

#ifdef _WIN32
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>
#else
#include <dlfcn.h>
#endif

#if defined(__GNUC__)
#define MOERT_LOADER_FUNCTION static __attribute__((unused))
#else
#define MOERT_LOADER_FUNCTION static
#endif

/** Every function of the ABI. The pointers are valid until moert_unload. */
struct moert_api {
TEXT
echo "$members"
cat <<'TEXT'
  void* library; /**< What the system calls the loaded library. */
};

/* Appends to the caller's error text, cutting what does not fit. */
MOERT_LOADER_FUNCTION void moert_loader_append(char* error, size_t size, const char* text) {
  size_t used;
  if (error == NULL || size == 0) return;
  used = strlen(error);
  while (used + 1 < size && *text != '\0') error[used++] = *text++;
  error[used] = '\0';
}

MOERT_LOADER_FUNCTION void* moert_loader_open(const char* path, char* error, size_t size) {
#ifdef _WIN32
  char code[64];
  void* library = (void*)LoadLibraryA(path);
  if (library != NULL) return library;
  sprintf(code, ": LoadLibrary failed with error %lu", (unsigned long)GetLastError());
  moert_loader_append(error, size, path);
  moert_loader_append(error, size, code);
  return NULL;
#else
  const char* why;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) return library;
  why = dlerror();
  moert_loader_append(error, size, why != NULL ? why : path);
  return NULL;
#endif
}

/** Unloads the library; every handle must have been released. NULL and an empty table are fine. */
MOERT_LOADER_FUNCTION void moert_unload(struct moert_api* api) {
  if (api == NULL) return;
  if (api->library != NULL) {
#ifdef _WIN32
    FreeLibrary((HMODULE)api->library);
#else
    dlclose(api->library);
#endif
  }
  memset(api, 0, sizeof(*api));
}

/* Fills the pointers, which come first in the table and are all of one size. */
MOERT_LOADER_FUNCTION int moert_loader_resolve(struct moert_api* api, char* error, size_t size) {
  static const char* const names[] = {
TEXT
echo "$names"
cat <<'TEXT'
  };
  size_t i;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
#ifdef _WIN32
    FARPROC symbol = GetProcAddress((HMODULE)api->library, names[i]);
#else
    void* symbol = dlsym(api->library, names[i]);
#endif
    if (symbol == NULL) {
      moert_loader_append(error, size, "the library has no ");
      moert_loader_append(error, size, names[i]);
      return 0;
    }
    memcpy((char*)api + i * sizeof(symbol), &symbol, sizeof(symbol));
  }
  return 1;
}

/* The ABI number is compared first: libraries of another ABI may lack functions. */
MOERT_LOADER_FUNCTION int moert_loader_check_abi(struct moert_api* api, char* error, size_t size) {
  uint32_t (*abi_version)(void);
  char text[96];
#ifdef _WIN32
  FARPROC symbol = GetProcAddress((HMODULE)api->library, "moert_abi_version");
#else
  void* symbol = dlsym(api->library, "moert_abi_version");
#endif
  if (symbol == NULL) {
    moert_loader_append(error, size, "the library has no moert_abi_version: it is not moert");
    return 0;
  }
  memcpy(&abi_version, &symbol, sizeof(symbol));
  if (abi_version() == MOERT_ABI_VERSION) return 1;
  sprintf(text, "the library has moert ABI %lu, this program was built for %lu",
          (unsigned long)abi_version(), (unsigned long)MOERT_ABI_VERSION);
  moert_loader_append(error, size, text);
  return 0;
}

/**
 * Loads the library and fills `api`.
 * @param path   The library; NULL: libmoert.so.0, then libmoert.so (moert.dll on Windows).
 * @param error  May be NULL; else says on failure what was tried, in up to `error_size` bytes.
 * @return OK or UNAVAILABLE; then `api` is all zeros and nothing stays loaded.
 */
MOERT_LOADER_FUNCTION moert_status moert_load(struct moert_api* api, const char* path, char* error,
                                              size_t error_size) {
#ifdef _WIN32
  static const char* const defaults[] = {"moert.dll"};
#else
  static const char* const defaults[] = {"libmoert.so.0", "libmoert.so"};
#endif
  const size_t count = path != NULL ? 1 : sizeof(defaults) / sizeof(defaults[0]);
  size_t i;
  memset(api, 0, sizeof(*api));
  if (error != NULL && error_size != 0) error[0] = '\0';
  for (i = 0; i < count && api->library == NULL; ++i) {
    if (i != 0) moert_loader_append(error, error_size, "; ");
    api->library = moert_loader_open(path != NULL ? path : defaults[i], error, error_size);
  }
  if (api->library == NULL) return MOERT_STATUS_UNAVAILABLE;
  if (error != NULL && error_size != 0) error[0] = '\0';
  if (moert_loader_check_abi(api, error, error_size) &&
      moert_loader_resolve(api, error, error_size)) {
    return MOERT_STATUS_OK;
  }
  moert_unload(api);
  return MOERT_STATUS_UNAVAILABLE;
}

#endif /* MOERT_MOERT_LOADER_H_ */
TEXT
} | clang-format --style=file --assume-filename=include/moert/moert_loader.h
