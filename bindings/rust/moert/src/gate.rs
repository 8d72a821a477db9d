// SPDX-License-Identifier: Apache-2.0
//! Gate ops.
use crate::error::call;
use crate::handle::Handle;
use crate::stream::{launch, Access, Operand};
use crate::{sys, Device, Dtype, GateKind, Matrix, MatrixMut, Result, Stream};
use std::ptr;

/// What a gate op is made of.
#[derive(Clone, Copy, Debug)]
pub struct GateConfig {
    kind: GateKind,
    dtype: Dtype,
    width: i64,
    linear_width: i64,
}

impl GateConfig {
    /// A float32 gate op on rows of that width.
    pub fn new(kind: GateKind, width: i64) -> Self {
        Self { kind, dtype: Dtype::Float32, width, linear_width: 0 }
    }

    /// Dtype of every matrix.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Columns of h and w, for [`GateKind::AddLinear`].
    #[must_use]
    pub fn linear_width(mut self, width: i64) -> Self {
        self.linear_width = width;
        self
    }

    /// Makes the gate op.
    pub fn build(self, device: &Device) -> Result<Gate> {
        let desc = sys::moert_gate_desc {
            kind: self.kind.to_raw(),
            dtype: self.dtype.to_raw(),
            width: self.width,
            linear_width: self.linear_width,
            ..Default::default()
        };
        let mut out = ptr::null_mut();
        call(|error| unsafe { sys::moert_gate_create(device.as_ptr(), &desc, &mut out, error) })?;
        Ok(Gate { handle: Handle::new(out), config: self })
    }
}

/// A gate op. Any number of streams may run it at once.
#[derive(Debug)]
pub struct Gate {
    handle: Handle<sys::moert_gate>,
    config: GateConfig,
}

impl Gate {
    /// Runs the op.
    pub fn forward(&self, stream: &mut Stream, args: GateForward<'_>) -> Result<()> {
        let GateConfig { kind, width, linear_width, .. } = self.config;
        let g_width = if kind == GateKind::Multiply { width } else { 1 };
        // Only ADD ops read out, where acc is absent; x is read from it when in place.
        let operands = [
            Operand::read(&args.x, "x", width)?,
            Operand::read(&args.g, "g", g_width)?,
            Operand::read(&args.h, "h", linear_width)?,
            Operand::read(&args.w, "w", linear_width)?,
            Operand::read(&args.acc, "acc", width)?,
            Operand::write(&args.out, "out", width, Access::ReadWrite)?,
        ];
        let in_place = args.in_place;
        launch(
            stream,
            operands,
            |_| Ok(0),
            |&[x, g, h, w, acc, out], stream| {
                let x = if in_place { out } else { x };
                let raw =
                    sys::moert_gate_forward_args { x, g, h, w, acc, out, ..Default::default() };
                call(|error| unsafe {
                    sys::moert_gate_forward(self.handle.as_ptr(), stream.as_ptr(), &raw, error)
                })
            },
        )
    }
}

/// Arguments of a gate op on T rows.
#[derive(Debug, Default)]
pub struct GateForward<'a> {
    in_place: bool,
    x: Option<Matrix<'a>>,
    g: Option<Matrix<'a>>,
    h: Option<Matrix<'a>>,
    w: Option<Matrix<'a>>,
    acc: Option<Matrix<'a>>,
    out: Option<MatrixMut<'a>>,
}

impl<'a> GateForward<'a> {
    /// x and out are \[T, width\]; g is \[T, width\] or \[T, 1\], as the kind says.
    pub fn new(
        x: impl Into<Matrix<'a>>,
        g: impl Into<Matrix<'a>>,
        out: impl Into<MatrixMut<'a>>,
    ) -> Self {
        let (x, g, out) = (Some(x.into()), Some(g.into()), Some(out.into()));
        Self { x, g, out, ..Default::default() }
    }

    /// x is overwritten.
    pub fn in_place(x: impl Into<MatrixMut<'a>>, g: impl Into<Matrix<'a>>) -> Self {
        Self { in_place: true, g: Some(g.into()), out: Some(x.into()), ..Default::default() }
    }

    /// For [`GateKind::AddLinear`]: h is \[T, linear_width\], w \[1, linear_width\].
    pub fn linear(
        x: impl Into<Matrix<'a>>,
        h: impl Into<Matrix<'a>>,
        w: impl Into<Matrix<'a>>,
        out: impl Into<MatrixMut<'a>>,
    ) -> Self {
        let (x, h, w, out) = (Some(x.into()), Some(h.into()), Some(w.into()), Some(out.into()));
        Self { x, h, w, out, ..Default::default() }
    }

    /// What the result is added to, \[T, width\]; without it out itself.
    #[must_use]
    pub fn acc(mut self, m: impl Into<Matrix<'a>>) -> Self {
        self.acc = Some(m.into());
        self
    }
}
