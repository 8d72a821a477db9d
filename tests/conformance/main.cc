// SPDX-License-Identifier: Apache-2.0
// The conformance suite: one program, run on every device that MOERT_TEST_DEVICES names.
// MOERT_TEST_SEED repeats a failure, MOERT_TEST_SCALE=0.1 makes the random tests a tenth as long.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
