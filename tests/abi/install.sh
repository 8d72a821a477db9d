#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a build, moves the installed tree elsewhere, and builds and runs programs in C against it:
# with CMake and with pkg-config, shared and static.   install.sh BUILD_DIR
set -euo pipefail
build=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$1" >&2; exit 1; }

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
prefix=$work/moved
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name moert.pc)")
libdir=$(dirname "$PKG_CONFIG_PATH")

for file in include/moert/moert.h include/moert/moert.hpp include/moert/moert_loader.h bin/moert; do
  [ -f "$prefix/$file" ] || fail "$file is not installed"
done
[ -e "$libdir/libmoert.so.0" ] || fail "libmoert.so.0 is not installed"
"$prefix/bin/moert" devices | grep -q cpu || fail "the installed moert command lists no CPU"

cmake -S "$here/consumer" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/cmake" >/dev/null
"$work/cmake/consumer_shared"
"$work/cmake/consumer_static"
readelf -d "$work/cmake/consumer_static" | grep -q libmoert && fail "consumer_static needs libmoert.so"

# Unquoted: pkg-config prints separate arguments.
cc "$here/consumer/consumer.c" -o "$work/shared" $(pkg-config --cflags --libs moert)
LD_LIBRARY_PATH=$libdir "$work/shared"
cc -static "$here/consumer/consumer.c" -o "$work/static" $(pkg-config --static --cflags --libs moert)
"$work/static"

# Nothing but the ABI is visible in the static library.
exported=$(nm -g --defined-only "$libdir/libmoert.a" | awk 'NF == 3 { print $3 }' | LC_ALL=C sort)
listed=$(sed -n 's/^\(moert_[a-z0-9_]*\) .*/\1/p' "$here/symbols.txt" | LC_ALL=C sort)
diff <(echo "$listed") <(echo "$exported") ||
  fail "libmoert.a (>) does not show the symbols of symbols.txt (<)"
