#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds moert and lets a small trained language model write text, on the best device there is.
#   ./examples/run.sh [--prompt TEXT] [--tokens N] [--temperature 0.8] [--seed N] [--device cpu]
# Installs what the build needs (Debian 12, as root or with sudo). What it builds goes into ./build.
set -euo pipefail
cd "$(dirname "$0")/.."
model=examples/tiny-shakespeare-qwen2moe
log=build/run.log
mkdir -p build
: >"$log"

# Says what is done, and shows the log's end if it fails.
step() {
  local what=$1
  shift
  printf '%s ...\n' "$what" >&2
  if ! "$@" >>"$log" 2>&1; then
    tail -n 30 "$log" >&2
    printf '\nFailed: %s. The whole log is in %s.\n' "$what" "$log" >&2
    exit 1
  fi
}

build() {
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DMOERT_BUILD_EXAMPLES=ON &&
    cmake --build build --parallel "$(nproc)" --target moert_cli moert_generate
}

step 'Installing the packages that are missing' ./tests/install_packages.sh build
step 'Building moert (a minute or two the first time)' build
step 'Packing the model' build/bin/moert pack "$model"
build/examples/generate "$model" "$@"
