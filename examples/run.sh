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

# The compiler of the GPU kernels, if it is not there yet.
install_nvcc() {
  command -v nvcc || { ./tests/install_packages.sh cuda && ./tests/install_nvcc.sh build/cuda; }
}

targets=(moert_cli moert_generate)
options=()
build() {
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DMOERT_BUILD_EXAMPLES=ON "${options[@]}" &&
    cmake --build build --parallel "$(nproc)" --target "${targets[@]}"
}

step 'Installing the packages that are missing' ./tests/install_packages.sh build
if [ -e /dev/nvidiactl ]; then
  echo 'Installing the CUDA compiler ...' >&2
  if install_nvcc >>"$log" 2>&1; then
    options+=(-DMOERT_CUDA=ON)
    targets+=(moert_kernels)
    command -v nvcc >/dev/null || export CUDA_HOME=$PWD/build/cuda/nvidia/cu13
  else
    echo "There is no CUDA compiler to be had (see $log), so the GPU stays unused." >&2
  fi
fi
step 'Building moert (a minute or two the first time)' build
step 'Packing the model' build/bin/moert pack "$model"
build/examples/generate "$model" "$@"
