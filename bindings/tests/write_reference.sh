#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Writes fresh numbers for the tests to compare with.
#   write_reference.sh REFERENCE_PROGRAM FILE
set -e
seed=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
echo "seed $seed"
"$1" "$seed" > "$2"
