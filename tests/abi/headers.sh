#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles the public headers, each included twice, under every C and C++ standard with gcc and clang.
#   headers.sh FOLDER_OF_GENERATED_FILES
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-Wall -Wextra -pedantic -Werror -Wpadded "-I$here/../../include" "-I$1" -fsyntax-only)
cat > "$work/hpp.cc" <<'CODE'
#include "moert/moert.hpp"
#include "moert/moert.hpp"
CODE
count=0
for standard in c89 c99 c11 c17 c2x; do
  for compiler in gcc clang; do
    "$compiler" -std=$standard -Wstrict-prototypes "${flags[@]}" "$here/headers.c"
    count=$((count + 1))
  done
done
for standard in c++98 c++11 c++14 c++17 c++20 c++2b; do
  for compiler in g++ clang++; do
    "$compiler" -std=$standard -x c++ "${flags[@]}" "$here/headers.c"
    count=$((count + 1))
    case $standard in c++98 | c++11 | c++14) continue ;; esac
    "$compiler" -std=$standard -x c++ "${flags[@]}" -Wno-padded "$work/hpp.cc"
    count=$((count + 1))
  done
done
echo "compiled $count ways"
