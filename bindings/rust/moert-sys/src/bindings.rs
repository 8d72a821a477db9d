// Written by bindings/generate.py from moert.h. Do not edit.
use std::os::raw::{c_char, c_void};

/// Version of this header. Until 1.0 a new minor version may change the ABI.
pub const MOERT_VERSION_MAJOR: u32 = 0;

pub const MOERT_VERSION_MINOR: u32 = 1;

pub const MOERT_VERSION_PATCH: u32 = 0;

/// Number of the ABI that this header describes.
pub const MOERT_ABI_VERSION: u32 = 1;

/// Result of every call that can fail.
pub type moert_status = i32;
/// The call did what it says.
pub const MOERT_STATUS_OK: moert_status = 0;
/// A value is outside what the call accepts.
pub const MOERT_STATUS_INVALID_ARGUMENT: moert_status = 1;
/// Valid, but this device or version cannot do it.
pub const MOERT_STATUS_UNSUPPORTED: moert_status = 2;
/// No such device, driver or kernel file here.
pub const MOERT_STATUS_UNAVAILABLE: moert_status = 3;
/// Host or device memory ran out.
pub const MOERT_STATUS_OUT_OF_MEMORY: moert_status = 4;
/// A named file, tensor, layer or family does not exist.
pub const MOERT_STATUS_NOT_FOUND: moert_status = 5;
/// The system refused a read or write; native_code is errno.
pub const MOERT_STATUS_IO_ERROR: moert_status = 6;
/// Bytes break their format: see moert_corruption.
pub const MOERT_STATUS_CORRUPT_DATA: moert_status = 7;
/// A file is not the one that was packed.
pub const MOERT_STATUS_FILE_CHANGED: moert_status = 8;
/// The message and native_code say the size needed.
pub const MOERT_STATUS_WORKSPACE_TOO_SMALL: moert_status = 9;
/// Enqueued work met an expert id out of range.
pub const MOERT_STATUS_INVALID_ROUTING: moert_status = 10;
/// An event has not been reached yet.
pub const MOERT_STATUS_NOT_READY: moert_status = 11;
/// A driver call failed; native_code is the driver's.
pub const MOERT_STATUS_DEVICE_ERROR: moert_status = 12;
/// The device no longer works; create it anew.
pub const MOERT_STATUS_DEVICE_LOST: moert_status = 13;
/// A callback of the host reported a failure.
pub const MOERT_STATUS_CALLBACK_FAILED: moert_status = 14;
/// A fault of the library; please report it.
pub const MOERT_STATUS_INTERNAL: moert_status = 15;

/// What is wrong with bytes that were refused: moert_error.native_code of CORRUPT_DATA.
pub type moert_corruption = i32;
pub const MOERT_CORRUPTION_UNSPECIFIED: moert_corruption = 0;
/// The file ends before what it promises.
pub const MOERT_CORRUPTION_TRUNCATED: moert_corruption = 1;
/// A header length is zero or beyond the file or limit.
pub const MOERT_CORRUPTION_HEADER_LENGTH: moert_corruption = 2;
/// A header is not valid JSON or not an object.
pub const MOERT_CORRUPTION_HEADER_SYNTAX: moert_corruption = 3;
/// A name stands twice.
pub const MOERT_CORRUPTION_DUPLICATE_KEY: moert_corruption = 4;
/// A field is missing, unknown or of the wrong type.
pub const MOERT_CORRUPTION_FIELD: moert_corruption = 5;
/// Offsets are not two ordered numbers inside the file.
pub const MOERT_CORRUPTION_OFFSETS: moert_corruption = 6;
/// Shape and dtype do not give the byte count.
pub const MOERT_CORRUPTION_SIZE_MISMATCH: moert_corruption = 7;
/// A product or sum passes 64 bits.
pub const MOERT_CORRUPTION_OVERFLOW: moert_corruption = 8;
/// Two tensors share bytes.
pub const MOERT_CORRUPTION_OVERLAP: moert_corruption = 9;
/// Bytes belong to no tensor.
pub const MOERT_CORRUPTION_HOLE: moert_corruption = 10;
/// A dtype or enum value is not known.
pub const MOERT_CORRUPTION_DTYPE: moert_corruption = 11;
/// The file is of another kind.
pub const MOERT_CORRUPTION_IDENTIFIER: moert_corruption = 12;
/// The FlatBuffers verifier refused the buffer.
pub const MOERT_CORRUPTION_STRUCTURE: moert_corruption = 13;
/// An index points outside its table.
pub const MOERT_CORRUPTION_INDEX: moert_corruption = 14;
/// A layer lacks a weight, has one twice or of wrong shape.
pub const MOERT_CORRUPTION_ROLES: moert_corruption = 15;
/// The file requires a feature this version lacks.
pub const MOERT_CORRUPTION_FEATURE: moert_corruption = 16;
/// A path leaves the manifest's folder.
pub const MOERT_CORRUPTION_PATH: moert_corruption = 17;
/// Contents do not match the recorded hash.
pub const MOERT_CORRUPTION_HASH: moert_corruption = 18;

/// Element types. A layer computes in FLOAT32, BFLOAT16 or FLOAT16, the others are for storage.
pub type moert_dtype = i32;
pub const MOERT_DTYPE_NONE: moert_dtype = 0;
pub const MOERT_DTYPE_FLOAT32: moert_dtype = 1;
pub const MOERT_DTYPE_BFLOAT16: moert_dtype = 2;
pub const MOERT_DTYPE_FLOAT16: moert_dtype = 3;
pub const MOERT_DTYPE_FLOAT64: moert_dtype = 4;
pub const MOERT_DTYPE_INT8: moert_dtype = 5;
pub const MOERT_DTYPE_UINT8: moert_dtype = 6;
pub const MOERT_DTYPE_INT16: moert_dtype = 7;
pub const MOERT_DTYPE_UINT16: moert_dtype = 8;
pub const MOERT_DTYPE_INT32: moert_dtype = 9;
pub const MOERT_DTYPE_UINT32: moert_dtype = 10;
pub const MOERT_DTYPE_INT64: moert_dtype = 11;
pub const MOERT_DTYPE_UINT64: moert_dtype = 12;
pub const MOERT_DTYPE_BOOL: moert_dtype = 13;
pub const MOERT_DTYPE_FLOAT8_E4M3: moert_dtype = 14;
pub const MOERT_DTYPE_FLOAT8_E5M2: moert_dtype = 15;
pub const MOERT_DTYPE_FLOAT8_E8M0: moert_dtype = 16;
/// Two values a byte, the lower nibble first.
pub const MOERT_DTYPE_FLOAT4_E2M1: moert_dtype = 17;
/// Two values a byte.
pub const MOERT_DTYPE_INT4: moert_dtype = 18;
pub const MOERT_DTYPE_COMPLEX64: moert_dtype = 19;

pub type moert_log_level = i32;
pub const MOERT_LOG_LEVEL_DEBUG: moert_log_level = 0;
pub const MOERT_LOG_LEVEL_INFO: moert_log_level = 1;
pub const MOERT_LOG_LEVEL_WARNING: moert_log_level = 2;
pub const MOERT_LOG_LEVEL_ERROR: moert_log_level = 3;

pub type moert_device_kind = i32;
pub const MOERT_DEVICE_KIND_CPU: moert_device_kind = 0;
pub const MOERT_DEVICE_KIND_CUDA: moert_device_kind = 1;
pub const MOERT_DEVICE_KIND_HIP: moert_device_kind = 2;
pub const MOERT_DEVICE_KIND_OTHER: moert_device_kind = 3;

/// Do not read MOERT_KERNEL_PATH or MOERT_CPU_ISA.
pub const MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT: u32 = 1;

/// CPU: queue work on the workers instead of running it inline. The queue holds 128 pieces; a
/// call then waits for the oldest, so a host's scheduler must not need the calling thread for
/// those.
pub const MOERT_STREAM_FLAG_ASYNC: u32 = 1;

/// How logits become scores.
pub type moert_score = i32;
/// Softmax over all experts (Mixtral, Qwen).
pub const MOERT_SCORE_SOFTMAX: moert_score = 0;
/// Sigmoid of each (DeepSeek-V3).
pub const MOERT_SCORE_SIGMOID: moert_score = 1;
/// Top-k of logits, then softmax over the chosen (gpt-oss).
pub const MOERT_SCORE_SOFTMAX_TOP_K: moert_score = 2;
/// Top-k of logits, then sigmoid of the chosen (Llama 4).
pub const MOERT_SCORE_SIGMOID_TOP_K: moert_score = 3;
/// top_k must be 2 (Phi-3.5-MoE; arXiv 2409.12136).
pub const MOERT_SCORE_SPARSEMIXER: moert_score = 4;

/// How the chosen experts' scores become weights.
pub type moert_renormalize = i32;
pub const MOERT_RENORMALIZE_NONE: moert_renormalize = 0;
/// w / sum(w).
pub const MOERT_RENORMALIZE_SUM: moert_renormalize = 1;
/// w / (sum(w) + value).
pub const MOERT_RENORMALIZE_SUM_EPSILON: moert_renormalize = 2;
/// w / max(sum(w), value).
pub const MOERT_RENORMALIZE_SUM_MIN: moert_renormalize = 3;
/// w / (sum(|w|^value))^(1/value); value above 0.
pub const MOERT_RENORMALIZE_P_NORM: moert_renormalize = 4;

/// Score of a group of experts.
pub type moert_group_score = i32;
/// The best member (DeepSeek-V2).
pub const MOERT_GROUP_SCORE_MAX: moert_group_score = 0;
/// Sum of the two best members (DeepSeek-V3).
pub const MOERT_GROUP_SCORE_TOP2_SUM: moert_group_score = 1;

/// The router's input is RMS-normalised, no weight.
pub const MOERT_ROUTING_FLAG_RMS_NORM_INPUT: u32 = 1;

pub type moert_activation_kind = i32;
/// g * sigmoid(alpha * g).
pub const MOERT_ACTIVATION_KIND_SILU: moert_activation_kind = 0;
/// g * Phi(g), by erf.
pub const MOERT_ACTIVATION_KIND_GELU: moert_activation_kind = 1;
/// The tanh approximation.
pub const MOERT_ACTIVATION_KIND_GELU_TANH: moert_activation_kind = 2;
/// max(g, 0)^2.
pub const MOERT_ACTIVATION_KIND_RELU2: moert_activation_kind = 3;

/// act(up x) instead of act(gate x) * up x; no gate weight.
pub const MOERT_ACTIVATION_FLAG_UNGATED: u32 = 1;

/// What a weight is for. E experts, H hidden, I expert intermediate, S shared intermediate, L
/// latent; D is L with a latent, else H. Shapes are given as \[rows, cols\] for
/// MOERT_ORIENTATION_OUT_IN; a vector is one row. "Each expert" roles are stacked or one pointer an
/// expert.
pub type moert_role = i32;
pub const MOERT_ROLE_NONE: moert_role = 0;
/// \[E, H\].
pub const MOERT_ROLE_ROUTER: moert_role = 1;
/// \[1, E\], added to the logits.
pub const MOERT_ROLE_ROUTER_BIAS: moert_role = 2;
/// \[1, E\], added to scores for the choice only.
pub const MOERT_ROLE_SELECTION_BIAS: moert_role = 3;
/// \[1, H\], multiplies the router's input.
pub const MOERT_ROLE_ROUTER_INPUT_SCALE: moert_role = 4;
/// \[1, E\], multiplies the final weight.
pub const MOERT_ROLE_EXPERT_SCALE: moert_role = 5;
/// Each expert, \[I, D\].
pub const MOERT_ROLE_EXPERT_GATE: moert_role = 6;
/// Each expert, \[I, D\].
pub const MOERT_ROLE_EXPERT_UP: moert_role = 7;
/// Each expert, \[2I, D\], packed as `packing` says.
pub const MOERT_ROLE_EXPERT_GATE_UP: moert_role = 8;
/// Each expert, \[D, I\].
pub const MOERT_ROLE_EXPERT_DOWN: moert_role = 9;
/// Each expert, \[1, I\].
pub const MOERT_ROLE_EXPERT_GATE_BIAS: moert_role = 10;
/// Each expert, \[1, I\].
pub const MOERT_ROLE_EXPERT_UP_BIAS: moert_role = 11;
/// Each expert, \[1, 2I\], packed as `packing` says.
pub const MOERT_ROLE_EXPERT_GATE_UP_BIAS: moert_role = 12;
/// Each expert, \[1, D\].
pub const MOERT_ROLE_EXPERT_DOWN_BIAS: moert_role = 13;
/// \[L, H\].
pub const MOERT_ROLE_LATENT_IN: moert_role = 14;
/// \[H, L\].
pub const MOERT_ROLE_LATENT_OUT: moert_role = 15;
/// \[S, H\].
pub const MOERT_ROLE_SHARED_GATE: moert_role = 16;
/// \[S, H\].
pub const MOERT_ROLE_SHARED_UP: moert_role = 17;
/// \[2S, H\], packed as `packing` says.
pub const MOERT_ROLE_SHARED_GATE_UP: moert_role = 18;
/// \[H, S\].
pub const MOERT_ROLE_SHARED_DOWN: moert_role = 19;
/// \[1, H\]: the shared expert times sigmoid(x . w).
pub const MOERT_ROLE_SHARED_EXPERT_GATE: moert_role = 20;

pub type moert_orientation = i32;
/// Rows are outputs, as torch.nn.Linear stores them.
pub const MOERT_ORIENTATION_OUT_IN: moert_orientation = 0;
/// Rows are inputs: rows and cols of the role are exchanged.
pub const MOERT_ORIENTATION_IN_OUT: moert_orientation = 1;

/// Order of gate and up in one tensor, along the output dimension.
pub type moert_packing = i32;
/// All gate outputs, then all up outputs.
pub const MOERT_PACKING_CONCATENATED: moert_packing = 0;
/// gate 0, up 0, gate 1, up 1, ...
pub const MOERT_PACKING_INTERLEAVED: moert_packing = 1;

/// Record sizes only; verify then checks sizes only.
pub const MOERT_PACK_FLAG_SKIP_HASHES: u32 = 1;
/// Accept shards with bytes that belong to no tensor.
pub const MOERT_PACK_FLAG_ALLOW_HOLES: u32 = 2;

/// Refuse files reached through a symbolic link.
pub const MOERT_MANIFEST_FLAG_FORBID_SYMLINKS: u32 = 1;
/// Read files into memory instead of mapping them.
pub const MOERT_MANIFEST_FLAG_READ: u32 = 2;
/// Without base_dir, trust the manifest with the choice of folder: one that was written elsewhere
///  than its checkpoint records where that lay.
pub const MOERT_MANIFEST_FLAG_PACKED_DIRECTORY: u32 = 4;

/// Where the routing weight multiplies.
pub type moert_weight_application = i32;
/// The expert's output, after its bias.
pub const MOERT_WEIGHT_APPLICATION_OUTPUT: moert_weight_application = 0;
/// The expert's input, rounded to the layer's dtype.
pub const MOERT_WEIGHT_APPLICATION_INPUT: moert_weight_application = 1;

/// Block quantisation of a stored weight.
pub type moert_quant_scheme = i32;
pub const MOERT_QUANT_SCHEME_NONE: moert_quant_scheme = 0;
pub const MOERT_QUANT_SCHEME_FP8_BLOCK: moert_quant_scheme = 1;
pub const MOERT_QUANT_SCHEME_MXFP4: moert_quant_scheme = 2;
pub const MOERT_QUANT_SCHEME_INT4_GROUP: moert_quant_scheme = 3;

/// Use the caller's device memory where it lies.
pub const MOERT_LAYER_FLAG_BORROW_WEIGHTS: u32 = 1;
/// Keep weights unpacked; moert_layer_weight gives views.
pub const MOERT_LAYER_FLAG_TRAINABLE: u32 = 2;

/// ids and weights are inputs; the router does not run.
pub const MOERT_FORWARD_FLAG_GIVEN_ROUTING: u32 = 1;
/// y += layer(x) instead of y = layer(x).
pub const MOERT_FORWARD_FLAG_ACCUMULATE: u32 = 2;
/// Leave the shared expert out.
pub const MOERT_FORWARD_FLAG_SKIP_SHARED: u32 = 4;
/// Fill `saved` for moert_layer_backward.
pub const MOERT_FORWARD_FLAG_KEEP: u32 = 8;

pub type moert_gate_kind = i32;
/// out = x * sigmoid(g), g \[T, W\].
pub const MOERT_GATE_KIND_MULTIPLY: moert_gate_kind = 0;
/// out = x * sigmoid(g), g \[T, 1\].
pub const MOERT_GATE_KIND_MULTIPLY_ROWS: moert_gate_kind = 1;
/// out = acc + x * sigmoid(g), g \[T, 1\].
pub const MOERT_GATE_KIND_ADD_ROWS: moert_gate_kind = 2;
/// out = acc + x * sigmoid(h . w), h \[T, N\], w \[1, N\].
pub const MOERT_GATE_KIND_ADD_LINEAR: moert_gate_kind = 3;

/// Add to what is there instead of overwriting it.
pub const MOERT_GRADIENT_FLAG_ACCUMULATE: u32 = 1;

pub type moert_optimizer_kind = i32;
pub const MOERT_OPTIMIZER_KIND_SGD: moert_optimizer_kind = 0;
pub const MOERT_OPTIMIZER_KIND_ADAMW: moert_optimizer_kind = 1;
/// The host's own.
pub const MOERT_OPTIMIZER_KIND_CALLBACKS: moert_optimizer_kind = 2;

#[repr(C)]
pub struct moert_runtime {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_device {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_stream {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_event {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_manifest {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_layer {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_gate {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_router {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

#[repr(C)]
pub struct moert_optimizer {
    _opaque: [u8; 0],
    _marker: std::marker::PhantomData<*mut u8>,
}

/// Releases a callback's user_data: called exactly once, also when the call that took it fails.
pub type moert_free_fn = Option<unsafe extern "C" fn(*mut c_void)>;

/// Receives log lines, from any thread. `message` has no newline and lives during the call.
pub type moert_log_fn = Option<unsafe extern "C" fn(*mut c_void, moert_log_level, *const c_char)>;

/// One piece of a parallel job; `index` is below the job's count. Never throws.
pub type moert_task_fn = Option<unsafe extern "C" fn(*mut c_void, u32)>;

/// Progress of a long call, from one thread at a time. Return 0 to go on, else the call stops with
///  CALLBACK_FAILED.
pub type moert_progress_fn = Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> i32>;

/// Explains a failure. Owned by the caller; only written when a call fails.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_error {
    /// sizeof(moert_error), or 0 for the same.
    pub struct_size: u32,
    /// What the call returned.
    pub code: moert_status,
    /// errno, a driver's code or a moert_corruption, as the status says.
    pub native_code: i64,
    /// Names the value that was wrong and what is accepted.
    pub message: [c_char; 1008],
}

impl Default for moert_error {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A view of a row-major matrix in memory that the device can reach. Element (r, c) lies at
/// `data + (r * row_stride + c)` elements; columns are contiguous. This struct never changes.
/// With rows or cols 0, data may be NULL. `data` need not be aligned beyond its element.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_matrix {
    pub data: *mut c_void,
    pub rows: i64,
    pub cols: i64,
    /// Elements from one row to the next, at least cols.
    pub row_stride: i64,
    pub dtype: moert_dtype,
    /// 0.
    pub reserved: u32,
}

impl Default for moert_matrix {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        unsafe { std::mem::zeroed() }
    }
}

/// The host's allocator. Both functions are called from any thread.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_allocator {
    pub struct_size: u32,
    pub reserved: u32,
    pub user_data: *mut c_void,
    /// Returns memory of that size and alignment (a power of two), or NULL. Size is never 0.
    pub alloc: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> *mut c_void>,
    /// Gets back a block with the size and alignment it was asked for with.
    pub free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64)>,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_allocator {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Where log lines go. Without one they go nowhere: the library never prints.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_log_sink {
    pub struct_size: u32,
    /// Lines below this level are not made.
    pub min_level: moert_log_level,
    pub user_data: *mut c_void,
    pub write: moert_log_fn,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_log_sink {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The host's threads, for CPU work. Without a scheduler each CPU device has a small pool of its
/// own. `parallel_for` is entered from the calling thread of a moert call or from a submitted task;
/// it may be entered concurrently, and must not need a free worker to make progress.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_scheduler {
    pub struct_size: u32,
    /// Tasks that can run at once, the caller's thread included; 0 means 1.
    pub concurrency: u32,
    pub user_data: *mut c_void,
    /// Runs fn(task, i) once for each i below count, in any order; returns when all are done.
    pub parallel_for: Option<unsafe extern "C" fn(*mut c_void, u32, moert_task_fn, *mut c_void)>,
    /// Runs fn(task, 0) once later on some thread; needed by asynchronous streams only, else NULL.
    pub submit: Option<unsafe extern "C" fn(*mut c_void, moert_task_fn, *mut c_void)>,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_scheduler {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What a runtime is made of; each part may be NULL for the library's own.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_runtime_desc {
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    pub allocator: *const moert_allocator,
    pub log: *const moert_log_sink,
    pub scheduler: *const moert_scheduler,
}

impl Default for moert_runtime_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Facts about a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_device_info {
    pub struct_size: u32,
    pub kind: moert_device_kind,
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
    pub id: [c_char; 32],
    /// "avx512_bf16", "sm_90", "gfx942".
    pub arch: [c_char; 32],
    /// The vendor's name.
    pub name: [c_char; 128],
}

impl Default for moert_device_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Options of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_device_desc {
    pub struct_size: u32,
    /// moert_device_flag_e.
    pub flags: u32,
    /// GPU: a kernel file, or the folder that holds it; NULL: search.
    pub kernel_path: *const c_char,
    /// GPU: a kernel file in memory, read during the call only.
    pub kernel_data: *const c_void,
    pub kernel_size: u64,
    /// CPU, no host scheduler: threads, the caller's included, 1024 at most; 0: all.
    pub cpu_threads: u32,
    pub reserved: u32,
}

impl Default for moert_device_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Options of a stream.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_stream_desc {
    pub struct_size: u32,
    /// moert_stream_flag_e.
    pub flags: u32,
    /// Scratch to reserve at once; see moert_stream_reserve.
    pub scratch_bytes: u64,
}

impl Default for moert_stream_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// How tokens choose experts. Ties go to the lower index; in choosing, numbers (-inf too) come
/// before NaN and NaN before experts of excluded groups; ids of a row are distinct and in range.
/// Without a selection bias the choice is made on logits. A sum of zero renormalises to zeros.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_routing {
    pub struct_size: u32,
    /// moert_routing_flag_e.
    pub flags: u32,
    /// E, 1 up to the device's max_experts.
    pub num_experts: i32,
    /// K, 1 up to E.
    pub top_k: i32,
    pub score: moert_score,
    pub renormalize: moert_renormalize,
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
    pub group_score: moert_group_score,
    /// 0 means 1e-6.
    pub input_rms_epsilon: f32,
    /// Multiplies the router's input; 0 means 1.
    pub input_multiplier: f32,
    pub reserved: u32,
}

impl Default for moert_routing {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// act(g, u) = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset), or f(u) when ungated
/// (limit and up_offset are refused then).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_activation {
    pub struct_size: u32,
    /// moert_activation_flag_e.
    pub flags: u32,
    pub kind: moert_activation_kind,
    /// SiLU only; 0 means 1.
    pub alpha: f32,
    /// 0: none.
    pub limit: f32,
    /// Added to the clamped up value.
    pub up_offset: f32,
}

impl Default for moert_activation {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One weight of a layer. For an "each expert" role either `experts` holds one pointer per local
/// expert, or `data` is the first local expert's matrix and the next follows `expert_stride`
/// elements later. Expert weights are widened to the layer's dtype, never narrowed; router weights,
/// biases and scales may be of any of the three compute dtypes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_weight {
    pub struct_size: u32,
    pub role: moert_role,
    pub dtype: moert_dtype,
    pub orientation: moert_orientation,
    pub packing: moert_packing,
    pub reserved: u32,
    pub rows: i64,
    pub cols: i64,
    /// Elements; 0 means cols.
    pub row_stride: i64,
    /// Elements; 0 means rows * row_stride.
    pub expert_stride: i64,
    pub data: *const c_void,
    pub experts: *const *const c_void,
}

impl Default for moert_weight {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What to pack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_pack_desc {
    pub struct_size: u32,
    /// moert_pack_flag_e.
    pub flags: u32,
    /// Folder with config.json and the safetensors file or shards.
    pub directory: *const c_char,
    /// The manifest to write; NULL: directory/model.moem. Elsewhere than in
    /// or above `directory` it opens with base_dir, or the flag
    /// MOERT_MANIFEST_FLAG_PACKED_DIRECTORY.
    pub output: *const c_char,
    /// A family description (JSON) to use; NULL: a built-in one.
    pub family_path: *const c_char,
    /// May be NULL.
    pub progress: moert_progress_fn,
    pub user_data: *mut c_void,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_pack_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// What was packed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_pack_result {
    pub struct_size: u32,
    /// MoE layers described.
    pub num_layers: u32,
    /// Layers of the model that are not MoE; logged at INFO.
    pub num_skipped_layers: u32,
    pub num_files: u32,
    pub num_tensors: u64,
    pub total_bytes: u64,
}

impl Default for moert_pack_result {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// The host's files, for archives and virtual file systems. Called from any thread. Functions return
/// 0, or a nonzero code that becomes moert_error.native_code of an IO_ERROR.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_file_source {
    pub struct_size: u32,
    pub reserved: u32,
    pub user_data: *mut c_void,
    /// Opens a file by its path as the manifest names it, and gives its size.
    pub open:
        Option<unsafe extern "C" fn(*mut c_void, *const c_char, *mut *mut c_void, *mut u64) -> i32>,
    /// Reads exactly `bytes` bytes.
    pub read: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, u64, *mut c_void, u64) -> i32>,
    pub close: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_file_source {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Where a manifest comes from: `path`, or `data` and `size`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_manifest_desc {
    pub struct_size: u32,
    /// moert_manifest_flag_e.
    pub flags: u32,
    pub path: *const c_char,
    /// Copied during the call.
    pub data: *const c_void,
    pub size: u64,
    /// Folder of the files; NULL: the manifest's own; with `files`: none.
    pub base_dir: *const c_char,
    /// Opens these files and `path`; NULL: the file system.
    pub files: *const moert_file_source,
}

impl Default for moert_manifest_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Facts about a manifest. Strings live as long as the handle.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_manifest_info {
    pub struct_size: u32,
    pub num_layers: u32,
    pub num_files: u32,
    pub reserved: u32,
    pub num_tensors: u64,
    /// Of all files.
    pub total_bytes: u64,
    pub family: *const c_char,
    pub model_type: *const c_char,
}

impl Default for moert_manifest_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A file of a manifest. Strings live as long as the manifest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_file_info {
    pub struct_size: u32,
    pub has_hash: u32,
    pub bytes: u64,
    /// XXH3, 128 bits, low word first.
    pub hash: [u64; 2],
    /// Relative to the base folder.
    pub path: *const c_char,
}

impl Default for moert_file_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A tensor of a manifest. Pointers live as long as the manifest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_tensor_info {
    pub struct_size: u32,
    /// As stored.
    pub dtype: moert_dtype,
    /// Index of its file.
    pub file: u32,
    pub rank: u32,
    /// In the file.
    pub offset: u64,
    pub bytes: u64,
    /// `rank` extents.
    pub shape: *const i64,
    pub name: *const c_char,
}

impl Default for moert_tensor_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Facts about a layer, in a manifest or created.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_layer_info {
    pub struct_size: u32,
    /// The model's own number of the layer; -1 if it has none.
    pub model_layer: i32,
    /// Compute dtype; in a manifest, the widest of the expert weights.
    pub dtype: moert_dtype,
    pub weight_application: moert_weight_application,
    pub hidden: i64,
    pub intermediate: i64,
    /// 0: none.
    pub latent: i64,
    /// 0: none.
    pub shared_intermediate: i64,
    pub num_experts: i32,
    pub top_k: i32,
    /// Experts held.
    pub num_local_experts: u32,
    pub num_weights: u32,
    /// In a manifest: of all weights in its files; created: of experts, latent and shared expert.
    pub weight_bytes: u64,
}

impl Default for moert_layer_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One weight of a manifest's layer. Pointers live as long as the manifest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_weight_info {
    pub struct_size: u32,
    pub role: moert_role,
    /// As stored.
    pub dtype: moert_dtype,
    pub orientation: moert_orientation,
    pub packing: moert_packing,
    pub quant_scheme: moert_quant_scheme,
    /// 1 when stacked or not per expert, else the number of experts.
    pub num_tensors: u32,
    pub reserved: u32,
    /// Of one expert, as stored.
    pub rows: i64,
    pub cols: i64,
    /// Indices of the tensors.
    pub tensors: *const u32,
}

impl Default for moert_weight_info {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A layer from plain pointers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_layer_desc {
    pub struct_size: u32,
    /// moert_layer_flag_e.
    pub flags: u32,
    /// Compute dtype of x and y; NONE means FLOAT32.
    pub dtype: moert_dtype,
    pub weight_application: moert_weight_application,
    pub hidden: i64,
    pub intermediate: i64,
    /// 0: none.
    pub latent: i64,
    /// 0: no shared expert.
    pub shared_intermediate: i64,
    pub routing: *const moert_routing,
    /// NULL: gated SiLU.
    pub activation: *const moert_activation,
    /// NULL: as the experts'.
    pub shared_activation: *const moert_activation,
    /// `num_weights` of them, each weights\[0\].struct_size apart.
    pub weights: *const moert_weight,
    pub num_weights: u32,
    /// 0: all experts are held.
    pub num_local_experts: u32,
    /// Distinct global ids of the experts held, in weight order.
    pub local_experts: *const i32,
    pub user_data: *mut c_void,
    /// Called when the library is done with the weights. May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_layer_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Options of a layer from a manifest.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_layer_open_desc {
    pub struct_size: u32,
    /// moert_layer_flag_e, BORROW_WEIGHTS excepted.
    pub flags: u32,
    /// NONE: moert_layer_info.dtype of the manifest's layer.
    pub dtype: moert_dtype,
    /// 0: all.
    pub num_local_experts: u32,
    pub local_experts: *const i32,
}

impl Default for moert_layer_open_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Arguments of a forward call; matrices that are NULL are absent. T tokens; T = 0 does nothing.
/// An output that overlaps an input or another output is refused.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_layer_forward_args {
    pub struct_size: u32,
    /// moert_forward_flag_e.
    pub flags: u32,
    /// \[T, H\], the layer's dtype.
    pub x: *const moert_matrix,
    /// \[T, H\], the layer's dtype; absent: x.
    pub router_x: *const moert_matrix,
    /// \[T, H\], the layer's dtype.
    pub y: *const moert_matrix,
    /// \[T, K\] INT32. Input or output; -1 skips a slot (input).
    pub ids: *const moert_matrix,
    /// \[T, K\] FLOAT32, final weights. Input or output.
    pub weights: *const moert_matrix,
    /// \[T, E\] FLOAT32, after bias and soft cap. Output.
    pub logits: *const moert_matrix,
    /// \[1, E\] INT32, slots per expert. Output.
    pub expert_counts: *const moert_matrix,
    /// Device memory, 256-byte aligned; NULL: the stream's scratch.
    pub workspace: *mut c_void,
    /// At least moert_layer_workspace_size.
    pub workspace_size: u64,
    /// Device memory, with KEEP.
    pub saved: *mut c_void,
    pub saved_size: u64,
}

impl Default for moert_layer_forward_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A router.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_router_desc {
    pub struct_size: u32,
    /// 0 or MOERT_LAYER_FLAG_BORROW_WEIGHTS.
    pub flags: u32,
    /// Of x, or of given logits; NONE means FLOAT32.
    pub dtype: moert_dtype,
    pub num_weights: u32,
    /// H; 0: the router runs on given logits only.
    pub hidden: i64,
    pub routing: *const moert_routing,
    /// Roles ROUTER, ROUTER_BIAS, SELECTION_BIAS, ROUTER_INPUT_SCALE,
    /// EXPERT_SCALE.
    pub weights: *const moert_weight,
    pub user_data: *mut c_void,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_router_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Arguments of a router call: x, or given_logits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_router_forward_args {
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    /// \[T, H\], the router's dtype.
    pub x: *const moert_matrix,
    /// \[T, E\], the router's dtype, before bias and soft cap.
    pub given_logits: *const moert_matrix,
    /// \[T, K\] INT32, output.
    pub ids: *const moert_matrix,
    /// \[T, K\] FLOAT32, output.
    pub weights: *const moert_matrix,
    /// \[T, E\] FLOAT32, output; may be absent.
    pub logits: *const moert_matrix,
    /// \[1, E\] INT32, output; may be absent.
    pub expert_counts: *const moert_matrix,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
}

impl Default for moert_router_forward_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A gate op. Float32 inside, one kernel launch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_gate_desc {
    pub struct_size: u32,
    pub kind: moert_gate_kind,
    /// Of every matrix; NONE means FLOAT32.
    pub dtype: moert_dtype,
    pub reserved: u32,
    /// W, columns of x and out.
    pub width: i64,
    /// N, columns of h and w; ADD_LINEAR only.
    pub linear_width: i64,
}

impl Default for moert_gate_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Arguments of a gate op. out may be x or acc itself (same data and stride); no other overlap.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_gate_forward_args {
    pub struct_size: u32,
    /// 0.
    pub flags: u32,
    /// \[T, W\].
    pub x: *const moert_matrix,
    /// As the kind says; absent for ADD_LINEAR.
    pub g: *const moert_matrix,
    /// \[T, N\], ADD_LINEAR only.
    pub h: *const moert_matrix,
    /// \[1, N\], ADD_LINEAR only.
    pub w: *const moert_matrix,
    /// \[T, W\], ADD_ROWS and ADD_LINEAR only; absent: out.
    pub acc: *const moert_matrix,
    /// \[T, W\].
    pub out: *const moert_matrix,
}

impl Default for moert_gate_forward_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Where the gradient of one weight goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_gradient {
    pub struct_size: u32,
    pub role: moert_role,
    /// Global id for "each expert" roles; -1: all held experts, stacked by rows.
    pub expert: i32,
    /// moert_gradient_flag_e.
    pub flags: u32,
    /// FLOAT32 or the layer's dtype, \[out, in\] order.
    pub value: *const moert_matrix,
}

impl Default for moert_gradient {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// Arguments of a backward call; outputs that are NULL are not computed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_layer_backward_args {
    pub struct_size: u32,
    /// moert_forward_flag_e of the forward call.
    pub flags: u32,
    pub x: *const moert_matrix,
    pub router_x: *const moert_matrix,
    /// Given routing only.
    pub ids: *const moert_matrix,
    /// Given routing only.
    pub weights: *const moert_matrix,
    /// \[T, H\], the layer's dtype.
    pub dy: *const moert_matrix,
    /// \[T, H\], the layer's dtype.
    pub dx: *const moert_matrix,
    pub d_router_x: *const moert_matrix,
    /// \[T, K\] FLOAT32, given routing only.
    pub d_weights: *const moert_matrix,
    /// `num_gradients`, each gradients\[0\].struct_size apart.
    pub gradients: *const moert_gradient,
    pub num_gradients: u32,
    pub reserved: u32,
    pub saved: *const c_void,
    pub saved_size: u64,
    pub workspace: *mut c_void,
    pub workspace_size: u64,
}

impl Default for moert_layer_backward_args {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// One option of an optimizer: both strings live during the call.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_option {
    pub key: *const c_char,
    pub value: *const c_char,
}

impl Default for moert_option {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        unsafe { std::mem::zeroed() }
    }
}

/// One parameter as an optimizer sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_parameter {
    pub struct_size: u32,
    pub reserved: u32,
    pub name: *const c_char,
    pub value: *const moert_matrix,
    pub gradient: *const moert_matrix,
}

impl Default for moert_parameter {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// A host's own optimizer. Functions return 0, or a code that becomes CALLBACK_FAILED.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_optimizer_callbacks {
    pub struct_size: u32,
    pub reserved: u32,
    pub user_data: *mut c_void,
    pub create_state: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *const moert_parameter,
            *const moert_option,
            u32,
            *mut *mut c_void,
        ) -> i32,
    >,
    pub step: Option<
        unsafe extern "C" fn(
            *mut c_void,
            *mut c_void,
            *const moert_parameter,
            *mut moert_stream,
            *const moert_option,
            u32,
        ) -> i32,
    >,
    pub destroy_state: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// May be NULL.
    pub free_fn: moert_free_fn,
}

impl Default for moert_optimizer_callbacks {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

/// An optimizer. Options that it does not know are passed through or ignored, never an error.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct moert_optimizer_desc {
    pub struct_size: u32,
    pub kind: moert_optimizer_kind,
    pub callbacks: *const moert_optimizer_callbacks,
    pub options: *const moert_option,
    pub num_options: u32,
    pub reserved: u32,
}

impl Default for moert_optimizer_desc {
    fn default() -> Self {
        // SAFETY: numbers, pointers and optional functions may all be zero.
        let mut value: Self = unsafe { std::mem::zeroed() };
        value.struct_size = std::mem::size_of::<Self>() as u32;
        value
    }
}

extern "C" {
    /// The ABI number of the loaded library; a host compares it with MOERT_ABI_VERSION. Since 0.1.
    pub fn moert_abi_version() -> u32;
    /// The loaded library's version, such as "0.1.0". Static. Since 0.1.
    pub fn moert_version_string() -> *const c_char;
    /// A short name of a status, such as "INVALID_ARGUMENT". Never NULL, static. Since 0.1.
    pub fn moert_status_name(status: moert_status) -> *const c_char;
    /// Name of a dtype as safetensors spells it ("F32", "BF16"); "?" if unknown. Static. Since 0.1.
    pub fn moert_dtype_name(dtype: moert_dtype) -> *const c_char;
    /// Bits of one element, 0 for NONE and unknown values. Since 0.1.
    pub fn moert_dtype_bits(dtype: moert_dtype) -> u32;
    /// A packed matrix: row_stride = cols. Since 0.1.
    pub fn moert_matrix_init(
        matrix: *mut moert_matrix,
        data: *mut c_void,
        rows: i64,
        cols: i64,
        dtype: moert_dtype,
    );
    /// Makes a runtime. Nothing is shared between two runtimes of a process.
    /// `desc`: NULL: the library's own allocator and threads, no log.
    /// Since 0.1.
    pub fn moert_runtime_create(
        desc: *const moert_runtime_desc,
        out: *mut *mut moert_runtime,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_runtime_retain(runtime: *const moert_runtime);
    pub fn moert_runtime_release(runtime: *const moert_runtime);
    /// Number of devices found, the CPU (index 0) included; drivers are looked for once. Since 0.1.
    pub fn moert_runtime_num_devices(
        runtime: *const moert_runtime,
        out: *mut u32,
        error: *mut moert_error,
    ) -> moert_status;
    /// Facts about the index-th device. Since 0.1.
    pub fn moert_runtime_device_info(
        runtime: *const moert_runtime,
        index: u32,
        out: *mut moert_device_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Opens a device with all its kernels loaded.
    /// `name`: "cpu", "cuda:N", "hip:N", "best" (a GPU that works, else the CPU); NULL: "cpu".
    /// `desc`: May be NULL.
    /// Errors: UNAVAILABLE (no driver, no such device, no kernel file or none for its architecture: the
    /// message lists what was tried), INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_ERROR.
    /// Since 0.1.
    pub fn moert_device_create(
        runtime: *const moert_runtime,
        name: *const c_char,
        desc: *const moert_device_desc,
        out: *mut *mut moert_device,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_device_retain(device: *const moert_device);
    pub fn moert_device_release(device: *const moert_device);
    /// Facts about an open device. Since 0.1.
    pub fn moert_device_get_info(
        device: *const moert_device,
        out: *mut moert_device_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Allocates device memory, aligned to 256 bytes, not initialised. 0 bytes give NULL. Since 0.1.
    pub fn moert_device_alloc(
        device: *const moert_device,
        bytes: u64,
        out: *mut *mut c_void,
        error: *mut moert_error,
    ) -> moert_status;
    /// Frees it. The caller makes sure that no enqueued work uses it. NULL is fine. Since 0.1.
    pub fn moert_device_free(device: *const moert_device, memory: *mut c_void);
    /// Allocates host memory that this device copies from and to fastest (pinned). Since 0.1.
    pub fn moert_host_alloc(
        device: *const moert_device,
        bytes: u64,
        out: *mut *mut c_void,
        error: *mut moert_error,
    ) -> moert_status;
    /// Frees it. NULL is fine. Since 0.1.
    pub fn moert_host_free(device: *const moert_device, memory: *mut c_void);
    /// Makes an order of work. `desc`: May be NULL. Since 0.1.
    pub fn moert_stream_create(
        device: *const moert_device,
        desc: *const moert_stream_desc,
        out: *mut *mut moert_stream,
        error: *mut moert_error,
    ) -> moert_status;
    /// Wraps a CUstream or hipStream_t of the device's primary context, which stays the caller's and
    /// must outlive the handle. A stream of another context, or a CPU device, is refused.
    /// Since 0.1.
    pub fn moert_stream_import(
        device: *const moert_device,
        native: *mut c_void,
        out: *mut *mut moert_stream,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_stream_retain(stream: *const moert_stream);
    pub fn moert_stream_release(stream: *const moert_stream);
    /// The driver's stream, NULL on the CPU. Since 0.1.
    pub fn moert_stream_native(stream: *const moert_stream) -> *mut c_void;
    /// Copies between any of host and device memory, in stream order. The ranges must not overlap.
    /// Since 0.1.
    pub fn moert_stream_copy(
        stream: *mut moert_stream,
        destination: *mut c_void,
        source: *const c_void,
        bytes: u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Grows the stream's own scratch to at least that size; only this call does. It may synchronise.
    /// Calls without a caller's workspace use this scratch.
    /// Since 0.1.
    pub fn moert_stream_reserve(
        stream: *mut moert_stream,
        bytes: u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Waits until all work is done, then reports like moert_stream_check. Since 0.1.
    pub fn moert_stream_synchronize(
        stream: *mut moert_stream,
        error: *mut moert_error,
    ) -> moert_status;
    /// Reports, without waiting, the first failure of work that has run on this stream since the last
    /// report, and clears it. A lost device stays reported.
    /// Since 0.1.
    pub fn moert_stream_check(stream: *mut moert_stream, error: *mut moert_error) -> moert_status;
    /// Makes an event. One that was never recorded counts as reached. Since 0.1.
    pub fn moert_event_create(
        device: *const moert_device,
        out: *mut *mut moert_event,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_event_retain(event: *const moert_event);
    pub fn moert_event_release(event: *const moert_event);
    /// Marks the stream's present end; recording again moves the event. Since 0.1.
    pub fn moert_event_record(
        event: *mut moert_event,
        stream: *mut moert_stream,
        error: *mut moert_error,
    ) -> moert_status;
    /// Never blocks: OK once reached, NOT_READY before. Once reached, a failure of the stream's work up
    /// to here is returned instead (and stays for moert_stream_check).
    /// Since 0.1.
    pub fn moert_event_query(event: *const moert_event, error: *mut moert_error) -> moert_status;
    /// Blocks the calling thread until reached; reports like moert_event_query. Since 0.1.
    pub fn moert_event_wait(event: *const moert_event, error: *mut moert_error) -> moert_status;
    /// Work enqueued on `stream` from now on starts after the event is reached. Since 0.1.
    pub fn moert_stream_wait_event(
        stream: *mut moert_stream,
        event: *const moert_event,
        error: *mut moert_error,
    ) -> moert_status;
    /// Writes a manifest for a Hugging Face checkpoint. No weight is copied. The file appears whole or
    /// not at all.
    /// `result`: May be NULL.
    /// Errors: NOT_FOUND (folder, config, shard, tensor, or an unknown model_type: the message lists the
    /// known ones), CORRUPT_DATA, IO_ERROR, UNSUPPORTED, CALLBACK_FAILED.
    /// Since 0.1.
    pub fn moert_manifest_pack(
        runtime: *const moert_runtime,
        desc: *const moert_pack_desc,
        result: *mut moert_pack_result,
        error: *mut moert_error,
    ) -> moert_status;
    /// The model types of the built-in families, separated by commas. Static. Since 0.1.
    pub fn moert_family_names() -> *const c_char;
    /// Opens a manifest: safe on any bytes. Files are checked for presence and size, not for contents
    /// (moert_manifest_verify does that); they stay mapped while the handle or a layer of it lives. A
    /// mapped file that is cut short meanwhile raises the platform's signal when read: use
    /// MOERT_MANIFEST_FLAG_READ where that can happen.
    /// Errors: NOT_FOUND, IO_ERROR, CORRUPT_DATA, FILE_CHANGED (size differs), INVALID_ARGUMENT.
    /// Since 0.1.
    pub fn moert_manifest_open(
        runtime: *const moert_runtime,
        desc: *const moert_manifest_desc,
        out: *mut *mut moert_manifest,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_manifest_retain(manifest: *const moert_manifest);
    pub fn moert_manifest_release(manifest: *const moert_manifest);
    /// Reads every file: sizes, hashes and safetensors headers against what was packed.
    /// `progress`: May be NULL. Errors: FILE_CHANGED, CORRUPT_DATA, IO_ERROR, CALLBACK_FAILED.
    /// Since 0.1.
    pub fn moert_manifest_verify(
        manifest: *const moert_manifest,
        progress: moert_progress_fn,
        user_data: *mut c_void,
        error: *mut moert_error,
    ) -> moert_status;
    /// Since 0.1.
    pub fn moert_manifest_get_info(
        manifest: *const moert_manifest,
        out: *mut moert_manifest_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Since 0.1.
    pub fn moert_manifest_file(
        manifest: *const moert_manifest,
        index: u32,
        out: *mut moert_file_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// The index-th tensor; all tensors of the checkpoint are there, ordered by name. Since 0.1.
    pub fn moert_manifest_tensor(
        manifest: *const moert_manifest,
        index: u64,
        out: *mut moert_tensor_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Index of the tensor of that name, or NOT_FOUND. Since 0.1.
    pub fn moert_manifest_find_tensor(
        manifest: *const moert_manifest,
        name: *const c_char,
        out: *mut u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// The bytes of a tensor where they lie, possibly unaligned; valid as long as the manifest. With a
    /// host's file source, the first call reads its file.
    /// Since 0.1.
    pub fn moert_manifest_tensor_data(
        manifest: *const moert_manifest,
        index: u64,
        out: *mut *const c_void,
        error: *mut moert_error,
    ) -> moert_status;
    /// The index-th MoE layer, in the model's order. Since 0.1.
    pub fn moert_manifest_layer(
        manifest: *const moert_manifest,
        index: u32,
        out: *mut moert_layer_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Index of the MoE layer with the model's own number, or NOT_FOUND. Since 0.1.
    pub fn moert_manifest_find_layer(
        manifest: *const moert_manifest,
        model_layer: i32,
        out: *mut u32,
        error: *mut moert_error,
    ) -> moert_status;
    /// Its routing. Since 0.1.
    pub fn moert_manifest_layer_routing(
        manifest: *const moert_manifest,
        index: u32,
        out: *mut moert_routing,
        error: *mut moert_error,
    ) -> moert_status;
    /// Its activations, of the experts and of the shared expert; either out may be NULL. Since 0.1.
    pub fn moert_manifest_layer_activation(
        manifest: *const moert_manifest,
        index: u32,
        experts: *mut moert_activation,
        shared: *mut moert_activation,
        error: *mut moert_error,
    ) -> moert_status;
    /// The weight_index-th weight of a layer. Since 0.1.
    pub fn moert_manifest_layer_weight(
        manifest: *const moert_manifest,
        index: u32,
        weight_index: u32,
        out: *mut moert_weight_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// Makes a layer. Weights are copied unless flags say otherwise; they may lie in host memory or in
    /// the device's. A layer without a router weight runs with caller-given routing only. Slots routed
    /// to experts that are not held add nothing. Errors: INVALID_ARGUMENT (shapes, roles, values),
    /// UNSUPPORTED (this device cannot run it), OUT_OF_MEMORY.
    /// Since 0.1.
    pub fn moert_layer_create(
        device: *const moert_device,
        desc: *const moert_layer_desc,
        out: *mut *mut moert_layer,
        error: *mut moert_error,
    ) -> moert_status;
    /// Makes the layer at that index of a manifest. On the CPU weights are used where they are mapped.
    /// `desc`: May be NULL.
    /// Since 0.1.
    pub fn moert_layer_open(
        device: *const moert_device,
        manifest: *const moert_manifest,
        index: u32,
        desc: *const moert_layer_open_desc,
        out: *mut *mut moert_layer,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_layer_retain(layer: *const moert_layer);
    pub fn moert_layer_release(layer: *const moert_layer);
    /// Since 0.1.
    pub fn moert_layer_get_info(
        layer: *const moert_layer,
        out: *mut moert_layer_info,
        error: *mut moert_error,
    ) -> moert_status;
    /// A view of a weight of a TRAINABLE layer, in device memory, in the layer's storage dtype and \[out,
    /// in\] order. `expert`: Global id for "each expert" roles, else 0.
    /// Since 0.1.
    pub fn moert_layer_weight(
        layer: *const moert_layer,
        role: moert_role,
        expert: i32,
        out: *mut moert_matrix,
        error: *mut moert_error,
    ) -> moert_status;
    /// Scratch that a forward call with these arguments needs. Reads shapes, flags and which matrices
    /// are present, never `data`. Grows with T.
    /// Since 0.1.
    pub fn moert_layer_workspace_size(
        layer: *const moert_layer,
        args: *const moert_layer_forward_args,
        out: *mut u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Enqueues y = layer(x) on the stream and returns: no allocation, no synchronisation. An expert id
    /// outside -1..E-1 in given ids adds nothing and is reported by the stream as INVALID_ROUTING.
    /// Errors: INVALID_ARGUMENT (nothing was written), WORKSPACE_TOO_SMALL, DEVICE_ERROR, DEVICE_LOST.
    /// Since 0.1.
    pub fn moert_layer_forward(
        layer: *const moert_layer,
        stream: *mut moert_stream,
        args: *const moert_layer_forward_args,
        error: *mut moert_error,
    ) -> moert_status;
    /// Since 0.1.
    pub fn moert_router_create(
        device: *const moert_device,
        desc: *const moert_router_desc,
        out: *mut *mut moert_router,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_router_retain(router: *const moert_router);
    pub fn moert_router_release(router: *const moert_router);
    /// As moert_layer_workspace_size. Since 0.1.
    pub fn moert_router_workspace_size(
        router: *const moert_router,
        args: *const moert_router_forward_args,
        out: *mut u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Enqueues the choice of experts. Since 0.1.
    pub fn moert_router_forward(
        router: *const moert_router,
        stream: *mut moert_stream,
        args: *const moert_router_forward_args,
        error: *mut moert_error,
    ) -> moert_status;
    /// Since 0.1.
    pub fn moert_gate_create(
        device: *const moert_device,
        desc: *const moert_gate_desc,
        out: *mut *mut moert_gate,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_gate_retain(gate: *const moert_gate);
    pub fn moert_gate_release(gate: *const moert_gate);
    /// Enqueues the op; needs no workspace. Since 0.1.
    pub fn moert_gate_forward(
        gate: *const moert_gate,
        stream: *mut moert_stream,
        args: *const moert_gate_forward_args,
        error: *mut moert_error,
    ) -> moert_status;
    /// Bytes that a forward call with KEEP writes to `saved`. Since 0.1.
    pub fn moert_layer_saved_size(
        layer: *const moert_layer,
        args: *const moert_layer_forward_args,
        out: *mut u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Scratch of a backward call. Since 0.1.
    pub fn moert_layer_backward_workspace_size(
        layer: *const moert_layer,
        args: *const moert_layer_backward_args,
        out: *mut u64,
        error: *mut moert_error,
    ) -> moert_status;
    /// Enqueues the gradients asked for. Since 0.1.
    pub fn moert_layer_backward(
        layer: *const moert_layer,
        stream: *mut moert_stream,
        args: *const moert_layer_backward_args,
        error: *mut moert_error,
    ) -> moert_status;
    /// Since 0.1.
    pub fn moert_optimizer_create(
        device: *const moert_device,
        desc: *const moert_optimizer_desc,
        out: *mut *mut moert_optimizer,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_optimizer_retain(optimizer: *const moert_optimizer);
    pub fn moert_optimizer_release(optimizer: *const moert_optimizer);
    /// Enqueues one step over `num_parameters` parameters, parameters\[0\].struct_size apart. Since 0.1.
    pub fn moert_optimizer_step(
        optimizer: *mut moert_optimizer,
        stream: *mut moert_stream,
        parameters: *const moert_parameter,
        num_parameters: u32,
        options: *const moert_option,
        num_options: u32,
        error: *mut moert_error,
    ) -> moert_status;
    pub fn moert_error_init(value: *mut moert_error);
    pub fn moert_allocator_init(value: *mut moert_allocator);
    pub fn moert_log_sink_init(value: *mut moert_log_sink);
    pub fn moert_scheduler_init(value: *mut moert_scheduler);
    pub fn moert_runtime_desc_init(value: *mut moert_runtime_desc);
    pub fn moert_device_info_init(value: *mut moert_device_info);
    pub fn moert_device_desc_init(value: *mut moert_device_desc);
    pub fn moert_stream_desc_init(value: *mut moert_stream_desc);
    pub fn moert_routing_init(value: *mut moert_routing);
    pub fn moert_activation_init(value: *mut moert_activation);
    pub fn moert_weight_init(value: *mut moert_weight);
    pub fn moert_pack_desc_init(value: *mut moert_pack_desc);
    pub fn moert_pack_result_init(value: *mut moert_pack_result);
    pub fn moert_file_source_init(value: *mut moert_file_source);
    pub fn moert_manifest_desc_init(value: *mut moert_manifest_desc);
    pub fn moert_manifest_info_init(value: *mut moert_manifest_info);
    pub fn moert_file_info_init(value: *mut moert_file_info);
    pub fn moert_tensor_info_init(value: *mut moert_tensor_info);
    pub fn moert_layer_info_init(value: *mut moert_layer_info);
    pub fn moert_weight_info_init(value: *mut moert_weight_info);
    pub fn moert_layer_desc_init(value: *mut moert_layer_desc);
    pub fn moert_layer_open_desc_init(value: *mut moert_layer_open_desc);
    pub fn moert_layer_forward_args_init(value: *mut moert_layer_forward_args);
    pub fn moert_router_desc_init(value: *mut moert_router_desc);
    pub fn moert_router_forward_args_init(value: *mut moert_router_forward_args);
    pub fn moert_gate_desc_init(value: *mut moert_gate_desc);
    pub fn moert_gate_forward_args_init(value: *mut moert_gate_forward_args);
    pub fn moert_gradient_init(value: *mut moert_gradient);
    pub fn moert_layer_backward_args_init(value: *mut moert_layer_backward_args);
    pub fn moert_parameter_init(value: *mut moert_parameter);
    pub fn moert_optimizer_callbacks_init(value: *mut moert_optimizer_callbacks);
    pub fn moert_optimizer_desc_init(value: *mut moert_optimizer_desc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_large_as_the_librarys() {
        let mut value = moert_error { struct_size: 0, ..Default::default() };
        unsafe { moert_error_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_error>());
        let mut value = moert_allocator { struct_size: 0, ..Default::default() };
        unsafe { moert_allocator_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_allocator>());
        let mut value = moert_log_sink { struct_size: 0, ..Default::default() };
        unsafe { moert_log_sink_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_log_sink>());
        let mut value = moert_scheduler { struct_size: 0, ..Default::default() };
        unsafe { moert_scheduler_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_scheduler>());
        let mut value = moert_runtime_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_runtime_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_runtime_desc>());
        let mut value = moert_device_info { struct_size: 0, ..Default::default() };
        unsafe { moert_device_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_device_info>());
        let mut value = moert_device_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_device_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_device_desc>());
        let mut value = moert_stream_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_stream_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_stream_desc>());
        let mut value = moert_routing { struct_size: 0, ..Default::default() };
        unsafe { moert_routing_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_routing>());
        let mut value = moert_activation { struct_size: 0, ..Default::default() };
        unsafe { moert_activation_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_activation>());
        let mut value = moert_weight { struct_size: 0, ..Default::default() };
        unsafe { moert_weight_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_weight>());
        let mut value = moert_pack_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_pack_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_pack_desc>());
        let mut value = moert_pack_result { struct_size: 0, ..Default::default() };
        unsafe { moert_pack_result_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_pack_result>());
        let mut value = moert_file_source { struct_size: 0, ..Default::default() };
        unsafe { moert_file_source_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_file_source>());
        let mut value = moert_manifest_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_manifest_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_manifest_desc>());
        let mut value = moert_manifest_info { struct_size: 0, ..Default::default() };
        unsafe { moert_manifest_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_manifest_info>());
        let mut value = moert_file_info { struct_size: 0, ..Default::default() };
        unsafe { moert_file_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_file_info>());
        let mut value = moert_tensor_info { struct_size: 0, ..Default::default() };
        unsafe { moert_tensor_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_tensor_info>());
        let mut value = moert_layer_info { struct_size: 0, ..Default::default() };
        unsafe { moert_layer_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_layer_info>());
        let mut value = moert_weight_info { struct_size: 0, ..Default::default() };
        unsafe { moert_weight_info_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_weight_info>());
        let mut value = moert_layer_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_layer_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_layer_desc>());
        let mut value = moert_layer_open_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_layer_open_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_layer_open_desc>());
        let mut value = moert_layer_forward_args { struct_size: 0, ..Default::default() };
        unsafe { moert_layer_forward_args_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_layer_forward_args>());
        let mut value = moert_router_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_router_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_router_desc>());
        let mut value = moert_router_forward_args { struct_size: 0, ..Default::default() };
        unsafe { moert_router_forward_args_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_router_forward_args>());
        let mut value = moert_gate_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_gate_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_gate_desc>());
        let mut value = moert_gate_forward_args { struct_size: 0, ..Default::default() };
        unsafe { moert_gate_forward_args_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_gate_forward_args>());
        let mut value = moert_gradient { struct_size: 0, ..Default::default() };
        unsafe { moert_gradient_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_gradient>());
        let mut value = moert_layer_backward_args { struct_size: 0, ..Default::default() };
        unsafe { moert_layer_backward_args_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_layer_backward_args>());
        let mut value = moert_parameter { struct_size: 0, ..Default::default() };
        unsafe { moert_parameter_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_parameter>());
        let mut value = moert_optimizer_callbacks { struct_size: 0, ..Default::default() };
        unsafe { moert_optimizer_callbacks_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_optimizer_callbacks>());
        let mut value = moert_optimizer_desc { struct_size: 0, ..Default::default() };
        unsafe { moert_optimizer_desc_init(&mut value) };
        assert_eq!(value.struct_size as usize, std::mem::size_of::<moert_optimizer_desc>());
    }
}
