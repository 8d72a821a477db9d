// SPDX-License-Identifier: Apache-2.0

package moert

import "math"

// BFloat16 is the upper half of a float32.
type BFloat16 uint16

// Float16 holds the bits of an IEEE half-precision number.
type Float16 uint16

// ToBFloat16 gives the nearest bfloat16; ties go to the even one, a NaN stays a NaN.
func ToBFloat16(value float32) BFloat16 {
	bits := math.Float32bits(value)
	if value != value {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7fff + (bits >> 16 & 1)) >> 16)
}

// Float32 gives the same number as a float32.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBFloat16s converts a slice.
func ToBFloat16s(values []float32) []BFloat16 {
	out := make([]BFloat16, len(values))
	for i, v := range values {
		out[i] = ToBFloat16(v)
	}
	return out
}

// Float32s converts a slice back.
func Float32s(values []BFloat16) []float32 {
	out := make([]float32, len(values))
	for i, v := range values {
		out[i] = v.Float32()
	}
	return out
}
