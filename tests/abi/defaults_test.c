/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each moert_*_init function, on poisoned memory, gives what its MOERT_*_INIT macro gives; and
 * names of constants are the ones of the header. The .inc files are made from moert.h.
 */
#include <stdio.h>
#include <string.h>

#include "moert/moert.h"

static int failures = 0;

static void Expect(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "%s\n", what);
  ++failures;
}

static void CheckDefaults(void) {
  const moert_matrix matrix_macro = MOERT_MATRIX_INIT;
  moert_matrix matrix;
#define STRUCT(name, init)                                            \
  {                                                                   \
    const moert_##name macro = init;                                  \
    moert_##name value;                                               \
    memset(&value, 0xa5, sizeof(value));                              \
    moert_##name##_init(&value);                                      \
    Expect(memcmp(&value, &macro, sizeof(value)) == 0,                \
           "moert_" #name "_init does not give what " #init " does"); \
  }
#include "structs_with_size.inc"
#undef STRUCT
  memset(&matrix, 0xa5, sizeof(matrix));
  moert_matrix_init(&matrix, NULL, 0, 0, MOERT_DTYPE_NONE);
  Expect(memcmp(&matrix, &matrix_macro, sizeof(matrix)) == 0, "moert_matrix_init");
  moert_matrix_init(&matrix, &matrix, 3, 5, MOERT_DTYPE_BFLOAT16);
  Expect(matrix.data == &matrix && matrix.rows == 3 && matrix.cols == 5 && matrix.row_stride == 5 &&
             matrix.dtype == MOERT_DTYPE_BFLOAT16 && matrix.reserved == 0,
         "moert_matrix_init of a packed matrix");
}

static void CheckNames(void) {
  static const moert_dtype dtypes[] = {
#define VALUE(name) MOERT_DTYPE_##name,
#include "dtypes.inc"
#undef VALUE
  };
  size_t i, j;
#define VALUE(name)                                                  \
  Expect(strcmp(moert_status_name(MOERT_STATUS_##name), #name) == 0, \
         "moert_status_name(MOERT_STATUS_" #name ") does not say " #name);
#include "statuses.inc"
#undef VALUE
  Expect(moert_status_name(-1) != NULL && moert_status_name(1000) != NULL, "unknown statuses");
  for (i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); ++i) {
    Expect((moert_dtype_bits(dtypes[i]) == 0) == (dtypes[i] == MOERT_DTYPE_NONE),
           "dtype without bits");
    for (j = 0; j < i; ++j) {
      Expect(strcmp(moert_dtype_name(dtypes[i]), moert_dtype_name(dtypes[j])) != 0,
             "two dtypes have one name");
    }
  }
  Expect(strcmp(moert_dtype_name(MOERT_DTYPE_BFLOAT16), "BF16") == 0, "name of BFLOAT16");
  Expect(strcmp(moert_dtype_name(1000), "?") == 0 && moert_dtype_bits(1000) == 0, "unknown dtypes");
}

int main(void) {
  char version[32];
  CheckDefaults();
  CheckNames();
  Expect(moert_abi_version() == MOERT_ABI_VERSION, "moert_abi_version is not the header's");
  sprintf(version, "%d.%d.%d", MOERT_VERSION_MAJOR, MOERT_VERSION_MINOR, MOERT_VERSION_PATCH);
  Expect(strcmp(moert_version_string(), version) == 0, "moert_version_string is not the header's");
  return failures != 0;
}
