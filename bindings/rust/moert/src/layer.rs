// SPDX-License-Identifier: Apache-2.0
//! Layers: made from slices or from a manifest, and run.
use crate::error::call;
use crate::handle::Handle;
use crate::stream::{launch, pointers, Access, Operand, Operands, Pointers};
use crate::{
    sys, Activation, Buffer, Device, Dtype, Element, Error, LayerInfo, Manifest, Matrix, MatrixMut,
    Orientation, Packing, Result, Role, Routing, Stream, WeightApplication,
};
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr;

/// One weight of a layer or router.
#[derive(Clone, Debug)]
pub struct Weight<'a> {
    raw: sys::moert_weight,
    role: Role,
    experts: Vec<*const c_void>,
    /// Elements of `data`, or of the shortest of `experts`.
    len: usize,
    _data: PhantomData<&'a [u8]>,
}

impl<'a> Weight<'a> {
    /// A matrix of that shape; for the roles that each expert has, one matrix after the other, and
    /// the shape is that of one.
    pub fn new<T: Element>(role: Role, data: &'a [T], rows: usize, cols: usize) -> Self {
        let raw = sys::moert_weight {
            role: role.to_raw(),
            dtype: T::DTYPE.to_raw(),
            rows: rows as i64,
            cols: cols as i64,
            data: data.as_ptr().cast(),
            ..Default::default()
        };
        Self { raw, role, experts: Vec::new(), len: data.len(), _data: PhantomData }
    }

    /// One slice for each local expert.
    pub fn per_expert<T: Element>(
        role: Role,
        experts: &[&'a [T]],
        rows: usize,
        cols: usize,
    ) -> Self {
        let mut weight = Self::new::<T>(role, &[], rows, cols);
        weight.raw.data = ptr::null();
        weight.experts = experts.iter().map(|e| e.as_ptr().cast()).collect();
        weight.len = experts.iter().map(|e| e.len()).min().unwrap_or(0);
        weight
    }

    /// Rows are inputs instead of outputs.
    #[must_use]
    pub fn orientation(mut self, orientation: Orientation) -> Self {
        self.raw.orientation = orientation.to_raw();
        self
    }

    /// How gate and up are packed in one tensor.
    #[must_use]
    pub fn packing(mut self, packing: Packing) -> Self {
        self.raw.packing = packing.to_raw();
        self
    }

    /// Elements from one row to the next.
    #[must_use]
    pub fn row_stride(mut self, elements: usize) -> Self {
        self.raw.row_stride = elements as i64;
        self
    }

    /// Elements from one expert to the next.
    #[must_use]
    pub fn expert_stride(mut self, elements: usize) -> Self {
        self.raw.expert_stride = elements as i64;
        self
    }

    /// The weight for the C ABI, which sees pointers only: the slices must be long enough.
    pub(crate) fn resolve(&self, num_experts: usize) -> Result<sys::moert_weight> {
        let mut raw = self.raw;
        let each_expert =
            (sys::MOERT_ROLE_EXPERT_GATE..=sys::MOERT_ROLE_EXPERT_DOWN_BIAS).contains(&raw.role);
        let count = if each_expert && self.experts.is_empty() { num_experts } else { 1 };
        let needed = if count == 0 { Some(0) } else { self.elements(count) };
        if needed.map_or(true, |n| n > self.len) {
            return Err(Error::invalid_argument(format!(
                "the weight {:?} of {} rows and {} columns has {} elements, not enough for {} such",
                self.role, raw.rows, raw.cols, self.len, count
            )));
        }
        if !self.experts.is_empty() {
            if self.experts.len() != num_experts {
                return Err(Error::invalid_argument(format!(
                    "the weight {:?} has {} slices for {} experts",
                    self.role,
                    self.experts.len(),
                    num_experts
                )));
            }
            raw.experts = self.experts.as_ptr();
        }
        Ok(raw)
    }

    /// Elements from the first to the last of `count` matrices, if that is a number.
    fn elements(&self, count: usize) -> Option<usize> {
        let rows = self.raw.rows as usize;
        let cols = self.raw.cols as usize;
        let row_stride = if self.raw.row_stride == 0 { cols } else { self.raw.row_stride as usize };
        let one = match rows {
            0 => 0,
            _ => (rows - 1).checked_mul(row_stride)?.checked_add(cols)?,
        };
        let expert_stride = match self.raw.expert_stride {
            0 => rows.checked_mul(row_stride)?,
            stride => stride as usize,
        };
        (count - 1).checked_mul(expert_stride)?.checked_add(one)
    }
}

/// What a layer is made of.
#[derive(Clone, Debug)]
pub struct LayerConfig<'a> {
    raw: sys::moert_layer_desc,
    routing: Routing,
    activation: Option<Activation>,
    shared_activation: Option<Activation>,
    weights: Vec<Weight<'a>>,
    local_experts: Vec<i32>,
}

impl<'a> LayerConfig<'a> {
    /// A float32 layer with gated SiLU, all experts and no shared expert.
    pub fn new(hidden: i64, intermediate: i64, routing: Routing) -> Self {
        let raw = sys::moert_layer_desc { hidden, intermediate, ..Default::default() };
        Self {
            raw,
            routing,
            activation: None,
            shared_activation: None,
            weights: Vec::new(),
            local_experts: Vec::new(),
        }
    }

    /// Compute dtype of x and y.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.raw.dtype = dtype.to_raw();
        self
    }

    /// Where the routing weight multiplies.
    #[must_use]
    pub fn weight_application(mut self, application: WeightApplication) -> Self {
        self.raw.weight_application = application.to_raw();
        self
    }

    /// Width of the latent that the experts work in.
    #[must_use]
    pub fn latent(mut self, width: i64) -> Self {
        self.raw.latent = width;
        self
    }

    /// Width of the shared expert.
    #[must_use]
    pub fn shared_intermediate(mut self, width: i64) -> Self {
        self.raw.shared_intermediate = width;
        self
    }

    /// Activation of the experts.
    #[must_use]
    pub fn activation(mut self, activation: Activation) -> Self {
        self.activation = Some(activation);
        self
    }

    /// Activation of the shared expert, if it differs.
    #[must_use]
    pub fn shared_activation(mut self, activation: Activation) -> Self {
        self.shared_activation = Some(activation);
        self
    }

    /// Adds a weight.
    #[must_use]
    pub fn weight(mut self, weight: Weight<'a>) -> Self {
        self.weights.push(weight);
        self
    }

    /// Distinct global ids of the experts held, in the order of the weights.
    #[must_use]
    pub fn local_experts(mut self, ids: &[i32]) -> Self {
        self.local_experts = ids.to_vec();
        self
    }

    /// Keeps weights unpacked, for [`Layer::read_weight`] and [`Layer::write_weight`].
    #[must_use]
    pub fn trainable(mut self) -> Self {
        self.raw.flags |= sys::MOERT_LAYER_FLAG_TRAINABLE;
        self
    }

    /// Makes the layer; the weights are copied.
    pub fn build(&self, device: &Device) -> Result<Layer> {
        let held = match self.local_experts.len() {
            0 => self.routing.num_experts.max(0) as usize,
            count => count,
        };
        let weights = self.weights.iter().map(|w| w.resolve(held)).collect::<Result<Vec<_>>>()?;
        let routing = self.routing.to_raw();
        let activation = self.activation.map(Activation::to_raw);
        let shared_activation = self.shared_activation.map(Activation::to_raw);
        let desc = sys::moert_layer_desc {
            routing: &routing,
            activation: pointer(&activation),
            shared_activation: pointer(&shared_activation),
            weights: list(&weights),
            num_weights: weights.len() as u32,
            num_local_experts: self.local_experts.len() as u32,
            local_experts: list(&self.local_experts),
            ..self.raw
        };
        let mut out = ptr::null_mut();
        call(|error| unsafe { sys::moert_layer_create(device.as_ptr(), &desc, &mut out, error) })?;
        Layer::new(Handle::new(out))
    }
}

fn pointer<T>(value: &Option<T>) -> *const T {
    value.as_ref().map_or(ptr::null(), |v| v)
}

/// The address of a list; NULL if there is none.
pub(crate) fn list<T>(values: &[T]) -> *const T {
    if values.is_empty() {
        ptr::null()
    } else {
        values.as_ptr()
    }
}

/// Options of a layer from a manifest.
#[derive(Clone, Debug, Default)]
pub struct LayerOptions {
    dtype: Dtype,
    local_experts: Vec<i32>,
    trainable: bool,
}

impl LayerOptions {
    /// Compute dtype; without it that of the weights.
    #[must_use]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.dtype = dtype;
        self
    }

    /// Distinct global ids of the experts to hold.
    #[must_use]
    pub fn local_experts(mut self, ids: &[i32]) -> Self {
        self.local_experts = ids.to_vec();
        self
    }

    /// Keeps weights unpacked, for [`Layer::read_weight`] and [`Layer::write_weight`].
    #[must_use]
    pub fn trainable(mut self) -> Self {
        self.trainable = true;
        self
    }
}

/// One MoE layer. Any number of streams may run it at once.
#[derive(Debug)]
pub struct Layer {
    handle: Handle<sys::moert_layer>,
    info: LayerInfo,
}

impl Layer {
    /// Makes the layer at that index of a manifest.
    pub fn open(
        device: &Device,
        manifest: &Manifest,
        index: u32,
        options: &LayerOptions,
    ) -> Result<Self> {
        let desc = sys::moert_layer_open_desc {
            flags: options.trainable as u32 * sys::MOERT_LAYER_FLAG_TRAINABLE,
            dtype: options.dtype.to_raw(),
            num_local_experts: options.local_experts.len() as u32,
            local_experts: list(&options.local_experts),
            ..Default::default()
        };
        let (device_ptr, manifest) = (device.as_ptr(), manifest.as_ptr());
        let mut out = ptr::null_mut();
        call(|error| unsafe {
            sys::moert_layer_open(device_ptr, manifest, index, &desc, &mut out, error)
        })?;
        Self::new(Handle::new(out))
    }

    fn new(handle: Handle<sys::moert_layer>) -> Result<Self> {
        let mut raw = sys::moert_layer_info::default();
        call(|error| unsafe { sys::moert_layer_get_info(handle.as_ptr(), &mut raw, error) })?;
        Ok(Self { handle, info: LayerInfo::from_raw(&raw)? })
    }

    /// Facts about the layer.
    pub fn info(&self) -> &LayerInfo {
        &self.info
    }

    /// Computes y = layer(x).
    pub fn forward(&self, stream: &mut Stream, args: Forward<'_>) -> Result<()> {
        let operands = args.operands(&self.info)?;
        if let Some(workspace) = &args.workspace {
            stream.keep(workspace.memory());
        }
        launch(
            stream,
            operands,
            |p| match args.workspace {
                Some(_) => Ok(0),
                None => self.size(&args.raw(p)),
            },
            |p, stream| {
                let raw = args.raw(p);
                call(|error| unsafe {
                    sys::moert_layer_forward(self.handle.as_ptr(), stream.as_ptr(), &raw, error)
                })
            },
        )
    }

    /// Scratch that a call with these arguments needs.
    pub fn workspace_size(&self, args: &Forward<'_>) -> Result<u64> {
        let operands = args.operands(&self.info)?;
        self.size(&args.raw(&pointers(&operands)))
    }

    fn size(&self, args: &sys::moert_layer_forward_args) -> Result<u64> {
        let mut out = 0;
        call(|error| unsafe {
            sys::moert_layer_workspace_size(self.handle.as_ptr(), args, &mut out, error)
        })?;
        Ok(out)
    }

    /// Copies a weight of a trainable layer to a slice, after the stream's work; returns when done.
    /// `expert` is a global id for the roles that each expert has, else 0.
    pub fn read_weight<T: Element>(
        &self,
        stream: &mut Stream,
        role: Role,
        expert: i32,
        to: &mut [T],
    ) -> Result<()> {
        let (address, bytes) = self.weight::<T>(role, expert, to.len())?;
        unsafe { stream.copy(to.as_mut_ptr().cast(), address, bytes)? };
        stream.synchronize()
    }

    /// Overwrites a weight of a trainable layer, after the stream's work; returns when done.
    pub fn write_weight<T: Element>(
        &self,
        stream: &mut Stream,
        role: Role,
        expert: i32,
        from: &[T],
    ) -> Result<()> {
        let (address, bytes) = self.weight::<T>(role, expert, from.len())?;
        unsafe { stream.copy(address, from.as_ptr().cast(), bytes)? };
        stream.synchronize()
    }

    fn weight<T: Element>(
        &self,
        role: Role,
        expert: i32,
        len: usize,
    ) -> Result<(*mut c_void, u64)> {
        let mut view = sys::moert_matrix::default();
        call(|error| unsafe {
            let layer = self.handle.as_ptr();
            sys::moert_layer_weight(layer, role.to_raw(), expert, &mut view, error)
        })?;
        let packed = view.row_stride == view.cols || view.rows <= 1;
        if view.dtype != T::DTYPE.to_raw() || view.rows * view.cols != len as i64 || !packed {
            return Err(Error::invalid_argument(format!(
                "the weight {:?} has {} rows and {} columns of {:?}; the slice has {} of {:?}",
                role,
                view.rows,
                view.cols,
                Dtype::from_raw(view.dtype),
                len,
                T::DTYPE
            )));
        }
        Ok((view.data, std::mem::size_of::<T>() as u64 * len as u64))
    }
}

/// Arguments of a forward call on T tokens.
#[derive(Debug, Default)]
pub struct Forward<'a> {
    flags: u32,
    x: Option<Matrix<'a>>,
    router_x: Option<Matrix<'a>>,
    y: Option<MatrixMut<'a>>,
    given: Option<(Matrix<'a>, Matrix<'a>)>,
    ids: Option<MatrixMut<'a>>,
    weights: Option<MatrixMut<'a>>,
    logits: Option<MatrixMut<'a>>,
    expert_counts: Option<MatrixMut<'a>>,
    workspace: Option<Buffer>,
}

impl<'a> Forward<'a> {
    /// x and y are \[T, hidden\] of the layer's dtype.
    pub fn new(x: impl Into<Matrix<'a>>, y: impl Into<MatrixMut<'a>>) -> Self {
        Self { x: Some(x.into()), y: Some(y.into()), ..Default::default() }
    }

    /// What the router sees instead of x, \[T, hidden\].
    #[must_use]
    pub fn router_x(mut self, m: impl Into<Matrix<'a>>) -> Self {
        self.router_x = Some(m.into());
        self
    }

    /// Uses this routing instead of the router: ids \[T, top_k\] i32 (-1 skips a slot) and final
    /// weights \[T, top_k\] f32.
    #[must_use]
    pub fn routing(mut self, ids: impl Into<Matrix<'a>>, weights: impl Into<Matrix<'a>>) -> Self {
        self.given = Some((ids.into(), weights.into()));
        self.flags |= sys::MOERT_FORWARD_FLAG_GIVEN_ROUTING;
        self
    }

    /// Reads back the chosen experts, \[T, top_k\] i32.
    #[must_use]
    pub fn ids(mut self, m: impl Into<MatrixMut<'a>>) -> Self {
        self.ids = Some(m.into());
        self
    }

    /// Reads back the final weights, \[T, top_k\] f32.
    #[must_use]
    pub fn weights(mut self, m: impl Into<MatrixMut<'a>>) -> Self {
        self.weights = Some(m.into());
        self
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

    /// y += layer(x) instead of y = layer(x).
    #[must_use]
    pub fn accumulate(mut self) -> Self {
        self.flags |= sys::MOERT_FORWARD_FLAG_ACCUMULATE;
        self
    }

    /// Leaves the shared expert out.
    #[must_use]
    pub fn skip_shared(mut self) -> Self {
        self.flags |= sys::MOERT_FORWARD_FLAG_SKIP_SHARED;
        self
    }

    /// Scratch to use instead of the stream's own.
    #[must_use]
    pub fn workspace(mut self, buffer: &Buffer) -> Self {
        self.workspace = Some(buffer.clone());
        self
    }

    fn operands(&self, info: &LayerInfo) -> Result<Operands<7>> {
        let (hidden, experts) = (info.hidden, i64::from(info.num_experts));
        let top_k = i64::from(info.top_k);
        let accumulate = self.flags & sys::MOERT_FORWARD_FLAG_ACCUMULATE != 0;
        let y_access = if accumulate { Access::ReadWrite } else { Access::Write };
        let (ids, weights) = match &self.given {
            Some(_) if self.ids.is_some() || self.weights.is_some() => {
                return Err(Error::invalid_argument(
                    "ids and weights are given and asked for at once".to_owned(),
                ))
            }
            Some((ids, weights)) => (
                Operand::read(&Some(ids.clone()), "ids", top_k)?,
                Operand::read(&Some(weights.clone()), "weights", top_k)?,
            ),
            None => (
                Operand::write(&self.ids, "ids", top_k, Access::Write)?,
                Operand::write(&self.weights, "weights", top_k, Access::Write)?,
            ),
        };
        Ok([
            Operand::read(&self.x, "x", hidden)?,
            Operand::read(&self.router_x, "router_x", hidden)?,
            Operand::write(&self.y, "y", hidden, y_access)?,
            ids,
            weights,
            Operand::write(&self.logits, "logits", experts, Access::Write)?,
            Operand::write(&self.expert_counts, "expert_counts", experts, Access::Write)?,
        ])
    }

    fn raw(&self, matrices: &Pointers<7>) -> sys::moert_layer_forward_args {
        let [x, router_x, y, ids, weights, logits, expert_counts] = *matrices;
        let (workspace, workspace_size) = match &self.workspace {
            Some(buffer) => (buffer.address(), buffer.bytes()),
            None => (ptr::null_mut(), 0),
        };
        sys::moert_layer_forward_args {
            flags: self.flags,
            x,
            router_x,
            y,
            ids,
            weights,
            logits,
            expert_counts,
            workspace,
            workspace_size,
            ..Default::default()
        }
    }
}
