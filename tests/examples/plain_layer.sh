# SPDX-License-Identifier: Apache-2.0
# For tests of the examples that make the layer of plain arrays: checks what they print, in $output.
# The numbers were worked out by hand.
fail() {
  printf 'expected %s; printed:\n%s\n' "$1" "$output" >&2
  exit 1
}
expect() { grep -qxE -- "$1" <<<"$output" || fail "a line '$1'"; }
expect_plain_layer() {
  expect 'moert [0-9]+\.[0-9]+\.[0-9]+'
  expect 'x \(3, 1\) -> expert 0 -> y \(9, 18\)'
  expect 'x \(1, 2\) -> expert 1 -> y \(-4, 4\)'
  expect 'x \(-1, -2\) -> expert 0 -> y \(0, 0\)'
}
