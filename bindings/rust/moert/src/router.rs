// SPDX-License-Identifier: Apache-2.0
//! Routers on their own.
use crate::error::call;
use crate::handle::Handle;
use crate::layer::list;
use crate::stream::{launch, pointers, Access, Operand, Operands, Pointers};
use crate::{sys, Device, Dtype, Matrix, MatrixMut, Result, Routing, Stream, Weight};
use std::ptr;

/// What a router is made of.
#[derive(Clone, Debug)]
pub struct RouterConfig<'a> {
    hidden: i64,
    dtype: Dtype,
    routing: Routing,
    weights: Vec<Weight<'a>>,
}

impl<'a> RouterConfig<'a> {
    /// A float32 router; `hidden` 0 makes one that runs on given logits only.
    pub fn new(hidden: i64, routing: Routing) -> Self {
        Self { hidden, dtype: Dtype::Float32, routing, weights: Vec::new() }
    }

    /// Dtype of x or of given logits.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Adds a weight.
    #[must_use]
    pub fn weight(mut self, weight: Weight<'a>) -> Self {
        self.weights.push(weight);
        self
    }

    /// Makes the router; the weights are copied.
    pub fn build(&self, device: &Device) -> Result<Router> {
        let experts = self.routing.num_experts.max(0) as usize;
        let weights =
            self.weights.iter().map(|w| w.resolve(experts)).collect::<Result<Vec<_>>>()?;
        let routing = self.routing.to_raw();
        let desc = sys::moert_router_desc {
            dtype: self.dtype.to_raw(),
            num_weights: weights.len() as u32,
            hidden: self.hidden,
            routing: &routing,
            weights: list(&weights),
            ..Default::default()
        };
        let mut out = ptr::null_mut();
        call(|error| unsafe { sys::moert_router_create(device.as_ptr(), &desc, &mut out, error) })?;
        Ok(Router { handle: Handle::new(out), hidden: self.hidden, routing: self.routing })
    }
}

/// Top-k gating. Any number of streams may run it at once.
#[derive(Debug)]
pub struct Router {
    handle: Handle<sys::moert_router>,
    hidden: i64,
    routing: Routing,
}

impl Router {
    /// Chooses experts.
    pub fn forward(&self, stream: &mut Stream, args: RouterForward<'_>) -> Result<()> {
        let operands = self.operands(&args)?;
        launch(
            stream,
            operands,
            |p| self.size(&RouterForward::raw(p)),
            |p, stream| {
                let raw = RouterForward::raw(p);
                call(|error| unsafe {
                    sys::moert_router_forward(self.handle.as_ptr(), stream.as_ptr(), &raw, error)
                })
            },
        )
    }

    /// Scratch that a call with these arguments needs.
    pub fn workspace_size(&self, args: &RouterForward<'_>) -> Result<u64> {
        let operands = self.operands(args)?;
        self.size(&RouterForward::raw(&pointers(&operands)))
    }

    fn size(&self, args: &sys::moert_router_forward_args) -> Result<u64> {
        let mut out = 0;
        call(|error| unsafe {
            sys::moert_router_workspace_size(self.handle.as_ptr(), args, &mut out, error)
        })?;
        Ok(out)
    }

    fn operands(&self, args: &RouterForward<'_>) -> Result<Operands<6>> {
        let experts = i64::from(self.routing.num_experts);
        let top_k = i64::from(self.routing.top_k);
        Ok([
            Operand::read(&args.x, "x", self.hidden)?,
            Operand::read(&args.given_logits, "given_logits", experts)?,
            Operand::write(&args.ids, "ids", top_k, Access::Write)?,
            Operand::write(&args.weights, "weights", top_k, Access::Write)?,
            Operand::write(&args.logits, "logits", experts, Access::Write)?,
            Operand::write(&args.expert_counts, "expert_counts", experts, Access::Write)?,
        ])
    }
}

/// Arguments of a router call on T tokens.
#[derive(Debug, Default)]
pub struct RouterForward<'a> {
    x: Option<Matrix<'a>>,
    given_logits: Option<Matrix<'a>>,
    ids: Option<MatrixMut<'a>>,
    weights: Option<MatrixMut<'a>>,
    logits: Option<MatrixMut<'a>>,
    expert_counts: Option<MatrixMut<'a>>,
}

impl<'a> RouterForward<'a> {
    /// On x \[T, hidden\]; writes ids \[T, top_k\] i32 and weights \[T, top_k\] f32.
    pub fn new(
        x: impl Into<Matrix<'a>>,
        ids: impl Into<MatrixMut<'a>>,
        weights: impl Into<MatrixMut<'a>>,
    ) -> Self {
        let (ids, weights) = (Some(ids.into()), Some(weights.into()));
        Self { x: Some(x.into()), ids, weights, ..Default::default() }
    }

    /// On logits \[T, num_experts\] before bias and soft cap.
    pub fn from_logits(
        logits: impl Into<Matrix<'a>>,
        ids: impl Into<MatrixMut<'a>>,
        weights: impl Into<MatrixMut<'a>>,
    ) -> Self {
        let (ids, weights) = (Some(ids.into()), Some(weights.into()));
        Self { given_logits: Some(logits.into()), ids, weights, ..Default::default() }
    }

    /// Reads back the logits, \[T, num_experts\] f32.
    #[must_use]
    pub fn logits(mut self, m: impl Into<MatrixMut<'a>>) -> Self {
        self.logits = Some(m.into());
        self
    }

    /// Reads back how many slots each expert got, \[1, num_experts\] i32.
    #[must_use]
    pub fn expert_counts(mut self, m: impl Into<MatrixMut<'a>>) -> Self {
        self.expert_counts = Some(m.into());
        self
    }

    fn raw(matrices: &Pointers<6>) -> sys::moert_router_forward_args {
        let [x, given_logits, ids, weights, logits, expert_counts] = *matrices;
        sys::moert_router_forward_args {
            x,
            given_logits,
            ids,
            weights,
            logits,
            expert_counts,
            ..Default::default()
        }
    }
}
