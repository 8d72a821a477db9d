# SPDX-License-Identifier: Apache-2.0
# Appends to FILE the line by which the library knows a kernel file; see
# runtime/backend/gpu/kernel_file.h. Drivers do not read beyond the length that the file states.
file(STRINGS ${ARGS} abi REGEX "^#define MOERT_KERNEL_ABI ")
string(REGEX REPLACE ".* " "" abi "${abi}")
file(APPEND ${FILE} "\nmoert-kernels abi=${abi} toolkit=${TOOLKIT} targets=${TARGETS}\n")
