#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the library and the bindings in build/bindings and runs the bindings' tests. The last lines are
# "@passed N" and "@failed N".
set -e
cd "$(dirname "$0")/.."
cmake -S . -B build/bindings -G Ninja -DMOERT_BUILD_BINDINGS=ON -DMOERT_BUILD_EXAMPLES=OFF
cmake --build build/bindings -j "$(nproc)"
log=build/bindings/ctest.log
status=0
ctest --test-dir build/bindings/bindings -V --no-tests=error > "$log" 2>&1 || status=$?
cat "$log"
awk '/^ *[0-9]+\/[0-9]+ Test +#/ { if (/ Passed /) passed++; else failed++ }
     END { print "@passed " passed + 0; print "@failed " failed + 0 }' "$log"
exit $status
