#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does what the README says: runs its command lines, then compiles and runs its C program.
#   readme_test.sh SOURCE_DIR FOLDER_OF_LIBMOERT FOLDER_OF_THE_COMMAND CC
set -euo pipefail
source_dir=$1 library_dir=$2 command_dir=$3 cc=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/examples"
cp -r "$source_dir/examples/tiny-shakespeare-qwen2moe" "$work/examples/"
cd "$work"
rm -f examples/*/model.moem
export PATH=$command_dir:$PATH LD_LIBRARY_PATH=$library_dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

# The lines of the README's only code block in a language.
block() { awk -v start="\`\`\`$1" '$0 == start {on = 1; next} /^```/ {on = 0} on' "$source_dir/README.md"; }

# Every file that it links to is there.
grep -oE '\]\([^):]+\)' "$source_dir/README.md" | tr -d '](' | tr -d ')' | while read -r path; do
  [ -e "$source_dir/$path" ] || { echo "the README links to $path, which is not there" >&2; exit 1; }
done

# The programs of the bindings are the examples that their own tests run.
same() { diff <(block "$1") <(grep -v SPDX "$source_dir/bindings/$2" | sed '/./,$!d'); }
same rust rust/moert/examples/hello_layer.rs
same go go/examples/hello_layer/main.go
same csharp csharp/examples/HelloLayer.cs

block sh >commands.sh
grep -q '^moert pack' commands.sh
bash -euo pipefail commands.sh
[ -s output.safetensors ]

# The family that it works out describes the example model as the built-in one does.
model=examples/tiny-shakespeare-qwen2moe
described() { moert inspect "$model/model.moem" --json | grep -v '"family":'; }
described >built_in.json
block json >my_moe.json
moert pack "$model" --family my_moe.json
# Not grep -q, which would close the pipe on the command.
moert inspect "$model/model.moem" --json | grep '"family": "my_moe"' >/dev/null
described | diff built_in.json -

block c >layer.c
"$cc" -Wall -Wextra -Werror -I "$source_dir/include" layer.c -o layer -L "$library_dir" -lmoert
printed=$(./layer)
# From the layer's formula in double precision, apart from this library.
expected='-0.193 -0.008 0.172'
if [ "$printed" != "$expected" ]; then
  echo "the README's program printed '$printed', not '$expected'" >&2
  exit 1
fi
grep -qF -- "It prints \`$expected\`" "$source_dir/README.md"

# Without the manifest it says which file is missing.
rm examples/*/model.moem
if message=$(./layer 2>&1); then
  echo "the README's program did not fail without its manifest" >&2
  exit 1
fi
grep -qF model.moem <<<"$message"
