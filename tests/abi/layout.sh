#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares what is written from moert.h with what is checked in: layout.txt and moert_loader.h; and
# each constant with the name of its enum.
set -euo pipefail
cd "$(dirname "$0")/../.."
failed=0
if ! diff tests/abi/layout.txt <(tests/abi/write_layout.sh); then
  echo "moert.h (>) has another layout than layout.txt (<): see tests/abi/write_layout.sh" >&2
  failed=1
fi
if ! diff include/moert/moert_loader.h <(tests/abi/write_loader.sh) | head -n 40; then
  echo "moert_loader.h (<) is not what write_loader.sh writes (>): see there" >&2
  failed=1
fi
# MOERT_DEVICE_KIND_CPU belongs to enum moert_device_kind_e.
misnamed=$(awk '
  /^enum moert_[a-z0-9_]*_e \{/ { prefix = toupper($2); sub(/_E$/, "_", prefix); next }
  /^\}/ { prefix = "" }
  prefix != "" && /^  MOERT_/ && index($1, prefix) != 1 { print $1 " is not named " prefix "..." }
  ' include/moert/moert.h)
if [ -n "$misnamed" ]; then
  echo "$misnamed" >&2
  failed=1
fi
exit $failed
