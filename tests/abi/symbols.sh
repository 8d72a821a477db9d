#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the shared library shows to and needs from a host.   symbols.sh LIBRARY
set -euo pipefail
library=$1
here=$(cd "$(dirname "$0")" && pwd)
failed=0
fail() { echo "$1" >&2; failed=1; }

# Names with the version that brought each; the version nodes themselves are absolute symbols (A).
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
  sed 's/@@MOERT_/ /' | LC_ALL=C sort)
listed=$(grep '^moert_' "$here/symbols.txt" | LC_ALL=C sort)
diff <(echo "$listed") <(echo "$exported") ||
  fail "the library (>) does not export what tests/abi/symbols.txt lists (<)"

dynamic=$(readelf -dW "$library")
echo "$dynamic" | grep -q 'SONAME.*\[libmoert\.so\.0\]' || fail "the SONAME is not libmoert.so.0"
while read -r needed; do
  case $needed in
    libc.so.6 | libm.so.6 | ld-linux*.so.*) ;;
    *) fail "needs $needed; only libc, libm and the loader are allowed" ;;
  esac
done < <(echo "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
echo "$dynamic" | grep -qE 'RPATH|RUNPATH|TEXTREL' && fail "has an RPATH, RUNPATH or TEXTREL"
echo "$dynamic" | grep -q 'BIND_NOW\|NOW' || fail "is not bound at load time"
echo "$dynamic" | grep -q NODELETE && fail "is marked NODELETE"
readelf -lW "$library" | grep -q GNU_RELRO || fail "has no RELRO segment"
readelf -lW "$library" | grep -q 'GNU_STACK.*RWE' && fail "asks for an executable stack"
readelf -sW "$library" | grep -q ' UNIQUE ' && fail "has unique symbols, which prevent unloading"

stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$library"
size=$(stat -c %s "$stripped")
echo "stripped: $size bytes"
[ "$size" -lt $((3 * 1024 * 1024)) ] || fail "is $size bytes stripped, not under 3 MB"
exit $failed
