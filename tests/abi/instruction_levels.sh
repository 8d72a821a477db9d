#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An object compiled for AVX2 or AVX-512 must define no function that the linker may pick for code that
# runs on every CPU (an inline function or template).   instruction_levels.sh OBJECT...
set -euo pipefail
checked=0
failed=0
for object in "$@"; do
  case $(basename "$object") in kernels_avx*) ;; *) continue ;; esac
  checked=$((checked + 1))
  if shared=$(nm -C "$object" | grep -E ' [WVu] '); then
    printf '%s shares with other objects:\n%s\n' "$(basename "$object")" "$shared" >&2
    failed=1
  fi
done
[ "$checked" -ge 2 ] || { echo "found $checked objects of higher levels, not 2" >&2; exit 1; }
exit $failed
