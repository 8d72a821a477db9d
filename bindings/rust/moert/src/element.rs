// SPDX-License-Identifier: Apache-2.0
//! Element types of matrices, and conversions of bfloat16.
use crate::Dtype;

/// A bfloat16: the upper half of a float32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Bf16(
    /// The bits.
    pub u16,
);

/// An IEEE half-precision number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct F16(
    /// The bits.
    pub u16,
);

impl Bf16 {
    /// The nearest bfloat16; ties go to the even one, a NaN stays a NaN.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        if value.is_nan() {
            return Self((bits >> 16) as u16 | 0x40);
        }
        let rounding = 0x7fff + (bits >> 16 & 1);
        Self(((bits + rounding) >> 16) as u16)
    }

    /// The same number as a float32.
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Converts a slice.
    pub fn from_f32_slice(values: &[f32]) -> Vec<Self> {
        values.iter().map(|&v| Self::from_f32(v)).collect()
    }

    /// Converts a slice back.
    pub fn to_f32_slice(values: &[Self]) -> Vec<f32> {
        values.iter().map(|v| v.to_f32()).collect()
    }
}

impl From<f32> for Bf16 {
    fn from(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl From<Bf16> for f32 {
    fn from(value: Bf16) -> Self {
        value.to_f32()
    }
}

mod sealed {
    pub trait Sealed {}
}

/// What a matrix can be made of.
pub trait Element: Copy + Send + Sync + 'static + sealed::Sealed {
    /// Its dtype.
    const DTYPE: Dtype;
}

macro_rules! element {
    ($($type:ty: $dtype:ident),*) => {
        $(impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        })*
    };
}

element!(f32: Float32, Bf16: Bfloat16, F16: Float16, i32: Int32);
