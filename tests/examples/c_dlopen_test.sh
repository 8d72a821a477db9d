#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the dlopen example: c_dlopen_test.sh PROGRAM LIBRARY
set -euo pipefail
. "$(dirname "$0")/plain_layer.sh"
output=$("$1" "$2")
expect_plain_layer
expect 'device cpu: .+, .+'

# Nothing of moert is linked, and without a library it says what it tried.
if output=$("$1" /nonexistent/libmoert.so.0 2>&1); then fail 'a failure'; fi
expect 'c_dlopen: .*/nonexistent/libmoert.so.0.*'
