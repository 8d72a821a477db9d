#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Godot project for a second, without a display:
#   godot_test.sh GODOT PROJECT_DIR MODEL_DIR COMMAND
# It checks each result itself; no layer may be lost but the one still in flight.
set -euo pipefail
godot=$1 project=$2 model=$3 command=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$model"/{config.json,model.safetensors} "$work"
"$command" pack "$work" >/dev/null
fail() {
  printf 'godot: %s; printed:\n%s\n' "$1" "$output" >&2
  exit 1
}
# Godot makes folders in its home and complains about the locale C.
run() {
  env -u XDG_DATA_HOME -u XDG_CONFIG_HOME -u LC_ALL HOME="$work" LANG=en_US.UTF-8 \
    timeout 120 "$godot" --path "$project" "$@" 2>&1
}

output=$(run --manifest="$work/model.moem" --frames=60) || fail 'it failed'
grep -qE '^60 frames at 60 a second; ms$' <<<"$output" || fail 'no number of frames'
grep -qE '^frame to frame( +[0-9]+\.[0-9]{3}){3}$' <<<"$output" || fail 'no times of frames'
grep -qE "^layer's part( +[0-9]+\.[0-9]{3}){3}$" <<<"$output" || fail 'no times of the layer'
[[ $output =~ ([0-9]+)\ layers\ submitted,\ ([0-9]+)\ finished\ .*\ results\ as\ expected ]] ||
  fail 'no summary'
[ "${BASH_REMATCH[2]}" -ge 2 ] || fail 'too few layers finished'
[ $((BASH_REMATCH[1] - BASH_REMATCH[2])) -eq 1 ] || fail 'a layer was lost'
if grep -q ERROR <<<"$output"; then fail 'an error'; fi

# Without moert or without a manifest it says what is missing, and quits.
if output=$(run --manifest="$work/model.moem" --library=/nonexistent/libmoert.so.0); then
  fail 'no failure without the library'
fi
grep -qF /nonexistent/libmoert.so.0 <<<"$output" || fail 'no name of the library'
if output=$(run --manifest="$work/none.moem"); then fail 'no failure without the manifest'; fi
grep -qF "$work/none.moem" <<<"$output" || fail 'no name of the manifest'
