#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing on a Debian 12 machine, builds, and runs every test. Prints a line a stage
# and ends with "N passed, N failed". Logs lie in build/logs.
#   tests/run.sh [STAGE...]     stages: see the end of this file; default all
set -uo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8
logs=$PWD/build/logs
mkdir -p "$logs"
jobs=$(nproc)
passed=0
failed=0
wanted=" $* "
# Where the CUDA compiler lies that the stage packages brings to a machine without one.
command -v nvcc >/dev/null || export CUDA_HOME=${CUDA_HOME:-$PWD/build/cuda/nvidia/cu13}

# stage NAME FUNCTION: runs it in a log of its own. A function says what it ran by lines
# "@passed N" and "@failed N"; one that fails without a "@failed" line counts as one failure.
stage() {
  local name=$1 log=$logs/$1.log start=$SECONDS status=0 ok bad
  [ "$wanted" = "  " ] || [[ $wanted == *" $name "* ]] || return 0
  (set -euo pipefail; "$2") >"$log" 2>&1 || status=$?
  ok=$(awk '/^@passed / { n += $2 } END { print n + 0 }' "$log")
  bad=$(awk '/^@failed / { n += $2 } END { print n + 0 }' "$log")
  if [ $status -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  passed=$((passed + ok))
  failed=$((failed + bad))
  printf '%-10s %5.1f min  %4d passed  %d failed\n' "$name" \
    "$(awk "BEGIN { print ($SECONDS - $start) / 60 }")" "$ok" "$bad"
  if [ "$bad" -ne 0 ]; then
    echo "--- the end of $log, and what failed in it"
    tail -n 40 "$log"
    grep -E -A 14 ' (ERROR|FATAL ERROR|WARNING): |ERROR: [A-Z][a-z]+Sanitizer' "$log" | head -n 60
    echo "---"
  fi
}

# What ctest -V printed: doctest executables count by their cases, other tests as one each. A test
# that failed without a failed case (a crash, a leak) is one failure.
count_ctest() {
  awk '
    /^[0-9]+: \[doctest\] test cases:/ {
      split($0, id, ":")
      match($0, /[0-9]+ passed/); ok[id[1]] = substr($0, RSTART, RLENGTH) + 0
      match($0, /[0-9]+ failed/); bad[id[1]] = substr($0, RSTART, RLENGTH) + 0
      cases[id[1]] = 1
    }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
      match($0, /#[0-9]+/); id_number = substr($0, RSTART + 1, RLENGTH - 1)
      good = $0 ~ / Passed /
      passed += ok[id_number]; failed += bad[id_number]
      if (good && !cases[id_number]) passed += 1
      if (!good && !bad[id_number]) failed += 1
      if (!good) names = names "\n  " $0
    }
    END {
      print "@passed " passed + 0
      if (failed > 0) { print "failed tests:" names; print "@failed " failed }
    }' "$1"
}

# run_ctest PRESET [ARGUMENTS]
run_ctest() {
  local output status=0
  output=$(mktemp)
  "${launcher[@]}" ctest --preset "$1" -V --no-tests=error "${@:2}" | tee "$output" || status=$?
  count_ctest "$output"
  rm -f "$output"
  return $status
}
launcher=()

# The CUDA kernels are built once: no sanitizer reaches them.
build() {
  local kernels=()
  [ "$1" = release ] || kernels=(-DMOERT_CUDA=OFF)
  cmake --preset "$1" "${kernels[@]}" "${@:2}"
  cmake --build --preset "$1" -j "$jobs"
}

packages() {
  tests/install_packages.sh build test bindings
  command -v nvcc >/dev/null || { tests/install_packages.sh cuda; tests/install_nvcc.sh build/cuda; }
}

format() {
  local unformatted
  unformatted=$(find include runtime kernels tests examples bindings -type f \
      -regex '.*\.\(c\|cc\|cpp\|h\|hpp\|cu\|cuh\)' ! -path '*/target/*' | while read -r file; do
      clang-format --dry-run -Werror "$file" >/dev/null 2>&1 || echo "$file"
    done)
  if [ -n "$unformatted" ]; then
    echo "clang-format would change:"
    echo "$unformatted"
    return 1
  fi
  echo "@passed 1"
}

tests() {
  build release -DMOERT_BUILD_BINDINGS=OFF
  run_ctest release
}

asan() {
  build asan
  UBSAN_OPTIONS=print_stacktrace=1 run_ctest asan
}

# Without address randomisation where the system allows: older TSan runtimes need it.
tsan() {
  if setarch -R true 2>/dev/null; then launcher=(setarch -R); fi
  build tsan
  TSAN_OPTIONS=halt_on_error=1 run_ctest tsan
}

# Each target for a minute, as many at once as there are cores.
fuzz() {
  local target name work running=0 status=0
  build fuzz
  work=$(mktemp -d)
  for target in build/fuzz/tests/fuzz/*_fuzz; do
    name=$(basename "$target")
    mkdir "$work/$name"
    fuzz_target "$target" "$work/$name" "tests/fuzz/seeds/$name" >"$work/$name.log" 2>&1 &
    running=$((running + 1))
    if [ $running -ge "$jobs" ]; then wait -n; running=$((running - 1)); fi
  done
  wait
  for name in "$work"/*.log; do
    tail -n 25 "$name"
    ! grep -q '^@failed' "$name" || status=1
  done
  rm -rf "$work"
  return $status
}

# fuzz_target PROGRAM NEW_INPUTS SEEDS
fuzz_target() {
  if "$1" -max_total_time=60 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$logs/" "$2" "$3"; then
    echo "@passed 1"
  else
    echo "@failed 1"
  fi
}

bindings() {
  build release -DMOERT_BUILD_BINDINGS=ON
  run_ctest release -R '^bindings\.'
}

# The build that a user types first, then the example; the kernels were built by the stage "tests".
examples() {
  cmake -B build -DMOERT_CUDA=OFF
  cmake --build build -j "$jobs"
  echo "@passed 1"
  examples/run.sh --tokens 200
  echo "@passed 1"
}

stage packages packages
stage format format
stage tests tests
stage asan asan
stage tsan tsan
stage fuzz fuzz
stage bindings bindings
stage examples examples

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
