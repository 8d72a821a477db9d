#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the frame loop for a second: engine_loop_test.sh PROGRAM. Its frames must neither allocate nor
# lose a layer: all but the one still in flight are finished within the frames.
set -euo pipefail
output=$("$1" 60 120)
fail() {
  printf 'engine_loop: %s; printed:\n%s\n' "$1" "$output" >&2
  exit 1
}
grep -qE '^without layer( +[0-9]+\.[0-9]{3}){3}$' <<<"$output" || fail 'no times without the layer'
grep -qE '^with layer( +[0-9]+\.[0-9]{3}){3}$' <<<"$output" || fail 'no times with the layer'
[[ $output =~ ([0-9]+)\ layers\ submitted,\ ([0-9]+)\ finished\ within\ the\ frames,\ ([0-9]+)\ alloc ]] ||
  fail 'no summary'
submitted=${BASH_REMATCH[1]} finished=${BASH_REMATCH[2]} allocations=${BASH_REMATCH[3]}
[ "$finished" -ge 1 ] || fail 'no layer finished'
[ $((submitted - finished)) -eq 1 ] || fail 'a layer was lost'
[ "$allocations" -eq 0 ] || fail 'frames allocated'

if output=$("$1" none 2>&1); then fail 'it took "none" for a number of frames'; fi
grep -q '^usage: engine_loop' <<<"$output" || fail 'no usage'
