/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiled as C89 to C23 and C++98 to C++23: the headers are included twice, every struct is made
 * by its MOERT_*_INIT macro, and sizes that hosts rely on hold. structs.inc is made from moert.h.
 */
#include "moert/moert.h"
#include "moert/moert_loader.h"

#define STRUCT(name, init)               \
  extern const moert_##name kept_##name; \
  const moert_##name kept_##name = init;
#include "structs.inc"
#undef STRUCT

typedef char matrix_is_40_bytes[sizeof(moert_matrix) == 40 ? 1 : -1];
typedef char error_is_1024_bytes[sizeof(moert_error) == 1024 ? 1 : -1];
typedef char enums_are_32_bits[sizeof(moert_status) == 4 ? 1 : -1];
