#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what is built on a machine with an NVIDIA GPU and no compiler: the conformance suite on cuda:0,
# the GPU tests, both under NVIDIA's memory and race checkers where the machine has them, and bench.
#   tests/run_gpu.sh BUILD_DIR [quick]     quick: no checkers, no bench
# The tests look for tests/data where they were built.
set -uo pipefail
build=$(cd "${1:?usage: tests/run_gpu.sh BUILD_DIR [quick]}" && pwd)
mode=${2:-all}
export MOERT_TEST_DEVICES=${MOERT_TEST_DEVICES:-cuda:0}
export MOERT_KERNEL_PATH=${MOERT_KERNEL_PATH:-$build/moert.fatbin}
export LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
failed=0

# run NAME COMMAND...
run() {
  local name=$1 start=$SECONDS
  shift
  if "$@" >"$log" 2>&1; then
    printf '%-28s ok     %4d s\n' "$name" $((SECONDS - start))
  else
    printf '%-28s FAILED %4d s\n' "$name" $((SECONDS - start))
    tail -n 40 "$log"
    failed=$((failed + 1))
  fi
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

conformance=$build/tests/conformance/moert_conformance
gpu=$build/tests/gpu/moert_gpu
run driver "$build/tests/gpu/moert_gpu_driver"
run conformance "$conformance"
run gpu "$gpu"
grep -h "GB/s" "$log" || true

if [ "$mode" != quick ]; then
  if command -v compute-sanitizer >/dev/null; then
    export MOERT_TEST_SCALE=0.05
    for tool in memcheck racecheck; do
      # One case counts allocations, which the checkers make too.
      run "conformance, $tool" compute-sanitizer --tool $tool --error-exitcode 9 "$conformance" \
        --test-case-exclude="forward calls allocate nothing"
    done
    unset MOERT_TEST_SCALE
  else
    echo "no compute-sanitizer on this machine: memory and race checks were not made"
  fi
  for shape in 128,8,2048,768 8,2,4096,14336; do
    "$build/bin/moert" bench --device cuda:0 --dtype bf16 --shape $shape \
      --tokens 1,8,64,512,4096,16384 || failed=$((failed + 1))
  done
fi
echo "$failed failed"
[ $failed -eq 0 ]
