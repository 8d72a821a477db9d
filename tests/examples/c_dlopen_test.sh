#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the dlopen example: c_dlopen_test.sh PROGRAM LIBRARY. Its numbers were worked out by hand.
set -euo pipefail
output=$("$1" "$2")
fail() {
  printf 'c_dlopen: expected %s; printed:\n%s\n' "$1" "$output" >&2
  exit 1
}
expect() { grep -qxE "$1" <<<"$output" || fail "a line '$1'"; }
expect 'moert [0-9]+\.[0-9]+\.[0-9]+'
expect 'device cpu: .+, .+'
expect 'x \(3, 1\) -> expert 0 -> y \(9, 18\)'
expect 'x \(1, 2\) -> expert 1 -> y \(-4, 4\)'
expect 'x \(-1, -2\) -> expert 0 -> y \(0, 0\)'

# Without a library it says what it tried, and that is all.
if output=$("$1" /nonexistent/libmoert.so.0 2>&1); then fail 'a failure'; fi
expect 'c_dlopen: .*/nonexistent/libmoert.so.0.*'
