#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the Python example: python_ctypes_test.sh PYTHON EXAMPLES_DIR LIBRARY. It packs the model first.
set -euo pipefail
python=$1 examples=$2 library=$3
model=$(mktemp -d)
trap 'rm -rf "$model"' EXIT
cp "$examples"/tiny-shakespeare-qwen2moe/{config.json,model.safetensors} "$model"
. "$(dirname "$0")/plain_layer.sh"
output=$("$python" "$examples/python_ctypes.py" "$library" "$model")
# From the layer's formula in double precision, apart from this library.
expect 'token 0: experts [0-7] \(0\.[0-9]{3}\), [0-7] \(0\.[0-9]{3}\); y = -0\.193 -0\.008 -0\.345 \.\.\.'
expect 'token 1: experts [0-7] \(0\.[0-9]{3}\), [0-7] \(0\.[0-9]{3}\); y = 0\.172 0\.173 -0\.022 \.\.\.'

# A failure of the library arrives with its message.
: >"$model/model.moem"
if output=$("$python" "$examples/python_ctypes.py" "$library" "$model" 2>&1); then fail 'a failure'; fi
expect 'python_ctypes: .+'
