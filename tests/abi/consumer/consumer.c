/* SPDX-License-Identifier: Apache-2.0 */
/* A program that links an installed moert, in C. */
#define CALL(name) moert_##name
#include "../run_layer.h"

int main(void) {
  if (moert_abi_version() != MOERT_ABI_VERSION) {
    fprintf(stderr, "the library has ABI %u, the header %d\n", moert_abi_version(),
            MOERT_ABI_VERSION);
    return 1;
  }
  return RunLayer();
}
