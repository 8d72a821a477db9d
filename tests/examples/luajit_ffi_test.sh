#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the LuaJIT example: luajit_ffi_test.sh LUAJIT SOURCE_DIR LIBRARY
set -euo pipefail
. "$(dirname "$0")/plain_layer.sh"
output=$("$1" "$2/examples/luajit_ffi.lua" "$3" "$2/include/moert/moert.h")
expect_plain_layer
