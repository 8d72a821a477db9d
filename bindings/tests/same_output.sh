#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 Fails unless the examples of the three languages, run before,
# wrote the same. Lists are printed with commas or without.
#   same_output.sh FOLDER
set -e
cd "$1"
for name in hello_layer trained_layers; do
  test -s "rust_$name.txt"
  tr -d ',' < "rust_$name.txt" > expected.txt
  for language in go csharp; do
    tr -d ',' < "${language}_$name.txt" | diff expected.txt -
  done
done
