#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the size of each struct of moert.h, the offset and size of each field, and the value of each
# constant. A test compares with layout.txt. After a change of the ABI that is meant:
#   tests/abi/write_layout.sh > /tmp/layout.txt && mv /tmp/layout.txt tests/abi/layout.txt
set -euo pipefail
header=$(cd "$(dirname "$0")" && pwd)/../../include/moert/moert.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The header without comments, one declaration a line.
gcc -fpreprocessed -dD -E -P "$header" 2>/dev/null > "$work/plain.h"
{
  echo '#include <stddef.h>'
  echo '#include <stdio.h>'
  echo '#include "moert/moert.h"'
  echo '#define SIZE(s) printf("%s %lu\n", #s, (unsigned long)sizeof(s));'
  echo '#define FIELD(s, f) printf("%s.%s %lu %lu\n", #s, #f, (unsigned long)offsetof(s, f), \'
  echo '                           (unsigned long)sizeof(((s*)0)->f));'
  echo '#define VALUE(c) printf("%s %ld\n", #c, (long)c);'
  echo 'int main(void) {'
  awk '
    /^typedef struct moert_[a-z0-9_]* \{/ { name = $3; print "SIZE(" name ")"; text = ""; next }
    /^enum moert_[a-z0-9_]* \{/ { enum = 1; line = $0; sub(/^[^{]*\{/, "", line); values(line); next }
    enum { values($0); if (/\}/) enum = 0; next }
    name != "" && /^\}/ { name = ""; next }
    name != "" { text = text " " $0; if (/;/) { fields(text); text = "" } }
    function values(line,   parts, count, i) {
      count = split(line, parts, ",")
      for (i = 1; i <= count; ++i) {
        if (match(parts[i], /MOERT_[A-Z0-9_]+/)) print "VALUE(" substr(parts[i], RSTART, RLENGTH) ")"
      }
    }
    function fields(line,   parts, count, i) {
      if (match(line, /\(\*[a-z0-9_]+\)/)) {
        print "FIELD(" name ", " substr(line, RSTART + 2, RLENGTH - 3) ")"
        return
      }
      sub(/;.*/, "", line)
      count = split(line, parts, ",")
      for (i = 1; i <= count; ++i) {
        sub(/\[.*/, "", parts[i])
        if (match(parts[i], /[a-z0-9_]+ *$/)) {
          print "FIELD(" name ", " substr(parts[i], RSTART, RLENGTH) ")"
        }
      }
    }' "$work/plain.h"
  echo 'return 0; }'
} > "$work/layout.c"
gcc -Wall -Werror -I"$(dirname "$header")/.." "$work/layout.c" -o "$work/layout"
"$work/layout"
