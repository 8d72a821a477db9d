#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the crate's tests under valgrind: no invalid access and no block that is definitely lost.
#   valgrind.sh CARGO REFERENCE_PROGRAM
set -e
cd "$(dirname "$0")"
export MOERT_ROUNDS=20
# valgrind shows the library a lesser CPU, which gives other last bits.
MOERT_REFERENCE=$(mktemp)
export MOERT_REFERENCE
trap 'rm -f "$MOERT_REFERENCE"' EXIT
valgrind -q "$2" 1 > "$MOERT_REFERENCE"
"$1" test --offline -q --no-run --message-format=json -p moert --tests |
  sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | while read -r program; do
  valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    --error-exitcode=9 "$program" --test-threads=1
done
