#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian 12 packages of the named groups that are missing, as root or with sudo.
#   tests/install_packages.sh build [test] [bindings] [cuda]
# cuda: what tests/install_nvcc.sh needs.
set -euo pipefail

build=(cmake make g++ libflatbuffers-dev flatbuffers-compiler nlohmann-json3-dev libxxhash-dev
       libcli11-dev)
test=(ninja-build doctest-dev clang clang-format libclang-rt-14-dev pkg-config python3 luajit
      godot3-server)
bindings=(swig golang-go mono-mcs mono-runtime cargo rustc rust-clippy rustfmt valgrind libc6-dbg
          ninja-build python3)

cuda=(python3 python3-pip)

wanted=()
for group in "$@"; do
  case $group in
    build) wanted+=("${build[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    bindings) wanted+=("${bindings[@]}") ;;
    cuda) wanted+=("${cuda[@]}") ;;
    *) echo "unknown group $group; there are build, test, bindings and cuda" >&2; exit 1 ;;
  esac
done
if ! command -v dpkg-query >/dev/null; then
  echo "not a Debian system; install what these Debian 12 packages hold: ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "run this as root, or install sudo: missing are ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}"
for attempt in 1 2 3; do
  if "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update &&
     "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y \
       --no-install-recommends "${missing[@]}"; then
    exit 0
  fi
  echo "apt-get failed (attempt $attempt of 3)" >&2
  sleep $((attempt * 5))
done
exit 1
