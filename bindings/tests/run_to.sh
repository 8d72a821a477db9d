#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a command and keeps what it prints.
#   run_to.sh FILE COMMAND...
file=$1
shift
"$@" > "$file"
status=$?
cat "$file"
exit $status
