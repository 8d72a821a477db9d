// Written by bindings/generate.py from moert.h. Do not edit.
use crate::sys;

/// Result of every call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Status {
    /// The call did what it says.
    Ok = sys::MOERT_STATUS_OK,
    /// A value is outside what the call accepts.
    InvalidArgument = sys::MOERT_STATUS_INVALID_ARGUMENT,
    /// Valid, but this device or version cannot do it.
    Unsupported = sys::MOERT_STATUS_UNSUPPORTED,
    /// No such device, driver or kernel file here.
    Unavailable = sys::MOERT_STATUS_UNAVAILABLE,
    /// Host or device memory ran out.
    OutOfMemory = sys::MOERT_STATUS_OUT_OF_MEMORY,
    /// A named file, tensor, layer or family does not exist.
    NotFound = sys::MOERT_STATUS_NOT_FOUND,
    /// The system refused a read or write; native_code is errno.
    IoError = sys::MOERT_STATUS_IO_ERROR,
    /// Bytes break their format: see moert_corruption.
    CorruptData = sys::MOERT_STATUS_CORRUPT_DATA,
    /// A file is not the one that was packed.
    FileChanged = sys::MOERT_STATUS_FILE_CHANGED,
    /// The message and native_code say the size needed.
    WorkspaceTooSmall = sys::MOERT_STATUS_WORKSPACE_TOO_SMALL,
    /// Enqueued work met an expert id out of range.
    InvalidRouting = sys::MOERT_STATUS_INVALID_ROUTING,
    /// An event has not been reached yet.
    NotReady = sys::MOERT_STATUS_NOT_READY,
    /// A driver call failed; native_code is the driver's.
    DeviceError = sys::MOERT_STATUS_DEVICE_ERROR,
    /// The device no longer works; create it anew.
    DeviceLost = sys::MOERT_STATUS_DEVICE_LOST,
    /// A callback of the host reported a failure.
    CallbackFailed = sys::MOERT_STATUS_CALLBACK_FAILED,
    /// A fault of the library; please report it.
    Internal = sys::MOERT_STATUS_INTERNAL,
}

impl Status {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_STATUS_OK => Self::Ok,
            sys::MOERT_STATUS_INVALID_ARGUMENT => Self::InvalidArgument,
            sys::MOERT_STATUS_UNSUPPORTED => Self::Unsupported,
            sys::MOERT_STATUS_UNAVAILABLE => Self::Unavailable,
            sys::MOERT_STATUS_OUT_OF_MEMORY => Self::OutOfMemory,
            sys::MOERT_STATUS_NOT_FOUND => Self::NotFound,
            sys::MOERT_STATUS_IO_ERROR => Self::IoError,
            sys::MOERT_STATUS_CORRUPT_DATA => Self::CorruptData,
            sys::MOERT_STATUS_FILE_CHANGED => Self::FileChanged,
            sys::MOERT_STATUS_WORKSPACE_TOO_SMALL => Self::WorkspaceTooSmall,
            sys::MOERT_STATUS_INVALID_ROUTING => Self::InvalidRouting,
            sys::MOERT_STATUS_NOT_READY => Self::NotReady,
            sys::MOERT_STATUS_DEVICE_ERROR => Self::DeviceError,
            sys::MOERT_STATUS_DEVICE_LOST => Self::DeviceLost,
            sys::MOERT_STATUS_CALLBACK_FAILED => Self::CallbackFailed,
            sys::MOERT_STATUS_INTERNAL => Self::Internal,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Status {
    fn default() -> Self {
        Self::Ok
    }
}

/// What is wrong with bytes that were refused: moert_error.native_code of CORRUPT_DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Corruption {
    /// `MOERT_CORRUPTION_UNSPECIFIED`.
    Unspecified = sys::MOERT_CORRUPTION_UNSPECIFIED,
    /// The file ends before what it promises.
    Truncated = sys::MOERT_CORRUPTION_TRUNCATED,
    /// A header length is zero or beyond the file or limit.
    HeaderLength = sys::MOERT_CORRUPTION_HEADER_LENGTH,
    /// A header is not valid JSON or not an object.
    HeaderSyntax = sys::MOERT_CORRUPTION_HEADER_SYNTAX,
    /// A name stands twice.
    DuplicateKey = sys::MOERT_CORRUPTION_DUPLICATE_KEY,
    /// A field is missing, unknown or of the wrong type.
    Field = sys::MOERT_CORRUPTION_FIELD,
    /// Offsets are not two ordered numbers inside the file.
    Offsets = sys::MOERT_CORRUPTION_OFFSETS,
    /// Shape and dtype do not give the byte count.
    SizeMismatch = sys::MOERT_CORRUPTION_SIZE_MISMATCH,
    /// A product or sum passes 64 bits.
    Overflow = sys::MOERT_CORRUPTION_OVERFLOW,
    /// Two tensors share bytes.
    Overlap = sys::MOERT_CORRUPTION_OVERLAP,
    /// Bytes belong to no tensor.
    Hole = sys::MOERT_CORRUPTION_HOLE,
    /// A dtype or enum value is not known.
    Dtype = sys::MOERT_CORRUPTION_DTYPE,
    /// The file is of another kind.
    Identifier = sys::MOERT_CORRUPTION_IDENTIFIER,
    /// The FlatBuffers verifier refused the buffer.
    Structure = sys::MOERT_CORRUPTION_STRUCTURE,
    /// An index points outside its table.
    Index = sys::MOERT_CORRUPTION_INDEX,
    /// A layer lacks a weight, has one twice or of wrong shape.
    Roles = sys::MOERT_CORRUPTION_ROLES,
    /// The file requires a feature this version lacks.
    Feature = sys::MOERT_CORRUPTION_FEATURE,
    /// A path leaves the manifest's folder.
    Path = sys::MOERT_CORRUPTION_PATH,
    /// Contents do not match the recorded hash.
    Hash = sys::MOERT_CORRUPTION_HASH,
}

impl Corruption {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_CORRUPTION_UNSPECIFIED => Self::Unspecified,
            sys::MOERT_CORRUPTION_TRUNCATED => Self::Truncated,
            sys::MOERT_CORRUPTION_HEADER_LENGTH => Self::HeaderLength,
            sys::MOERT_CORRUPTION_HEADER_SYNTAX => Self::HeaderSyntax,
            sys::MOERT_CORRUPTION_DUPLICATE_KEY => Self::DuplicateKey,
            sys::MOERT_CORRUPTION_FIELD => Self::Field,
            sys::MOERT_CORRUPTION_OFFSETS => Self::Offsets,
            sys::MOERT_CORRUPTION_SIZE_MISMATCH => Self::SizeMismatch,
            sys::MOERT_CORRUPTION_OVERFLOW => Self::Overflow,
            sys::MOERT_CORRUPTION_OVERLAP => Self::Overlap,
            sys::MOERT_CORRUPTION_HOLE => Self::Hole,
            sys::MOERT_CORRUPTION_DTYPE => Self::Dtype,
            sys::MOERT_CORRUPTION_IDENTIFIER => Self::Identifier,
            sys::MOERT_CORRUPTION_STRUCTURE => Self::Structure,
            sys::MOERT_CORRUPTION_INDEX => Self::Index,
            sys::MOERT_CORRUPTION_ROLES => Self::Roles,
            sys::MOERT_CORRUPTION_FEATURE => Self::Feature,
            sys::MOERT_CORRUPTION_PATH => Self::Path,
            sys::MOERT_CORRUPTION_HASH => Self::Hash,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Corruption {
    fn default() -> Self {
        Self::Unspecified
    }
}

/// Element types. A layer computes in FLOAT32, BFLOAT16 or FLOAT16, the others are for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Dtype {
    /// `MOERT_DTYPE_NONE`.
    None = sys::MOERT_DTYPE_NONE,
    /// `MOERT_DTYPE_FLOAT32`.
    Float32 = sys::MOERT_DTYPE_FLOAT32,
    /// `MOERT_DTYPE_BFLOAT16`.
    Bfloat16 = sys::MOERT_DTYPE_BFLOAT16,
    /// `MOERT_DTYPE_FLOAT16`.
    Float16 = sys::MOERT_DTYPE_FLOAT16,
    /// `MOERT_DTYPE_FLOAT64`.
    Float64 = sys::MOERT_DTYPE_FLOAT64,
    /// `MOERT_DTYPE_INT8`.
    Int8 = sys::MOERT_DTYPE_INT8,
    /// `MOERT_DTYPE_UINT8`.
    Uint8 = sys::MOERT_DTYPE_UINT8,
    /// `MOERT_DTYPE_INT16`.
    Int16 = sys::MOERT_DTYPE_INT16,
    /// `MOERT_DTYPE_UINT16`.
    Uint16 = sys::MOERT_DTYPE_UINT16,
    /// `MOERT_DTYPE_INT32`.
    Int32 = sys::MOERT_DTYPE_INT32,
    /// `MOERT_DTYPE_UINT32`.
    Uint32 = sys::MOERT_DTYPE_UINT32,
    /// `MOERT_DTYPE_INT64`.
    Int64 = sys::MOERT_DTYPE_INT64,
    /// `MOERT_DTYPE_UINT64`.
    Uint64 = sys::MOERT_DTYPE_UINT64,
    /// `MOERT_DTYPE_BOOL`.
    Bool = sys::MOERT_DTYPE_BOOL,
    /// `MOERT_DTYPE_FLOAT8_E4M3`.
    Float8E4m3 = sys::MOERT_DTYPE_FLOAT8_E4M3,
    /// `MOERT_DTYPE_FLOAT8_E5M2`.
    Float8E5m2 = sys::MOERT_DTYPE_FLOAT8_E5M2,
    /// `MOERT_DTYPE_FLOAT8_E8M0`.
    Float8E8m0 = sys::MOERT_DTYPE_FLOAT8_E8M0,
    /// Two values a byte, the lower nibble first.
    Float4E2m1 = sys::MOERT_DTYPE_FLOAT4_E2M1,
    /// Two values a byte.
    Int4 = sys::MOERT_DTYPE_INT4,
    /// `MOERT_DTYPE_COMPLEX64`.
    Complex64 = sys::MOERT_DTYPE_COMPLEX64,
}

impl Dtype {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_DTYPE_NONE => Self::None,
            sys::MOERT_DTYPE_FLOAT32 => Self::Float32,
            sys::MOERT_DTYPE_BFLOAT16 => Self::Bfloat16,
            sys::MOERT_DTYPE_FLOAT16 => Self::Float16,
            sys::MOERT_DTYPE_FLOAT64 => Self::Float64,
            sys::MOERT_DTYPE_INT8 => Self::Int8,
            sys::MOERT_DTYPE_UINT8 => Self::Uint8,
            sys::MOERT_DTYPE_INT16 => Self::Int16,
            sys::MOERT_DTYPE_UINT16 => Self::Uint16,
            sys::MOERT_DTYPE_INT32 => Self::Int32,
            sys::MOERT_DTYPE_UINT32 => Self::Uint32,
            sys::MOERT_DTYPE_INT64 => Self::Int64,
            sys::MOERT_DTYPE_UINT64 => Self::Uint64,
            sys::MOERT_DTYPE_BOOL => Self::Bool,
            sys::MOERT_DTYPE_FLOAT8_E4M3 => Self::Float8E4m3,
            sys::MOERT_DTYPE_FLOAT8_E5M2 => Self::Float8E5m2,
            sys::MOERT_DTYPE_FLOAT8_E8M0 => Self::Float8E8m0,
            sys::MOERT_DTYPE_FLOAT4_E2M1 => Self::Float4E2m1,
            sys::MOERT_DTYPE_INT4 => Self::Int4,
            sys::MOERT_DTYPE_COMPLEX64 => Self::Complex64,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Dtype {
    fn default() -> Self {
        Self::None
    }
}

/// LogLevel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum LogLevel {
    /// `MOERT_LOG_LEVEL_DEBUG`.
    Debug = sys::MOERT_LOG_LEVEL_DEBUG,
    /// `MOERT_LOG_LEVEL_INFO`.
    Info = sys::MOERT_LOG_LEVEL_INFO,
    /// `MOERT_LOG_LEVEL_WARNING`.
    Warning = sys::MOERT_LOG_LEVEL_WARNING,
    /// `MOERT_LOG_LEVEL_ERROR`.
    Error = sys::MOERT_LOG_LEVEL_ERROR,
}

impl LogLevel {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_LOG_LEVEL_DEBUG => Self::Debug,
            sys::MOERT_LOG_LEVEL_INFO => Self::Info,
            sys::MOERT_LOG_LEVEL_WARNING => Self::Warning,
            sys::MOERT_LOG_LEVEL_ERROR => Self::Error,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for LogLevel {
    fn default() -> Self {
        Self::Debug
    }
}

/// DeviceKind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum DeviceKind {
    /// `MOERT_DEVICE_KIND_CPU`.
    Cpu = sys::MOERT_DEVICE_KIND_CPU,
    /// `MOERT_DEVICE_KIND_CUDA`.
    Cuda = sys::MOERT_DEVICE_KIND_CUDA,
    /// `MOERT_DEVICE_KIND_HIP`.
    Hip = sys::MOERT_DEVICE_KIND_HIP,
    /// `MOERT_DEVICE_KIND_OTHER`.
    Other = sys::MOERT_DEVICE_KIND_OTHER,
}

impl DeviceKind {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_DEVICE_KIND_CPU => Self::Cpu,
            sys::MOERT_DEVICE_KIND_CUDA => Self::Cuda,
            sys::MOERT_DEVICE_KIND_HIP => Self::Hip,
            sys::MOERT_DEVICE_KIND_OTHER => Self::Other,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for DeviceKind {
    fn default() -> Self {
        Self::Cpu
    }
}

/// How logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Score {
    /// Softmax over all experts (Mixtral, Qwen).
    Softmax = sys::MOERT_SCORE_SOFTMAX,
    /// Sigmoid of each (DeepSeek-V3).
    Sigmoid = sys::MOERT_SCORE_SIGMOID,
    /// Top-k of logits, then softmax over the chosen (gpt-oss).
    SoftmaxTopK = sys::MOERT_SCORE_SOFTMAX_TOP_K,
    /// Top-k of logits, then sigmoid of the chosen (Llama 4).
    SigmoidTopK = sys::MOERT_SCORE_SIGMOID_TOP_K,
    /// top_k must be 2 (Phi-3.5-MoE; arXiv 2409.12136).
    Sparsemixer = sys::MOERT_SCORE_SPARSEMIXER,
}

impl Score {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_SCORE_SOFTMAX => Self::Softmax,
            sys::MOERT_SCORE_SIGMOID => Self::Sigmoid,
            sys::MOERT_SCORE_SOFTMAX_TOP_K => Self::SoftmaxTopK,
            sys::MOERT_SCORE_SIGMOID_TOP_K => Self::SigmoidTopK,
            sys::MOERT_SCORE_SPARSEMIXER => Self::Sparsemixer,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Score {
    fn default() -> Self {
        Self::Softmax
    }
}

/// How the chosen experts' scores become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Renormalize {
    /// `MOERT_RENORMALIZE_NONE`.
    None = sys::MOERT_RENORMALIZE_NONE,
    /// w / sum(w).
    Sum = sys::MOERT_RENORMALIZE_SUM,
    /// w / (sum(w) + value).
    SumEpsilon = sys::MOERT_RENORMALIZE_SUM_EPSILON,
    /// w / max(sum(w), value).
    SumMin = sys::MOERT_RENORMALIZE_SUM_MIN,
    /// w / (sum(|w|^value))^(1/value); value above 0.
    PNorm = sys::MOERT_RENORMALIZE_P_NORM,
}

impl Renormalize {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_RENORMALIZE_NONE => Self::None,
            sys::MOERT_RENORMALIZE_SUM => Self::Sum,
            sys::MOERT_RENORMALIZE_SUM_EPSILON => Self::SumEpsilon,
            sys::MOERT_RENORMALIZE_SUM_MIN => Self::SumMin,
            sys::MOERT_RENORMALIZE_P_NORM => Self::PNorm,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Renormalize {
    fn default() -> Self {
        Self::None
    }
}

/// Score of a group of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum GroupScore {
    /// The best member (DeepSeek-V2).
    Max = sys::MOERT_GROUP_SCORE_MAX,
    /// Sum of the two best members (DeepSeek-V3).
    Top2Sum = sys::MOERT_GROUP_SCORE_TOP2_SUM,
}

impl GroupScore {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_GROUP_SCORE_MAX => Self::Max,
            sys::MOERT_GROUP_SCORE_TOP2_SUM => Self::Top2Sum,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for GroupScore {
    fn default() -> Self {
        Self::Max
    }
}

/// ActivationKind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum ActivationKind {
    /// g * sigmoid(alpha * g).
    Silu = sys::MOERT_ACTIVATION_KIND_SILU,
    /// g * Phi(g), by erf.
    Gelu = sys::MOERT_ACTIVATION_KIND_GELU,
    /// The tanh approximation.
    GeluTanh = sys::MOERT_ACTIVATION_KIND_GELU_TANH,
    /// max(g, 0)^2.
    Relu2 = sys::MOERT_ACTIVATION_KIND_RELU2,
}

impl ActivationKind {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_ACTIVATION_KIND_SILU => Self::Silu,
            sys::MOERT_ACTIVATION_KIND_GELU => Self::Gelu,
            sys::MOERT_ACTIVATION_KIND_GELU_TANH => Self::GeluTanh,
            sys::MOERT_ACTIVATION_KIND_RELU2 => Self::Relu2,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for ActivationKind {
    fn default() -> Self {
        Self::Silu
    }
}

/// What a weight is for. E experts, H hidden, I expert intermediate, S shared intermediate, L
/// latent; D is L with a latent, else H. Shapes are given as \[rows, cols\] for
/// MOERT_ORIENTATION_OUT_IN; a vector is one row. "Each expert" roles are stacked or one pointer an
/// expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Role {
    /// `MOERT_ROLE_NONE`.
    None = sys::MOERT_ROLE_NONE,
    /// \[E, H\].
    Router = sys::MOERT_ROLE_ROUTER,
    /// \[1, E\], added to the logits.
    RouterBias = sys::MOERT_ROLE_ROUTER_BIAS,
    /// \[1, E\], added to scores for the choice only.
    SelectionBias = sys::MOERT_ROLE_SELECTION_BIAS,
    /// \[1, H\], multiplies the router's input.
    RouterInputScale = sys::MOERT_ROLE_ROUTER_INPUT_SCALE,
    /// \[1, E\], multiplies the final weight.
    ExpertScale = sys::MOERT_ROLE_EXPERT_SCALE,
    /// Each expert, \[I, D\].
    ExpertGate = sys::MOERT_ROLE_EXPERT_GATE,
    /// Each expert, \[I, D\].
    ExpertUp = sys::MOERT_ROLE_EXPERT_UP,
    /// Each expert, \[2I, D\], packed as `packing` says.
    ExpertGateUp = sys::MOERT_ROLE_EXPERT_GATE_UP,
    /// Each expert, \[D, I\].
    ExpertDown = sys::MOERT_ROLE_EXPERT_DOWN,
    /// Each expert, \[1, I\].
    ExpertGateBias = sys::MOERT_ROLE_EXPERT_GATE_BIAS,
    /// Each expert, \[1, I\].
    ExpertUpBias = sys::MOERT_ROLE_EXPERT_UP_BIAS,
    /// Each expert, \[1, 2I\], packed as `packing` says.
    ExpertGateUpBias = sys::MOERT_ROLE_EXPERT_GATE_UP_BIAS,
    /// Each expert, \[1, D\].
    ExpertDownBias = sys::MOERT_ROLE_EXPERT_DOWN_BIAS,
    /// \[L, H\].
    LatentIn = sys::MOERT_ROLE_LATENT_IN,
    /// \[H, L\].
    LatentOut = sys::MOERT_ROLE_LATENT_OUT,
    /// \[S, H\].
    SharedGate = sys::MOERT_ROLE_SHARED_GATE,
    /// \[S, H\].
    SharedUp = sys::MOERT_ROLE_SHARED_UP,
    /// \[2S, H\], packed as `packing` says.
    SharedGateUp = sys::MOERT_ROLE_SHARED_GATE_UP,
    /// \[H, S\].
    SharedDown = sys::MOERT_ROLE_SHARED_DOWN,
    /// \[1, H\]: the shared expert times sigmoid(x . w).
    SharedExpertGate = sys::MOERT_ROLE_SHARED_EXPERT_GATE,
}

impl Role {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_ROLE_NONE => Self::None,
            sys::MOERT_ROLE_ROUTER => Self::Router,
            sys::MOERT_ROLE_ROUTER_BIAS => Self::RouterBias,
            sys::MOERT_ROLE_SELECTION_BIAS => Self::SelectionBias,
            sys::MOERT_ROLE_ROUTER_INPUT_SCALE => Self::RouterInputScale,
            sys::MOERT_ROLE_EXPERT_SCALE => Self::ExpertScale,
            sys::MOERT_ROLE_EXPERT_GATE => Self::ExpertGate,
            sys::MOERT_ROLE_EXPERT_UP => Self::ExpertUp,
            sys::MOERT_ROLE_EXPERT_GATE_UP => Self::ExpertGateUp,
            sys::MOERT_ROLE_EXPERT_DOWN => Self::ExpertDown,
            sys::MOERT_ROLE_EXPERT_GATE_BIAS => Self::ExpertGateBias,
            sys::MOERT_ROLE_EXPERT_UP_BIAS => Self::ExpertUpBias,
            sys::MOERT_ROLE_EXPERT_GATE_UP_BIAS => Self::ExpertGateUpBias,
            sys::MOERT_ROLE_EXPERT_DOWN_BIAS => Self::ExpertDownBias,
            sys::MOERT_ROLE_LATENT_IN => Self::LatentIn,
            sys::MOERT_ROLE_LATENT_OUT => Self::LatentOut,
            sys::MOERT_ROLE_SHARED_GATE => Self::SharedGate,
            sys::MOERT_ROLE_SHARED_UP => Self::SharedUp,
            sys::MOERT_ROLE_SHARED_GATE_UP => Self::SharedGateUp,
            sys::MOERT_ROLE_SHARED_DOWN => Self::SharedDown,
            sys::MOERT_ROLE_SHARED_EXPERT_GATE => Self::SharedExpertGate,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Role {
    fn default() -> Self {
        Self::None
    }
}

/// Orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Orientation {
    /// Rows are outputs, as torch.nn.Linear stores them.
    OutIn = sys::MOERT_ORIENTATION_OUT_IN,
    /// Rows are inputs: rows and cols of the role are exchanged.
    InOut = sys::MOERT_ORIENTATION_IN_OUT,
}

impl Orientation {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_ORIENTATION_OUT_IN => Self::OutIn,
            sys::MOERT_ORIENTATION_IN_OUT => Self::InOut,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Orientation {
    fn default() -> Self {
        Self::OutIn
    }
}

/// Order of gate and up in one tensor, along the output dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum Packing {
    /// All gate outputs, then all up outputs.
    Concatenated = sys::MOERT_PACKING_CONCATENATED,
    /// gate 0, up 0, gate 1, up 1, ...
    Interleaved = sys::MOERT_PACKING_INTERLEAVED,
}

impl Packing {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_PACKING_CONCATENATED => Self::Concatenated,
            sys::MOERT_PACKING_INTERLEAVED => Self::Interleaved,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for Packing {
    fn default() -> Self {
        Self::Concatenated
    }
}

/// Where the routing weight multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum WeightApplication {
    /// The expert's output, after its bias.
    Output = sys::MOERT_WEIGHT_APPLICATION_OUTPUT,
    /// The expert's input, rounded to the layer's dtype.
    Input = sys::MOERT_WEIGHT_APPLICATION_INPUT,
}

impl WeightApplication {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_WEIGHT_APPLICATION_OUTPUT => Self::Output,
            sys::MOERT_WEIGHT_APPLICATION_INPUT => Self::Input,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for WeightApplication {
    fn default() -> Self {
        Self::Output
    }
}

/// Block quantisation of a stored weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum QuantScheme {
    /// `MOERT_QUANT_SCHEME_NONE`.
    None = sys::MOERT_QUANT_SCHEME_NONE,
    /// `MOERT_QUANT_SCHEME_FP8_BLOCK`.
    Fp8Block = sys::MOERT_QUANT_SCHEME_FP8_BLOCK,
    /// `MOERT_QUANT_SCHEME_MXFP4`.
    Mxfp4 = sys::MOERT_QUANT_SCHEME_MXFP4,
    /// `MOERT_QUANT_SCHEME_INT4_GROUP`.
    Int4Group = sys::MOERT_QUANT_SCHEME_INT4_GROUP,
}

impl QuantScheme {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_QUANT_SCHEME_NONE => Self::None,
            sys::MOERT_QUANT_SCHEME_FP8_BLOCK => Self::Fp8Block,
            sys::MOERT_QUANT_SCHEME_MXFP4 => Self::Mxfp4,
            sys::MOERT_QUANT_SCHEME_INT4_GROUP => Self::Int4Group,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for QuantScheme {
    fn default() -> Self {
        Self::None
    }
}

/// GateKind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum GateKind {
    /// out = x * sigmoid(g), g \[T, W\].
    Multiply = sys::MOERT_GATE_KIND_MULTIPLY,
    /// out = x * sigmoid(g), g \[T, 1\].
    MultiplyRows = sys::MOERT_GATE_KIND_MULTIPLY_ROWS,
    /// out = acc + x * sigmoid(g), g \[T, 1\].
    AddRows = sys::MOERT_GATE_KIND_ADD_ROWS,
    /// out = acc + x * sigmoid(h . w), h \[T, N\], w \[1, N\].
    AddLinear = sys::MOERT_GATE_KIND_ADD_LINEAR,
}

impl GateKind {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_GATE_KIND_MULTIPLY => Self::Multiply,
            sys::MOERT_GATE_KIND_MULTIPLY_ROWS => Self::MultiplyRows,
            sys::MOERT_GATE_KIND_ADD_ROWS => Self::AddRows,
            sys::MOERT_GATE_KIND_ADD_LINEAR => Self::AddLinear,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for GateKind {
    fn default() -> Self {
        Self::Multiply
    }
}

/// OptimizerKind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[non_exhaustive]
pub enum OptimizerKind {
    /// `MOERT_OPTIMIZER_KIND_SGD`.
    Sgd = sys::MOERT_OPTIMIZER_KIND_SGD,
    /// `MOERT_OPTIMIZER_KIND_ADAMW`.
    Adamw = sys::MOERT_OPTIMIZER_KIND_ADAMW,
    /// The host's own.
    Callbacks = sys::MOERT_OPTIMIZER_KIND_CALLBACKS,
}

impl OptimizerKind {
    /// The value of the C ABI, if this version knows it.
    pub fn from_raw(raw: i32) -> Option<Self> {
        Some(match raw {
            sys::MOERT_OPTIMIZER_KIND_SGD => Self::Sgd,
            sys::MOERT_OPTIMIZER_KIND_ADAMW => Self::Adamw,
            sys::MOERT_OPTIMIZER_KIND_CALLBACKS => Self::Callbacks,
            _ => return None,
        })
    }

    /// The value of the C ABI.
    pub fn to_raw(self) -> i32 {
        self as i32
    }
}

impl Default for OptimizerKind {
    fn default() -> Self {
        Self::Sgd
    }
}
