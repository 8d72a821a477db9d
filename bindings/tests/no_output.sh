#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fails if a command fails or prints anything.
#   no_output.sh COMMAND...
output=$("$@") || exit 1
[ -z "$output" ] || { echo "$output"; exit 1; }
