// Written by bindings/generate.py from moert.h. Do not edit.
use crate::error::{known, Result};
use crate::text;
use crate::{enums::*, sys};

/// Facts about a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Kind.
    pub kind: DeviceKind,
    /// Number among devices of its kind.
    pub ordinal: i32,
    /// CPU: threads used. GPU: multiprocessors.
    pub concurrency: u32,
    /// Memory of the device; CPU: of the machine.
    pub memory_bytes: u64,
    /// The most experts a layer or router may have here.
    pub max_experts: i32,
    /// The largest top_k here (never above the number of experts).
    pub max_top_k: i32,
    /// What moert_device_create takes: "cpu", "cuda:0", "hip:0".
    pub id: String,
    /// "avx512_bf16", "sm_90", "gfx942".
    pub arch: String,
    /// The vendor's name.
    pub name: String,
}

impl DeviceInfo {
    /// # Safety
    /// The pointers in `raw` are the library's.
    pub(crate) unsafe fn from_raw(raw: &sys::moert_device_info) -> Result<Self> {
        Ok(Self {
            kind: known("kind", raw.kind, DeviceKind::from_raw)?,
            ordinal: raw.ordinal,
            concurrency: raw.concurrency,
            memory_bytes: raw.memory_bytes,
            max_experts: raw.max_experts,
            max_top_k: raw.max_top_k,
            id: text::array(&raw.id),
            arch: text::array(&raw.arch),
            name: text::array(&raw.name),
        })
    }
}

/// How tokens choose experts. Ties go to the lower index; in choosing, numbers (-inf too) come
/// before NaN and NaN before experts of excluded groups; ids of a row are distinct and in range.
/// Without a selection bias the choice is made on logits. A sum of zero renormalises to zeros.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Routing {
    /// The router's input is RMS-normalised, no weight.
    pub rms_norm_input: bool,
    /// E, 1 up to the device's max_experts.
    pub num_experts: i32,
    /// K, 1 up to E.
    pub top_k: i32,
    /// Score.
    pub score: Score,
    /// Renormalize.
    pub renormalize: Renormalize,
    /// epsilon, minimum or p, as `renormalize` says.
    pub renormalize_value: f32,
    /// Multiplies every weight once, last; 0 means 1.
    pub routed_scaling_factor: f32,
    /// c: logits become c * tanh(logit / c); 0: none.
    pub logit_soft_cap: f32,
    /// 0 means 0.01.
    pub sparsemixer_epsilon: f32,
    /// Groups of equal size; 0 or 1: none.
    pub num_groups: i32,
    /// Groups kept, 1 up to num_groups.
    pub top_k_groups: i32,
    /// Group score.
    pub group_score: GroupScore,
    /// 0 means 1e-6.
    pub input_rms_epsilon: f32,
    /// Multiplies the router's input; 0 means 1.
    pub input_multiplier: f32,
}

impl Routing {
    pub(crate) fn from_raw(raw: &sys::moert_routing) -> Result<Self> {
        Ok(Self {
            rms_norm_input: raw.flags & sys::MOERT_ROUTING_FLAG_RMS_NORM_INPUT != 0,
            num_experts: raw.num_experts,
            top_k: raw.top_k,
            score: known("score", raw.score, Score::from_raw)?,
            renormalize: known("renormalize", raw.renormalize, Renormalize::from_raw)?,
            renormalize_value: raw.renormalize_value,
            routed_scaling_factor: raw.routed_scaling_factor,
            logit_soft_cap: raw.logit_soft_cap,
            sparsemixer_epsilon: raw.sparsemixer_epsilon,
            num_groups: raw.num_groups,
            top_k_groups: raw.top_k_groups,
            group_score: known("group_score", raw.group_score, GroupScore::from_raw)?,
            input_rms_epsilon: raw.input_rms_epsilon,
            input_multiplier: raw.input_multiplier,
        })
    }

    pub(crate) fn to_raw(self) -> sys::moert_routing {
        sys::moert_routing {
            flags: self.rms_norm_input as u32 * sys::MOERT_ROUTING_FLAG_RMS_NORM_INPUT,
            num_experts: self.num_experts,
            top_k: self.top_k,
            score: self.score.to_raw(),
            renormalize: self.renormalize.to_raw(),
            renormalize_value: self.renormalize_value,
            routed_scaling_factor: self.routed_scaling_factor,
            logit_soft_cap: self.logit_soft_cap,
            sparsemixer_epsilon: self.sparsemixer_epsilon,
            num_groups: self.num_groups,
            top_k_groups: self.top_k_groups,
            group_score: self.group_score.to_raw(),
            input_rms_epsilon: self.input_rms_epsilon,
            input_multiplier: self.input_multiplier,
            ..Default::default()
        }
    }

    /// Sets `rms_norm_input`.
    #[must_use]
    pub fn rms_norm_input(mut self, value: bool) -> Self {
        self.rms_norm_input = value;
        self
    }

    /// Sets `num_experts`.
    #[must_use]
    pub fn num_experts(mut self, value: i32) -> Self {
        self.num_experts = value;
        self
    }

    /// Sets `top_k`.
    #[must_use]
    pub fn top_k(mut self, value: i32) -> Self {
        self.top_k = value;
        self
    }

    /// Sets `score`.
    #[must_use]
    pub fn score(mut self, value: Score) -> Self {
        self.score = value;
        self
    }

    /// Sets `renormalize`.
    #[must_use]
    pub fn renormalize(mut self, value: Renormalize) -> Self {
        self.renormalize = value;
        self
    }

    /// Sets `renormalize_value`.
    #[must_use]
    pub fn renormalize_value(mut self, value: f32) -> Self {
        self.renormalize_value = value;
        self
    }

    /// Sets `routed_scaling_factor`.
    #[must_use]
    pub fn routed_scaling_factor(mut self, value: f32) -> Self {
        self.routed_scaling_factor = value;
        self
    }

    /// Sets `logit_soft_cap`.
    #[must_use]
    pub fn logit_soft_cap(mut self, value: f32) -> Self {
        self.logit_soft_cap = value;
        self
    }

    /// Sets `sparsemixer_epsilon`.
    #[must_use]
    pub fn sparsemixer_epsilon(mut self, value: f32) -> Self {
        self.sparsemixer_epsilon = value;
        self
    }

    /// Sets `num_groups`.
    #[must_use]
    pub fn num_groups(mut self, value: i32) -> Self {
        self.num_groups = value;
        self
    }

    /// Sets `top_k_groups`.
    #[must_use]
    pub fn top_k_groups(mut self, value: i32) -> Self {
        self.top_k_groups = value;
        self
    }

    /// Sets `group_score`.
    #[must_use]
    pub fn group_score(mut self, value: GroupScore) -> Self {
        self.group_score = value;
        self
    }

    /// Sets `input_rms_epsilon`.
    #[must_use]
    pub fn input_rms_epsilon(mut self, value: f32) -> Self {
        self.input_rms_epsilon = value;
        self
    }

    /// Sets `input_multiplier`.
    #[must_use]
    pub fn input_multiplier(mut self, value: f32) -> Self {
        self.input_multiplier = value;
        self
    }
}

/// act(g, u) = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset), or f(u) when ungated
/// (limit and up_offset are refused then).
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Activation {
    /// act(up x) instead of act(gate x) * up x; no gate weight.
    pub ungated: bool,
    /// Kind.
    pub kind: ActivationKind,
    /// SiLU only; 0 means 1.
    pub alpha: f32,
    /// 0: none.
    pub limit: f32,
    /// Added to the clamped up value.
    pub up_offset: f32,
}

impl Activation {
    pub(crate) fn from_raw(raw: &sys::moert_activation) -> Result<Self> {
        Ok(Self {
            ungated: raw.flags & sys::MOERT_ACTIVATION_FLAG_UNGATED != 0,
            kind: known("kind", raw.kind, ActivationKind::from_raw)?,
            alpha: raw.alpha,
            limit: raw.limit,
            up_offset: raw.up_offset,
        })
    }

    pub(crate) fn to_raw(self) -> sys::moert_activation {
        sys::moert_activation {
            flags: self.ungated as u32 * sys::MOERT_ACTIVATION_FLAG_UNGATED,
            kind: self.kind.to_raw(),
            alpha: self.alpha,
            limit: self.limit,
            up_offset: self.up_offset,
            ..Default::default()
        }
    }

    /// Sets `ungated`.
    #[must_use]
    pub fn ungated(mut self, value: bool) -> Self {
        self.ungated = value;
        self
    }

    /// Sets `kind`.
    #[must_use]
    pub fn kind(mut self, value: ActivationKind) -> Self {
        self.kind = value;
        self
    }

    /// Sets `alpha`.
    #[must_use]
    pub fn alpha(mut self, value: f32) -> Self {
        self.alpha = value;
        self
    }

    /// Sets `limit`.
    #[must_use]
    pub fn limit(mut self, value: f32) -> Self {
        self.limit = value;
        self
    }

    /// Sets `up_offset`.
    #[must_use]
    pub fn up_offset(mut self, value: f32) -> Self {
        self.up_offset = value;
        self
    }
}

/// What was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackResult {
    /// MoE layers described.
    pub num_layers: u32,
    /// Layers of the model that are not MoE; logged at INFO.
    pub num_skipped_layers: u32,
    /// Num files.
    pub num_files: u32,
    /// Num tensors.
    pub num_tensors: u64,
    /// Total bytes.
    pub total_bytes: u64,
}

impl PackResult {
    pub(crate) fn from_raw(raw: &sys::moert_pack_result) -> Result<Self> {
        Ok(Self {
            num_layers: raw.num_layers,
            num_skipped_layers: raw.num_skipped_layers,
            num_files: raw.num_files,
            num_tensors: raw.num_tensors,
            total_bytes: raw.total_bytes,
        })
    }
}

/// Facts about a manifest. Strings live as long as the handle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ManifestInfo {
    /// Num layers.
    pub num_layers: u32,
    /// Num files.
    pub num_files: u32,
    /// Num tensors.
    pub num_tensors: u64,
    /// Of all files.
    pub total_bytes: u64,
    /// Family.
    pub family: String,
    /// Model type.
    pub model_type: String,
}

impl ManifestInfo {
    /// # Safety
    /// The pointers in `raw` are the library's.
    pub(crate) unsafe fn from_raw(raw: &sys::moert_manifest_info) -> Result<Self> {
        Ok(Self {
            num_layers: raw.num_layers,
            num_files: raw.num_files,
            num_tensors: raw.num_tensors,
            total_bytes: raw.total_bytes,
            family: text::owned(raw.family),
            model_type: text::owned(raw.model_type),
        })
    }
}

/// A file of a manifest. Strings live as long as the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Whether there is one.
    pub has_hash: bool,
    /// Bytes.
    pub bytes: u64,
    /// XXH3, 128 bits, low word first.
    pub hash: [u64; 2],
    /// Relative to the base folder.
    pub path: String,
}

impl FileInfo {
    /// # Safety
    /// The pointers in `raw` are the library's.
    pub(crate) unsafe fn from_raw(raw: &sys::moert_file_info) -> Result<Self> {
        Ok(Self {
            has_hash: raw.has_hash != 0,
            bytes: raw.bytes,
            hash: raw.hash,
            path: text::owned(raw.path),
        })
    }
}

/// A tensor of a manifest. Pointers live as long as the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// As stored.
    pub dtype: Dtype,
    /// Index of its file.
    pub file: u32,
    /// In the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// `rank` extents.
    pub shape: Vec<i64>,
    /// Name.
    pub name: String,
}

impl TensorInfo {
    /// # Safety
    /// The pointers in `raw` are the library's.
    pub(crate) unsafe fn from_raw(raw: &sys::moert_tensor_info) -> Result<Self> {
        Ok(Self {
            dtype: known("dtype", raw.dtype, Dtype::from_raw)?,
            file: raw.file,
            offset: raw.offset,
            bytes: raw.bytes,
            shape: text::list(raw.shape, raw.rank as usize),
            name: text::owned(raw.name),
        })
    }
}

/// Facts about a layer, in a manifest or created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LayerInfo {
    /// The model's own number of the layer; -1 if it has none.
    pub model_layer: i32,
    /// Compute dtype; in a manifest, the widest of the expert weights.
    pub dtype: Dtype,
    /// Weight application.
    pub weight_application: WeightApplication,
    /// Hidden.
    pub hidden: i64,
    /// Intermediate.
    pub intermediate: i64,
    /// 0: none.
    pub latent: i64,
    /// 0: none.
    pub shared_intermediate: i64,
    /// Num experts.
    pub num_experts: i32,
    /// Top k.
    pub top_k: i32,
    /// Experts held.
    pub num_local_experts: u32,
    /// Num weights.
    pub num_weights: u32,
    /// In a manifest: of all weights in its files; created: of experts, latent and shared expert.
    pub weight_bytes: u64,
}

impl LayerInfo {
    pub(crate) fn from_raw(raw: &sys::moert_layer_info) -> Result<Self> {
        Ok(Self {
            model_layer: raw.model_layer,
            dtype: known("dtype", raw.dtype, Dtype::from_raw)?,
            weight_application: known(
                "weight_application",
                raw.weight_application,
                WeightApplication::from_raw,
            )?,
            hidden: raw.hidden,
            intermediate: raw.intermediate,
            latent: raw.latent,
            shared_intermediate: raw.shared_intermediate,
            num_experts: raw.num_experts,
            top_k: raw.top_k,
            num_local_experts: raw.num_local_experts,
            num_weights: raw.num_weights,
            weight_bytes: raw.weight_bytes,
        })
    }
}

/// One weight of a manifest's layer. Pointers live as long as the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WeightInfo {
    /// Role.
    pub role: Role,
    /// As stored.
    pub dtype: Dtype,
    /// Orientation.
    pub orientation: Orientation,
    /// Packing.
    pub packing: Packing,
    /// Quant scheme.
    pub quant_scheme: QuantScheme,
    /// 1 when stacked or not per expert, else the number of experts.
    pub num_tensors: u32,
    /// Of one expert, as stored.
    pub rows: i64,
    /// Cols.
    pub cols: i64,
    /// Indices of the tensors.
    pub tensors: Vec<u32>,
}

impl WeightInfo {
    /// # Safety
    /// The pointers in `raw` are the library's.
    pub(crate) unsafe fn from_raw(raw: &sys::moert_weight_info) -> Result<Self> {
        Ok(Self {
            role: known("role", raw.role, Role::from_raw)?,
            dtype: known("dtype", raw.dtype, Dtype::from_raw)?,
            orientation: known("orientation", raw.orientation, Orientation::from_raw)?,
            packing: known("packing", raw.packing, Packing::from_raw)?,
            quant_scheme: known("quant_scheme", raw.quant_scheme, QuantScheme::from_raw)?,
            num_tensors: raw.num_tensors,
            rows: raw.rows,
            cols: raw.cols,
            tensors: text::list(raw.tensors, raw.num_tensors as usize),
        })
    }
}
