/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file moert.h
 * The C ABI of moert: Mixture-of-Experts layers, routers and gate ops on whatever device is there.
 *
 * Rules that hold for every function, so that they are not repeated below:
 *
 * - Status. A call that can fail returns a moert_status and takes a moert_error as last argument,
 *   which may be NULL. When it fails, no output is written and nothing is kept.
 * - Handles are opaque and reference counted. `_create` gives the caller one reference; `_retain`
 *   adds one; `_release` drops one and accepts NULL. Both may be called from any thread on any
 *   handle. A handle keeps what it was made from alive, so handles may be released in any order.
 *   The last release waits for work that moert enqueued with the object, so it may block.
 * - Threads. Calls on a handle passed as pointer to const may run concurrently: threads may make
 *   objects of one runtime or device, and run one layer, at once. Calls on a non-const handle, such
 *   as a stream, must be kept apart by the caller. There is no thread-local state: a call may come
 *   from a different thread each time. A process made by fork makes handles of its own; those of
 *   its parent are not for it, not even to release.
 * - Structs that callers fill begin with `struct_size`, set by their MOERT_*_INIT macro or
 *   moert_*_init function. A zero field means its default. A shorter struct than the library knows
 *   is extended with zeros, a longer one is accepted if what the library does not know is zero.
 *   Structs that the library fills are written up to the caller's struct_size.
 * - Memory passed in belongs to the caller and must stay valid until the call returns, or, where
 *   the call enqueues work, until that work is done. Strings are UTF-8 and end with NUL.
 * - Matrices are row-major with contiguous columns; see moert_matrix.
 *
 * Units: sizes are bytes, strides are elements. Hosts are 64-bit and little-endian.
 */
#ifndef MOERT_MOERT_H_
#define MOERT_MOERT_H_

#include <stdint.h>

#if defined(SWIG) || defined(MOERT_STATIC)
#define MOERT_API
#elif defined(_WIN32)
#ifdef MOERT_BUILD
#define MOERT_API __declspec(dllexport)
#else
#define MOERT_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define MOERT_API __attribute__((visibility("default")))
#else
#define MOERT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version */

/** Version of this header. Until 1.0 a new minor version may change the ABI. */
#define MOERT_VERSION_MAJOR 0
#define MOERT_VERSION_MINOR 1
#define MOERT_VERSION_PATCH 0

/** Number of the ABI that this header describes. */
#define MOERT_ABI_VERSION 1

/** The ABI number of the loaded library; a host compares it with MOERT_ABI_VERSION. @since 0.1 */
MOERT_API uint32_t moert_abi_version(void);

/** The loaded library's version, such as "0.1.0". Static. @since 0.1 */
MOERT_API const char* moert_version_string(void);

/* Status and errors */

/** Result of every call that can fail. */
typedef int32_t moert_status;
enum moert_status_e {
  MOERT_STATUS_OK = 0,               /**< The call did what it says. */
  MOERT_STATUS_INVALID_ARGUMENT = 1, /**< A value is outside what the call accepts. */
  MOERT_STATUS_UNSUPPORTED = 2,      /**< Valid, but this device or version cannot do it. */
  MOERT_STATUS_UNAVAILABLE = 3,      /**< No such device, driver or kernel file here. */
  MOERT_STATUS_OUT_OF_MEMORY = 4,    /**< Host or device memory ran out. */
  MOERT_STATUS_NOT_FOUND = 5,        /**< A named file, tensor, layer or family does not exist. */
  MOERT_STATUS_IO_ERROR = 6,     /**< The system refused a read or write; native_code is errno. */
  MOERT_STATUS_CORRUPT_DATA = 7, /**< Bytes break their format: see moert_corruption. */
  MOERT_STATUS_FILE_CHANGED = 8, /**< A file is not the one that was packed. */
  MOERT_STATUS_WORKSPACE_TOO_SMALL = 9, /**< The message and native_code say the size needed. */
  MOERT_STATUS_INVALID_ROUTING = 10,    /**< Enqueued work met an expert id out of range. */
  MOERT_STATUS_NOT_READY = 11,          /**< An event has not been reached yet. */
  MOERT_STATUS_DEVICE_ERROR = 12,       /**< A driver call failed; native_code is the driver's. */
  MOERT_STATUS_DEVICE_LOST = 13,        /**< The device no longer works; create it anew. */
  MOERT_STATUS_CALLBACK_FAILED = 14,    /**< A callback of the host reported a failure. */
  MOERT_STATUS_INTERNAL = 15            /**< A fault of the library; please report it. */
};

/** What is wrong with bytes that were refused: moert_error.native_code of CORRUPT_DATA. */
typedef int32_t moert_corruption;
enum moert_corruption_e {
  MOERT_CORRUPTION_UNSPECIFIED = 0,
  MOERT_CORRUPTION_TRUNCATED = 1,     /**< The file ends before what it promises. */
  MOERT_CORRUPTION_HEADER_LENGTH = 2, /**< A header length is zero or beyond the file or limit. */
  MOERT_CORRUPTION_HEADER_SYNTAX = 3, /**< A header is not valid JSON or not an object. */
  MOERT_CORRUPTION_DUPLICATE_KEY = 4, /**< A name stands twice. */
  MOERT_CORRUPTION_FIELD = 5,         /**< A field is missing, unknown or of the wrong type. */
  MOERT_CORRUPTION_OFFSETS = 6,       /**< Offsets are not two ordered numbers inside the file. */
  MOERT_CORRUPTION_SIZE_MISMATCH = 7, /**< Shape and dtype do not give the byte count. */
  MOERT_CORRUPTION_OVERFLOW = 8,      /**< A product or sum passes 64 bits. */
  MOERT_CORRUPTION_OVERLAP = 9,       /**< Two tensors share bytes. */
  MOERT_CORRUPTION_HOLE = 10,         /**< Bytes belong to no tensor. */
  MOERT_CORRUPTION_DTYPE = 11,        /**< A dtype or enum value is not known. */
  MOERT_CORRUPTION_IDENTIFIER = 12,   /**< The file is of another kind. */
  MOERT_CORRUPTION_STRUCTURE = 13,    /**< The FlatBuffers verifier refused the buffer. */
  MOERT_CORRUPTION_INDEX = 14,        /**< An index points outside its table. */
  MOERT_CORRUPTION_ROLES = 15,   /**< A layer lacks a weight, has one twice or of wrong shape. */
  MOERT_CORRUPTION_FEATURE = 16, /**< The file requires a feature this version lacks. */
  MOERT_CORRUPTION_PATH = 17,    /**< A path leaves the manifest's folder. */
  MOERT_CORRUPTION_HASH = 18     /**< Contents do not match the recorded hash. */
};

/** Explains a failure. Owned by the caller; only written when a call fails. */
typedef struct moert_error {
  uint32_t struct_size; /**< sizeof(moert_error), or 0 for the same. */
  moert_status code;    /**< What the call returned. */
  int64_t native_code;  /**< errno, a driver's code or a moert_corruption, as the status says. */
  char message[1008];   /**< Names the value that was wrong and what is accepted. */
} moert_error;
#define MOERT_ERROR_INIT             \
  {                                  \
    sizeof(moert_error), 0, 0, { 0 } \
  }

/** A short name of a status, such as "INVALID_ARGUMENT". Never NULL, static. @since 0.1 */
MOERT_API const char* moert_status_name(moert_status status);

/* Types */

/** Element types. A layer computes in FLOAT32, BFLOAT16 or FLOAT16, the others are for storage. */
typedef int32_t moert_dtype;
enum moert_dtype_e {
  MOERT_DTYPE_NONE = 0,
  MOERT_DTYPE_FLOAT32 = 1,
  MOERT_DTYPE_BFLOAT16 = 2,
  MOERT_DTYPE_FLOAT16 = 3,
  MOERT_DTYPE_FLOAT64 = 4,
  MOERT_DTYPE_INT8 = 5,
  MOERT_DTYPE_UINT8 = 6,
  MOERT_DTYPE_INT16 = 7,
  MOERT_DTYPE_UINT16 = 8,
  MOERT_DTYPE_INT32 = 9,
  MOERT_DTYPE_UINT32 = 10,
  MOERT_DTYPE_INT64 = 11,
  MOERT_DTYPE_UINT64 = 12,
  MOERT_DTYPE_BOOL = 13,
  MOERT_DTYPE_FLOAT8_E4M3 = 14,
  MOERT_DTYPE_FLOAT8_E5M2 = 15,
  MOERT_DTYPE_FLOAT8_E8M0 = 16,
  MOERT_DTYPE_FLOAT4_E2M1 = 17, /**< Two values a byte, the lower nibble first. */
  MOERT_DTYPE_INT4 = 18,        /**< Two values a byte. */
  MOERT_DTYPE_COMPLEX64 = 19
};

/** Name of a dtype as safetensors spells it ("F32", "BF16"); "?" if unknown. Static. @since 0.1 */
MOERT_API const char* moert_dtype_name(moert_dtype dtype);
/** Bits of one element, 0 for NONE and unknown values. @since 0.1 */
MOERT_API uint32_t moert_dtype_bits(moert_dtype dtype);

/**
 * A view of a row-major matrix in memory that the device can reach. Element (r, c) lies at
 * `data + (r * row_stride + c)` elements; columns are contiguous. This struct never changes.
 * With rows or cols 0, data may be NULL. `data` need not be aligned beyond its element.
 */
typedef struct moert_matrix {
  void* data;
  int64_t rows;
  int64_t cols;
  int64_t row_stride; /**< Elements from one row to the next, at least cols. */
  moert_dtype dtype;
  uint32_t reserved; /**< 0. */
} moert_matrix;
#define MOERT_MATRIX_INIT \
  { 0, 0, 0, 0, 0, 0 }

/** A packed matrix: row_stride = cols. @since 0.1 */
MOERT_API void moert_matrix_init(moert_matrix* matrix, void* data, int64_t rows, int64_t cols,
                                 moert_dtype dtype);

typedef struct moert_runtime moert_runtime;
typedef struct moert_device moert_device;
typedef struct moert_stream moert_stream;
typedef struct moert_event moert_event;
typedef struct moert_manifest moert_manifest;
typedef struct moert_layer moert_layer;
typedef struct moert_gate moert_gate;
typedef struct moert_router moert_router;
typedef struct moert_optimizer moert_optimizer;

/** Releases a callback's user_data: called exactly once, also when the call that took it fails. */
typedef void (*moert_free_fn)(void* user_data);

/* Runtime: allocator, log sink, scheduler and the drivers that were found */

/** The host's allocator. Both functions are called from any thread. */
typedef struct moert_allocator {
  uint32_t struct_size;
  uint32_t reserved;
  void* user_data;
  /** Returns memory of that size and alignment (a power of two), or NULL. Size is never 0. */
  void* (*alloc)(void* user_data, uint64_t bytes, uint64_t alignment);
  /** Gets back a block with the size and alignment it was asked for with. */
  void (*free)(void* user_data, void* block, uint64_t bytes, uint64_t alignment);
  moert_free_fn free_fn; /**< May be NULL. */
} moert_allocator;
#define MOERT_ALLOCATOR_INIT \
  { sizeof(moert_allocator), 0, 0, 0, 0, 0 }

typedef int32_t moert_log_level;
enum moert_log_level_e {
  MOERT_LOG_LEVEL_DEBUG = 0,
  MOERT_LOG_LEVEL_INFO = 1,
  MOERT_LOG_LEVEL_WARNING = 2,
  MOERT_LOG_LEVEL_ERROR = 3
};

/** Receives log lines, from any thread. `message` has no newline and lives during the call. */
typedef void (*moert_log_fn)(void* user_data, moert_log_level level, const char* message);

/** Where log lines go. Without one they go nowhere: the library never prints. */
typedef struct moert_log_sink {
  uint32_t struct_size;
  moert_log_level min_level; /**< Lines below this level are not made. */
  void* user_data;
  moert_log_fn write;
  moert_free_fn free_fn; /**< May be NULL. */
} moert_log_sink;
#define MOERT_LOG_SINK_INIT \
  { sizeof(moert_log_sink), 0, 0, 0, 0 }

/** One piece of a parallel job; `index` is below the job's count. Never throws. */
typedef void (*moert_task_fn)(void* task, uint32_t index);

/**
 * The host's threads, for CPU work. Without a scheduler each CPU device has a small pool of its
 * own. `parallel_for` is entered from the calling thread of a moert call or from a submitted task;
 * it may be entered concurrently, and must not need a free worker to make progress.
 */
typedef struct moert_scheduler {
  uint32_t struct_size;
  uint32_t concurrency; /**< Tasks that can run at once, the caller's thread included; 0 means 1. */
  void* user_data;
  /** Runs fn(task, i) once for each i below count, in any order; returns when all are done. */
  void (*parallel_for)(void* user_data, uint32_t count, moert_task_fn fn, void* task);
  /** Runs fn(task, 0) once later on some thread; needed by asynchronous streams only, else NULL. */
  void (*submit)(void* user_data, moert_task_fn fn, void* task);
  moert_free_fn free_fn; /**< May be NULL. */
} moert_scheduler;
#define MOERT_SCHEDULER_INIT \
  { sizeof(moert_scheduler), 0, 0, 0, 0, 0 }

/** What a runtime is made of; each part may be NULL for the library's own. */
typedef struct moert_runtime_desc {
  uint32_t struct_size;
  uint32_t flags; /**< 0. */
  const moert_allocator* allocator;
  const moert_log_sink* log;
  const moert_scheduler* scheduler;
} moert_runtime_desc;
#define MOERT_RUNTIME_DESC_INIT \
  { sizeof(moert_runtime_desc), 0, 0, 0, 0 }

/**
 * Makes a runtime. Nothing is shared between two runtimes of a process.
 * @param desc  NULL: the library's own allocator and threads, no log.
 * @since 0.1
 */
MOERT_API moert_status moert_runtime_create(const moert_runtime_desc* desc, moert_runtime** out,
                                            moert_error* error);
MOERT_API void moert_runtime_retain(const moert_runtime* runtime);
MOERT_API void moert_runtime_release(const moert_runtime* runtime);

/* Devices */

typedef int32_t moert_device_kind;
enum moert_device_kind_e {
  MOERT_DEVICE_KIND_CPU = 0,
  MOERT_DEVICE_KIND_CUDA = 1,
  MOERT_DEVICE_KIND_HIP = 2,
  MOERT_DEVICE_KIND_OTHER = 3
};

/** Facts about a device. */
typedef struct moert_device_info {
  uint32_t struct_size;
  moert_device_kind kind;
  int32_t ordinal;       /**< Number among devices of its kind. */
  uint32_t concurrency;  /**< CPU: threads used. GPU: multiprocessors. */
  uint64_t memory_bytes; /**< Memory of the device; CPU: of the machine. */
  int32_t max_experts;   /**< The most experts a layer or router may have here. */
  int32_t max_top_k;     /**< The largest top_k here (never above the number of experts). */
  char id[32];           /**< What moert_device_create takes: "cpu", "cuda:0", "hip:0". */
  char arch[32];         /**< "avx512_bf16", "sm_90", "gfx942". */
  char name[128];        /**< The vendor's name. */
} moert_device_info;
#define MOERT_DEVICE_INFO_INIT                                   \
  {                                                              \
    sizeof(moert_device_info), 0, 0, 0, 0, 0, 0, {0}, {0}, { 0 } \
  }

/** Number of devices found, the CPU (index 0) included; drivers are looked for once. @since 0.1 */
MOERT_API moert_status moert_runtime_num_devices(const moert_runtime* runtime, uint32_t* out,
                                                 moert_error* error);
/** Facts about the index-th device. @since 0.1 */
MOERT_API moert_status moert_runtime_device_info(const moert_runtime* runtime, uint32_t index,
                                                 moert_device_info* out, moert_error* error);

/** Flags of moert_device_desc. */
enum moert_device_flag_e {
  MOERT_DEVICE_FLAG_IGNORE_ENVIRONMENT = 1 /**< Do not read MOERT_KERNEL_PATH or MOERT_CPU_ISA. */
};

/** Options of a device. */
typedef struct moert_device_desc {
  uint32_t struct_size;
  uint32_t flags;          /**< moert_device_flag_e. */
  const char* kernel_path; /**< GPU: a kernel file, or the folder that holds it; NULL: search. */
  const void* kernel_data; /**< GPU: a kernel file in memory, read during the call only. */
  uint64_t kernel_size;
  /** CPU, no host scheduler: threads, the caller's included, 1024 at most; 0: all. */
  uint32_t cpu_threads;
  uint32_t reserved;
} moert_device_desc;
#define MOERT_DEVICE_DESC_INIT \
  { sizeof(moert_device_desc), 0, 0, 0, 0, 0, 0 }

/**
 * Opens a device with all its kernels loaded.
 * @param name  "cpu", "cuda:N", "hip:N", "best" (a GPU that works, else the CPU); NULL: "cpu".
 * @param desc  May be NULL.
 * Errors: UNAVAILABLE (no driver, no such device, no kernel file or none for its architecture: the
 * message lists what was tried), INVALID_ARGUMENT, OUT_OF_MEMORY, DEVICE_ERROR.
 * @since 0.1
 */
MOERT_API moert_status moert_device_create(const moert_runtime* runtime, const char* name,
                                           const moert_device_desc* desc, moert_device** out,
                                           moert_error* error);
MOERT_API void moert_device_retain(const moert_device* device);
MOERT_API void moert_device_release(const moert_device* device);

/** Facts about an open device. @since 0.1 */
MOERT_API moert_status moert_device_get_info(const moert_device* device, moert_device_info* out,
                                             moert_error* error);

/** Allocates device memory, aligned to 256 bytes, not initialised. 0 bytes give NULL. @since 0.1 */
MOERT_API moert_status moert_device_alloc(const moert_device* device, uint64_t bytes, void** out,
                                          moert_error* error);
/** Frees it. The caller makes sure that no enqueued work uses it. NULL is fine. @since 0.1 */
MOERT_API void moert_device_free(const moert_device* device, void* memory);
/** Allocates host memory that this device copies from and to fastest (pinned). @since 0.1 */
MOERT_API moert_status moert_host_alloc(const moert_device* device, uint64_t bytes, void** out,
                                        moert_error* error);
/** Frees it. NULL is fine. @since 0.1 */
MOERT_API void moert_host_free(const moert_device* device, void* memory);

/* Streams and events */

/** Flags of moert_stream_desc. */
enum moert_stream_flag_e {
  /** CPU: queue work on the workers instead of running it inline. The queue holds 128 pieces; a
   * call then waits for the oldest, so a host's scheduler must not need the calling thread for
   * those. */
  MOERT_STREAM_FLAG_ASYNC = 1
};

/** Options of a stream. */
typedef struct moert_stream_desc {
  uint32_t struct_size;
  uint32_t flags;         /**< moert_stream_flag_e. */
  uint64_t scratch_bytes; /**< Scratch to reserve at once; see moert_stream_reserve. */
} moert_stream_desc;
#define MOERT_STREAM_DESC_INIT \
  { sizeof(moert_stream_desc), 0, 0 }

/** Makes an order of work. @param desc May be NULL. @since 0.1 */
MOERT_API moert_status moert_stream_create(const moert_device* device,
                                           const moert_stream_desc* desc, moert_stream** out,
                                           moert_error* error);
/**
 * Wraps a CUstream or hipStream_t of the device's primary context, which stays the caller's and
 * must outlive the handle. A stream of another context, or a CPU device, is refused.
 * @since 0.1
 */
MOERT_API moert_status moert_stream_import(const moert_device* device, void* native,
                                           moert_stream** out, moert_error* error);
MOERT_API void moert_stream_retain(const moert_stream* stream);
MOERT_API void moert_stream_release(const moert_stream* stream);

/** The driver's stream, NULL on the CPU. @since 0.1 */
MOERT_API void* moert_stream_native(const moert_stream* stream);

/**
 * Copies between any of host and device memory, in stream order. The ranges must not overlap.
 * @since 0.1
 */
MOERT_API moert_status moert_stream_copy(moert_stream* stream, void* destination,
                                         const void* source, uint64_t bytes, moert_error* error);
/**
 * Grows the stream's own scratch to at least that size; only this call does. It may synchronise.
 * Calls without a caller's workspace use this scratch.
 * @since 0.1
 */
MOERT_API moert_status moert_stream_reserve(moert_stream* stream, uint64_t bytes,
                                            moert_error* error);
/** Waits until all work is done, then reports like moert_stream_check. @since 0.1 */
MOERT_API moert_status moert_stream_synchronize(moert_stream* stream, moert_error* error);
/**
 * Reports, without waiting, the first failure of work that has run on this stream since the last
 * report, and clears it. A lost device stays reported.
 * @since 0.1
 */
MOERT_API moert_status moert_stream_check(moert_stream* stream, moert_error* error);

/** Makes an event. One that was never recorded counts as reached. @since 0.1 */
MOERT_API moert_status moert_event_create(const moert_device* device, moert_event** out,
                                          moert_error* error);
MOERT_API void moert_event_retain(const moert_event* event);
MOERT_API void moert_event_release(const moert_event* event);
/** Marks the stream's present end; recording again moves the event. @since 0.1 */
MOERT_API moert_status moert_event_record(moert_event* event, moert_stream* stream,
                                          moert_error* error);
/**
 * Never blocks: OK once reached, NOT_READY before. Once reached, a failure of the stream's work up
 * to here is returned instead (and stays for moert_stream_check).
 * @since 0.1
 */
MOERT_API moert_status moert_event_query(const moert_event* event, moert_error* error);
/** Blocks the calling thread until reached; reports like moert_event_query. @since 0.1 */
MOERT_API moert_status moert_event_wait(const moert_event* event, moert_error* error);
/** Work enqueued on `stream` from now on starts after the event is reached. @since 0.1 */
MOERT_API moert_status moert_stream_wait_event(moert_stream* stream, const moert_event* event,
                                               moert_error* error);

/* What a layer is: routing, activation, weights */

/** How logits become scores. */
typedef int32_t moert_score;
enum moert_score_e {
  MOERT_SCORE_SOFTMAX = 0,       /**< Softmax over all experts (Mixtral, Qwen). */
  MOERT_SCORE_SIGMOID = 1,       /**< Sigmoid of each (DeepSeek-V3). */
  MOERT_SCORE_SOFTMAX_TOP_K = 2, /**< Top-k of logits, then softmax over the chosen (gpt-oss). */
  MOERT_SCORE_SIGMOID_TOP_K = 3, /**< Top-k of logits, then sigmoid of the chosen (Llama 4). */
  MOERT_SCORE_SPARSEMIXER = 4    /**< top_k must be 2 (Phi-3.5-MoE; arXiv 2409.12136). */
};

/** How the chosen experts' scores become weights. */
typedef int32_t moert_renormalize;
enum moert_renormalize_e {
  MOERT_RENORMALIZE_NONE = 0,
  MOERT_RENORMALIZE_SUM = 1,         /**< w / sum(w). */
  MOERT_RENORMALIZE_SUM_EPSILON = 2, /**< w / (sum(w) + value). */
  MOERT_RENORMALIZE_SUM_MIN = 3,     /**< w / max(sum(w), value). */
  MOERT_RENORMALIZE_P_NORM = 4       /**< w / (sum(|w|^value))^(1/value); value above 0. */
};

/** Score of a group of experts. */
typedef int32_t moert_group_score;
enum moert_group_score_e {
  MOERT_GROUP_SCORE_MAX = 0,     /**< The best member (DeepSeek-V2). */
  MOERT_GROUP_SCORE_TOP2_SUM = 1 /**< Sum of the two best members (DeepSeek-V3). */
};

/** Flags of moert_routing. */
enum moert_routing_flag_e {
  MOERT_ROUTING_FLAG_RMS_NORM_INPUT = 1 /**< The router's input is RMS-normalised, no weight. */
};

/**
 * How tokens choose experts. Ties go to the lower index; in choosing, numbers (-inf too) come
 * before NaN and NaN before experts of excluded groups; ids of a row are distinct and in range.
 * Without a selection bias the choice is made on logits. A sum of zero renormalises to zeros.
 */
typedef struct moert_routing {
  uint32_t struct_size;
  uint32_t flags;      /**< moert_routing_flag_e. */
  int32_t num_experts; /**< E, 1 up to the device's max_experts. */
  int32_t top_k;       /**< K, 1 up to E. */
  moert_score score;
  moert_renormalize renormalize;
  float renormalize_value;     /**< epsilon, minimum or p, as `renormalize` says. */
  float routed_scaling_factor; /**< Multiplies every weight once, last; 0 means 1. */
  float logit_soft_cap;        /**< c: logits become c * tanh(logit / c); 0: none. */
  float sparsemixer_epsilon;   /**< 0 means 0.01. */
  int32_t num_groups;          /**< Groups of equal size; 0 or 1: none. */
  int32_t top_k_groups;        /**< Groups kept, 1 up to num_groups. */
  moert_group_score group_score;
  float input_rms_epsilon; /**< 0 means 1e-6. */
  float input_multiplier;  /**< Multiplies the router's input; 0 means 1. */
  uint32_t reserved;
} moert_routing;
#define MOERT_ROUTING_INIT \
  { sizeof(moert_routing), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

typedef int32_t moert_activation_kind;
enum moert_activation_kind_e {
  MOERT_ACTIVATION_KIND_SILU = 0,      /**< g * sigmoid(alpha * g). */
  MOERT_ACTIVATION_KIND_GELU = 1,      /**< g * Phi(g), by erf. */
  MOERT_ACTIVATION_KIND_GELU_TANH = 2, /**< The tanh approximation. */
  MOERT_ACTIVATION_KIND_RELU2 = 3      /**< max(g, 0)^2. */
};

/** Flags of moert_activation. */
enum moert_activation_flag_e {
  MOERT_ACTIVATION_FLAG_UNGATED = 1 /**< act(up x) instead of act(gate x) * up x; no gate weight. */
};

/**
 * act(g, u) = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset), or f(u) when ungated
 * (limit and up_offset are refused then).
 */
typedef struct moert_activation {
  uint32_t struct_size;
  uint32_t flags; /**< moert_activation_flag_e. */
  moert_activation_kind kind;
  float alpha;     /**< SiLU only; 0 means 1. */
  float limit;     /**< 0: none. */
  float up_offset; /**< Added to the clamped up value. */
} moert_activation;
#define MOERT_ACTIVATION_INIT \
  { sizeof(moert_activation), 0, 0, 0, 0, 0 }

/**
 * What a weight is for. E experts, H hidden, I expert intermediate, S shared intermediate, L
 * latent; D is L with a latent, else H. Shapes are given as [rows, cols] for
 * MOERT_ORIENTATION_OUT_IN; a vector is one row. "Each expert" roles are stacked or one pointer an
 * expert.
 */
typedef int32_t moert_role;
enum moert_role_e {
  MOERT_ROLE_NONE = 0,
  MOERT_ROLE_ROUTER = 1,               /**< [E, H]. */
  MOERT_ROLE_ROUTER_BIAS = 2,          /**< [1, E], added to the logits. */
  MOERT_ROLE_SELECTION_BIAS = 3,       /**< [1, E], added to scores for the choice only. */
  MOERT_ROLE_ROUTER_INPUT_SCALE = 4,   /**< [1, H], multiplies the router's input. */
  MOERT_ROLE_EXPERT_SCALE = 5,         /**< [1, E], multiplies the final weight. */
  MOERT_ROLE_EXPERT_GATE = 6,          /**< Each expert, [I, D]. */
  MOERT_ROLE_EXPERT_UP = 7,            /**< Each expert, [I, D]. */
  MOERT_ROLE_EXPERT_GATE_UP = 8,       /**< Each expert, [2I, D], packed as `packing` says. */
  MOERT_ROLE_EXPERT_DOWN = 9,          /**< Each expert, [D, I]. */
  MOERT_ROLE_EXPERT_GATE_BIAS = 10,    /**< Each expert, [1, I]. */
  MOERT_ROLE_EXPERT_UP_BIAS = 11,      /**< Each expert, [1, I]. */
  MOERT_ROLE_EXPERT_GATE_UP_BIAS = 12, /**< Each expert, [1, 2I], packed as `packing` says. */
  MOERT_ROLE_EXPERT_DOWN_BIAS = 13,    /**< Each expert, [1, D]. */
  MOERT_ROLE_LATENT_IN = 14,           /**< [L, H]. */
  MOERT_ROLE_LATENT_OUT = 15,          /**< [H, L]. */
  MOERT_ROLE_SHARED_GATE = 16,         /**< [S, H]. */
  MOERT_ROLE_SHARED_UP = 17,           /**< [S, H]. */
  MOERT_ROLE_SHARED_GATE_UP = 18,      /**< [2S, H], packed as `packing` says. */
  MOERT_ROLE_SHARED_DOWN = 19,         /**< [H, S]. */
  MOERT_ROLE_SHARED_EXPERT_GATE = 20   /**< [1, H]: the shared expert times sigmoid(x . w). */
};

typedef int32_t moert_orientation;
enum moert_orientation_e {
  MOERT_ORIENTATION_OUT_IN = 0, /**< Rows are outputs, as torch.nn.Linear stores them. */
  MOERT_ORIENTATION_IN_OUT = 1  /**< Rows are inputs: rows and cols of the role are exchanged. */
};

/** Order of gate and up in one tensor, along the output dimension. */
typedef int32_t moert_packing;
enum moert_packing_e {
  MOERT_PACKING_CONCATENATED = 0, /**< All gate outputs, then all up outputs. */
  MOERT_PACKING_INTERLEAVED = 1   /**< gate 0, up 0, gate 1, up 1, ... */
};

/**
 * One weight of a layer. For an "each expert" role either `experts` holds one pointer per local
 * expert, or `data` is the first local expert's matrix and the next follows `expert_stride`
 * elements later. Expert weights are widened to the layer's dtype, never narrowed; router weights,
 * biases and scales may be of any of the three compute dtypes.
 */
typedef struct moert_weight {
  uint32_t struct_size;
  moert_role role;
  moert_dtype dtype;
  moert_orientation orientation;
  moert_packing packing;
  uint32_t reserved;
  int64_t rows;
  int64_t cols;
  int64_t row_stride;    /**< Elements; 0 means cols. */
  int64_t expert_stride; /**< Elements; 0 means rows * row_stride. */
  const void* data;
  const void* const* experts;
} moert_weight;
#define MOERT_WEIGHT_INIT \
  { sizeof(moert_weight), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Manifest: a verified description of a checkpoint's layers, pointing into its files */

/** Progress of a long call, from one thread at a time. Return 0 to go on, else the call stops with
 *  CALLBACK_FAILED. */
typedef int32_t (*moert_progress_fn)(void* user_data, uint64_t done_bytes, uint64_t total_bytes);

/** Flags of moert_pack_desc. */
enum moert_pack_flag_e {
  MOERT_PACK_FLAG_SKIP_HASHES = 1, /**< Record sizes only; verify then checks sizes only. */
  MOERT_PACK_FLAG_ALLOW_HOLES = 2  /**< Accept shards with bytes that belong to no tensor. */
};

/** What to pack. */
typedef struct moert_pack_desc {
  uint32_t struct_size;
  uint32_t flags;          /**< moert_pack_flag_e. */
  const char* directory;   /**< Folder with config.json and the safetensors file or shards. */
  const char* output;      /**< The manifest to write; NULL: directory/model.moem. Elsewhere than in
                                or above `directory` it opens with base_dir, or the flag
                                MOERT_MANIFEST_FLAG_PACKED_DIRECTORY. */
  const char* family_path; /**< A family description (JSON) to use; NULL: a built-in one. */
  moert_progress_fn progress; /**< May be NULL. */
  void* user_data;
  moert_free_fn free_fn; /**< May be NULL. */
} moert_pack_desc;
#define MOERT_PACK_DESC_INIT \
  { sizeof(moert_pack_desc), 0, 0, 0, 0, 0, 0, 0 }

/** What was packed. */
typedef struct moert_pack_result {
  uint32_t struct_size;
  uint32_t num_layers;         /**< MoE layers described. */
  uint32_t num_skipped_layers; /**< Layers of the model that are not MoE; logged at INFO. */
  uint32_t num_files;
  uint64_t num_tensors;
  uint64_t total_bytes;
} moert_pack_result;
#define MOERT_PACK_RESULT_INIT \
  { sizeof(moert_pack_result), 0, 0, 0, 0, 0 }

/**
 * Writes a manifest for a Hugging Face checkpoint. No weight is copied. The file appears whole or
 * not at all.
 * @param result  May be NULL.
 * Errors: NOT_FOUND (folder, config, shard, tensor, or an unknown model_type: the message lists the
 * known ones), CORRUPT_DATA, IO_ERROR, UNSUPPORTED, CALLBACK_FAILED.
 * @since 0.1
 */
MOERT_API moert_status moert_manifest_pack(const moert_runtime* runtime,
                                           const moert_pack_desc* desc, moert_pack_result* result,
                                           moert_error* error);

/** The model types of the built-in families, separated by commas. Static. @since 0.1 */
MOERT_API const char* moert_family_names(void);

/**
 * The host's files, for archives and virtual file systems. Called from any thread. Functions return
 * 0, or a nonzero code that becomes moert_error.native_code of an IO_ERROR.
 */
typedef struct moert_file_source {
  uint32_t struct_size;
  uint32_t reserved;
  void* user_data;
  /** Opens a file by its path as the manifest names it, and gives its size. */
  int32_t (*open)(void* user_data, const char* path, void** file, uint64_t* size);
  /** Reads exactly `bytes` bytes. */
  int32_t (*read)(void* user_data, void* file, uint64_t offset, void* buffer, uint64_t bytes);
  void (*close)(void* user_data, void* file);
  moert_free_fn free_fn; /**< May be NULL. */
} moert_file_source;
#define MOERT_FILE_SOURCE_INIT \
  { sizeof(moert_file_source), 0, 0, 0, 0, 0, 0 }

/** Flags of moert_manifest_desc. */
enum moert_manifest_flag_e {
  MOERT_MANIFEST_FLAG_FORBID_SYMLINKS = 1, /**< Refuse files reached through a symbolic link. */
  MOERT_MANIFEST_FLAG_READ = 2,            /**< Read files into memory instead of mapping them. */
  /** Without base_dir, trust the manifest with the choice of folder: one that was written elsewhere
   *  than its checkpoint records where that lay. */
  MOERT_MANIFEST_FLAG_PACKED_DIRECTORY = 4
};

/** Where a manifest comes from: `path`, or `data` and `size`. */
typedef struct moert_manifest_desc {
  uint32_t struct_size;
  uint32_t flags; /**< moert_manifest_flag_e. */
  const char* path;
  const void* data; /**< Copied during the call. */
  uint64_t size;
  const char* base_dir; /**< Folder of the files; NULL: the manifest's own; with `files`: none. */
  const moert_file_source* files; /**< Opens these files and `path`; NULL: the file system. */
} moert_manifest_desc;
#define MOERT_MANIFEST_DESC_INIT \
  { sizeof(moert_manifest_desc), 0, 0, 0, 0, 0, 0 }

/**
 * Opens a manifest: safe on any bytes. Files are checked for presence and size, not for contents
 * (moert_manifest_verify does that); they stay mapped while the handle or a layer of it lives. A
 * mapped file that is cut short meanwhile raises the platform's signal when read: use
 * MOERT_MANIFEST_FLAG_READ where that can happen.
 * Errors: NOT_FOUND, IO_ERROR, CORRUPT_DATA, FILE_CHANGED (size differs), INVALID_ARGUMENT.
 * @since 0.1
 */
MOERT_API moert_status moert_manifest_open(const moert_runtime* runtime,
                                           const moert_manifest_desc* desc, moert_manifest** out,
                                           moert_error* error);
MOERT_API void moert_manifest_retain(const moert_manifest* manifest);
MOERT_API void moert_manifest_release(const moert_manifest* manifest);

/**
 * Reads every file: sizes, hashes and safetensors headers against what was packed.
 * @param progress  May be NULL. Errors: FILE_CHANGED, CORRUPT_DATA, IO_ERROR, CALLBACK_FAILED.
 * @since 0.1
 */
MOERT_API moert_status moert_manifest_verify(const moert_manifest* manifest,
                                             moert_progress_fn progress, void* user_data,
                                             moert_error* error);

/** Facts about a manifest. Strings live as long as the handle. */
typedef struct moert_manifest_info {
  uint32_t struct_size;
  uint32_t num_layers;
  uint32_t num_files;
  uint32_t reserved;
  uint64_t num_tensors;
  uint64_t total_bytes; /**< Of all files. */
  const char* family;
  const char* model_type;
} moert_manifest_info;
#define MOERT_MANIFEST_INFO_INIT \
  { sizeof(moert_manifest_info), 0, 0, 0, 0, 0, 0, 0 }

/** @since 0.1 */
MOERT_API moert_status moert_manifest_get_info(const moert_manifest* manifest,
                                               moert_manifest_info* out, moert_error* error);

/** A file of a manifest. Strings live as long as the manifest. */
typedef struct moert_file_info {
  uint32_t struct_size;
  uint32_t has_hash;
  uint64_t bytes;
  uint64_t hash[2]; /**< XXH3, 128 bits, low word first. */
  const char* path; /**< Relative to the base folder. */
} moert_file_info;
#define MOERT_FILE_INFO_INIT \
  { sizeof(moert_file_info), 0, 0, {0, 0}, 0 }

/** @since 0.1 */
MOERT_API moert_status moert_manifest_file(const moert_manifest* manifest, uint32_t index,
                                           moert_file_info* out, moert_error* error);

/** A tensor of a manifest. Pointers live as long as the manifest. */
typedef struct moert_tensor_info {
  uint32_t struct_size;
  moert_dtype dtype; /**< As stored. */
  uint32_t file;     /**< Index of its file. */
  uint32_t rank;
  uint64_t offset; /**< In the file. */
  uint64_t bytes;
  const int64_t* shape; /**< `rank` extents. */
  const char* name;
} moert_tensor_info;
#define MOERT_TENSOR_INFO_INIT \
  { sizeof(moert_tensor_info), 0, 0, 0, 0, 0, 0, 0 }

/** The index-th tensor; all tensors of the checkpoint are there, ordered by name. @since 0.1 */
MOERT_API moert_status moert_manifest_tensor(const moert_manifest* manifest, uint64_t index,
                                             moert_tensor_info* out, moert_error* error);
/** Index of the tensor of that name, or NOT_FOUND. @since 0.1 */
MOERT_API moert_status moert_manifest_find_tensor(const moert_manifest* manifest, const char* name,
                                                  uint64_t* out, moert_error* error);
/**
 * The bytes of a tensor where they lie, possibly unaligned; valid as long as the manifest. With a
 * host's file source, the first call reads its file.
 * @since 0.1
 */
MOERT_API moert_status moert_manifest_tensor_data(const moert_manifest* manifest, uint64_t index,
                                                  const void** out, moert_error* error);

/** Where the routing weight multiplies. */
typedef int32_t moert_weight_application;
enum moert_weight_application_e {
  MOERT_WEIGHT_APPLICATION_OUTPUT = 0, /**< The expert's output, after its bias. */
  MOERT_WEIGHT_APPLICATION_INPUT = 1   /**< The expert's input, rounded to the layer's dtype. */
};

/** Facts about a layer, in a manifest or created. */
typedef struct moert_layer_info {
  uint32_t struct_size;
  int32_t model_layer; /**< The model's own number of the layer; -1 if it has none. */
  moert_dtype dtype;   /**< Compute dtype; in a manifest, the widest of the expert weights. */
  moert_weight_application weight_application;
  int64_t hidden;
  int64_t intermediate;
  int64_t latent;              /**< 0: none. */
  int64_t shared_intermediate; /**< 0: none. */
  int32_t num_experts;
  int32_t top_k;
  uint32_t num_local_experts; /**< Experts held. */
  uint32_t num_weights;
  /** In a manifest: of all weights in its files; created: of experts, latent and shared expert. */
  uint64_t weight_bytes;
} moert_layer_info;
#define MOERT_LAYER_INFO_INIT \
  { sizeof(moert_layer_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** The index-th MoE layer, in the model's order. @since 0.1 */
MOERT_API moert_status moert_manifest_layer(const moert_manifest* manifest, uint32_t index,
                                            moert_layer_info* out, moert_error* error);
/** Index of the MoE layer with the model's own number, or NOT_FOUND. @since 0.1 */
MOERT_API moert_status moert_manifest_find_layer(const moert_manifest* manifest,
                                                 int32_t model_layer, uint32_t* out,
                                                 moert_error* error);
/** Its routing. @since 0.1 */
MOERT_API moert_status moert_manifest_layer_routing(const moert_manifest* manifest, uint32_t index,
                                                    moert_routing* out, moert_error* error);
/** Its activations, of the experts and of the shared expert; either out may be NULL. @since 0.1 */
MOERT_API moert_status moert_manifest_layer_activation(const moert_manifest* manifest,
                                                       uint32_t index, moert_activation* experts,
                                                       moert_activation* shared,
                                                       moert_error* error);

/** Block quantisation of a stored weight. */
typedef int32_t moert_quant_scheme;
enum moert_quant_scheme_e {
  MOERT_QUANT_SCHEME_NONE = 0,
  MOERT_QUANT_SCHEME_FP8_BLOCK = 1,
  MOERT_QUANT_SCHEME_MXFP4 = 2,
  MOERT_QUANT_SCHEME_INT4_GROUP = 3
};

/** One weight of a manifest's layer. Pointers live as long as the manifest. */
typedef struct moert_weight_info {
  uint32_t struct_size;
  moert_role role;
  moert_dtype dtype; /**< As stored. */
  moert_orientation orientation;
  moert_packing packing;
  moert_quant_scheme quant_scheme;
  uint32_t num_tensors; /**< 1 when stacked or not per expert, else the number of experts. */
  uint32_t reserved;
  int64_t rows; /**< Of one expert, as stored. */
  int64_t cols;
  const uint32_t* tensors; /**< Indices of the tensors. */
} moert_weight_info;
#define MOERT_WEIGHT_INFO_INIT \
  { sizeof(moert_weight_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** The weight_index-th weight of a layer. @since 0.1 */
MOERT_API moert_status moert_manifest_layer_weight(const moert_manifest* manifest, uint32_t index,
                                                   uint32_t weight_index, moert_weight_info* out,
                                                   moert_error* error);

/* Layers */

/** Flags of moert_layer_desc and moert_layer_open_desc. */
enum moert_layer_flag_e {
  MOERT_LAYER_FLAG_BORROW_WEIGHTS = 1, /**< Use the caller's device memory where it lies. */
  MOERT_LAYER_FLAG_TRAINABLE = 2 /**< Keep weights unpacked; moert_layer_weight gives views. */
};

/** A layer from plain pointers. */
typedef struct moert_layer_desc {
  uint32_t struct_size;
  uint32_t flags;    /**< moert_layer_flag_e. */
  moert_dtype dtype; /**< Compute dtype of x and y; NONE means FLOAT32. */
  moert_weight_application weight_application;
  int64_t hidden;
  int64_t intermediate;
  int64_t latent;              /**< 0: none. */
  int64_t shared_intermediate; /**< 0: no shared expert. */
  const moert_routing* routing;
  const moert_activation* activation;        /**< NULL: gated SiLU. */
  const moert_activation* shared_activation; /**< NULL: as the experts'. */
  const moert_weight* weights; /**< `num_weights` of them, each weights[0].struct_size apart. */
  uint32_t num_weights;
  uint32_t num_local_experts;   /**< 0: all experts are held. */
  const int32_t* local_experts; /**< Distinct global ids of the experts held, in weight order. */
  void* user_data;
  moert_free_fn free_fn; /**< Called when the library is done with the weights. May be NULL. */
} moert_layer_desc;
#define MOERT_LAYER_DESC_INIT \
  { sizeof(moert_layer_desc), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Makes a layer. Weights are copied unless flags say otherwise; they may lie in host memory or in
 * the device's. A layer without a router weight runs with caller-given routing only. Slots routed
 * to experts that are not held add nothing. Errors: INVALID_ARGUMENT (shapes, roles, values),
 * UNSUPPORTED (this device cannot run it), OUT_OF_MEMORY.
 * @since 0.1
 */
MOERT_API moert_status moert_layer_create(const moert_device* device, const moert_layer_desc* desc,
                                          moert_layer** out, moert_error* error);

/** Options of a layer from a manifest. */
typedef struct moert_layer_open_desc {
  uint32_t struct_size;
  uint32_t flags;             /**< moert_layer_flag_e, BORROW_WEIGHTS excepted. */
  moert_dtype dtype;          /**< NONE: moert_layer_info.dtype of the manifest's layer. */
  uint32_t num_local_experts; /**< 0: all. */
  const int32_t* local_experts;
} moert_layer_open_desc;
#define MOERT_LAYER_OPEN_DESC_INIT \
  { sizeof(moert_layer_open_desc), 0, 0, 0, 0 }

/**
 * Makes the layer at that index of a manifest. On the CPU weights are used where they are mapped.
 * @param desc  May be NULL.
 * @since 0.1
 */
MOERT_API moert_status moert_layer_open(const moert_device* device, const moert_manifest* manifest,
                                        uint32_t index, const moert_layer_open_desc* desc,
                                        moert_layer** out, moert_error* error);
MOERT_API void moert_layer_retain(const moert_layer* layer);
MOERT_API void moert_layer_release(const moert_layer* layer);

/** @since 0.1 */
MOERT_API moert_status moert_layer_get_info(const moert_layer* layer, moert_layer_info* out,
                                            moert_error* error);

/**
 * A view of a weight of a TRAINABLE layer, in device memory, in the layer's storage dtype and [out,
 * in] order. @param expert  Global id for "each expert" roles, else 0.
 * @since 0.1
 */
MOERT_API moert_status moert_layer_weight(const moert_layer* layer, moert_role role, int32_t expert,
                                          moert_matrix* out, moert_error* error);

/** Flags of moert_layer_forward_args. */
enum moert_forward_flag_e {
  MOERT_FORWARD_FLAG_GIVEN_ROUTING = 1, /**< ids and weights are inputs; the router does not run. */
  MOERT_FORWARD_FLAG_ACCUMULATE = 2,    /**< y += layer(x) instead of y = layer(x). */
  MOERT_FORWARD_FLAG_SKIP_SHARED = 4,   /**< Leave the shared expert out. */
  MOERT_FORWARD_FLAG_KEEP = 8           /**< Fill `saved` for moert_layer_backward. */
};

/**
 * Arguments of a forward call; matrices that are NULL are absent. T tokens; T = 0 does nothing.
 * An output that overlaps an input or another output is refused.
 */
typedef struct moert_layer_forward_args {
  uint32_t struct_size;
  uint32_t flags;                    /**< moert_forward_flag_e. */
  const moert_matrix* x;             /**< [T, H], the layer's dtype. */
  const moert_matrix* router_x;      /**< [T, H], the layer's dtype; absent: x. */
  const moert_matrix* y;             /**< [T, H], the layer's dtype. */
  const moert_matrix* ids;           /**< [T, K] INT32. Input or output; -1 skips a slot (input). */
  const moert_matrix* weights;       /**< [T, K] FLOAT32, final weights. Input or output. */
  const moert_matrix* logits;        /**< [T, E] FLOAT32, after bias and soft cap. Output. */
  const moert_matrix* expert_counts; /**< [1, E] INT32, slots per expert. Output. */
  void* workspace;         /**< Device memory, 256-byte aligned; NULL: the stream's scratch. */
  uint64_t workspace_size; /**< At least moert_layer_workspace_size. */
  void* saved;             /**< Device memory, with KEEP. */
  uint64_t saved_size;
} moert_layer_forward_args;
#define MOERT_LAYER_FORWARD_ARGS_INIT \
  { sizeof(moert_layer_forward_args), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/**
 * Scratch that a forward call with these arguments needs. Reads shapes, flags and which matrices
 * are present, never `data`. Grows with T.
 * @since 0.1
 */
MOERT_API moert_status moert_layer_workspace_size(const moert_layer* layer,
                                                  const moert_layer_forward_args* args,
                                                  uint64_t* out, moert_error* error);

/**
 * Enqueues y = layer(x) on the stream and returns: no allocation, no synchronisation. An expert id
 * outside -1..E-1 in given ids adds nothing and is reported by the stream as INVALID_ROUTING.
 * Errors: INVALID_ARGUMENT (nothing was written), WORKSPACE_TOO_SMALL, DEVICE_ERROR, DEVICE_LOST.
 * @since 0.1
 */
MOERT_API moert_status moert_layer_forward(const moert_layer* layer, moert_stream* stream,
                                           const moert_layer_forward_args* args,
                                           moert_error* error);

/* Router on its own */

/** A router. */
typedef struct moert_router_desc {
  uint32_t struct_size;
  uint32_t flags;    /**< 0 or MOERT_LAYER_FLAG_BORROW_WEIGHTS. */
  moert_dtype dtype; /**< Of x, or of given logits; NONE means FLOAT32. */
  uint32_t num_weights;
  int64_t hidden; /**< H; 0: the router runs on given logits only. */
  const moert_routing* routing;
  const moert_weight* weights; /**< Roles ROUTER, ROUTER_BIAS, SELECTION_BIAS, ROUTER_INPUT_SCALE,
                                    EXPERT_SCALE. */
  void* user_data;
  moert_free_fn free_fn; /**< May be NULL. */
} moert_router_desc;
#define MOERT_ROUTER_DESC_INIT \
  { sizeof(moert_router_desc), 0, 0, 0, 0, 0, 0, 0, 0 }

/** @since 0.1 */
MOERT_API moert_status moert_router_create(const moert_device* device,
                                           const moert_router_desc* desc, moert_router** out,
                                           moert_error* error);
MOERT_API void moert_router_retain(const moert_router* router);
MOERT_API void moert_router_release(const moert_router* router);

/** Arguments of a router call: x, or given_logits. */
typedef struct moert_router_forward_args {
  uint32_t struct_size;
  uint32_t flags;                    /**< 0. */
  const moert_matrix* x;             /**< [T, H], the router's dtype. */
  const moert_matrix* given_logits;  /**< [T, E], the router's dtype, before bias and soft cap. */
  const moert_matrix* ids;           /**< [T, K] INT32, output. */
  const moert_matrix* weights;       /**< [T, K] FLOAT32, output. */
  const moert_matrix* logits;        /**< [T, E] FLOAT32, output; may be absent. */
  const moert_matrix* expert_counts; /**< [1, E] INT32, output; may be absent. */
  void* workspace;
  uint64_t workspace_size;
} moert_router_forward_args;
#define MOERT_ROUTER_FORWARD_ARGS_INIT \
  { sizeof(moert_router_forward_args), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** As moert_layer_workspace_size. @since 0.1 */
MOERT_API moert_status moert_router_workspace_size(const moert_router* router,
                                                   const moert_router_forward_args* args,
                                                   uint64_t* out, moert_error* error);
/** Enqueues the choice of experts. @since 0.1 */
MOERT_API moert_status moert_router_forward(const moert_router* router, moert_stream* stream,
                                            const moert_router_forward_args* args,
                                            moert_error* error);

/* Gate ops */

typedef int32_t moert_gate_kind;
enum moert_gate_kind_e {
  MOERT_GATE_KIND_MULTIPLY = 0,      /**< out = x * sigmoid(g), g [T, W]. */
  MOERT_GATE_KIND_MULTIPLY_ROWS = 1, /**< out = x * sigmoid(g), g [T, 1]. */
  MOERT_GATE_KIND_ADD_ROWS = 2,      /**< out = acc + x * sigmoid(g), g [T, 1]. */
  MOERT_GATE_KIND_ADD_LINEAR = 3     /**< out = acc + x * sigmoid(h . w), h [T, N], w [1, N]. */
};

/** A gate op. Float32 inside, one kernel launch. */
typedef struct moert_gate_desc {
  uint32_t struct_size;
  moert_gate_kind kind;
  moert_dtype dtype; /**< Of every matrix; NONE means FLOAT32. */
  uint32_t reserved;
  int64_t width;        /**< W, columns of x and out. */
  int64_t linear_width; /**< N, columns of h and w; ADD_LINEAR only. */
} moert_gate_desc;
#define MOERT_GATE_DESC_INIT \
  { sizeof(moert_gate_desc), 0, 0, 0, 0, 0 }

/** @since 0.1 */
MOERT_API moert_status moert_gate_create(const moert_device* device, const moert_gate_desc* desc,
                                         moert_gate** out, moert_error* error);
MOERT_API void moert_gate_retain(const moert_gate* gate);
MOERT_API void moert_gate_release(const moert_gate* gate);

/** Arguments of a gate op. out may be x or acc itself (same data and stride); no other overlap. */
typedef struct moert_gate_forward_args {
  uint32_t struct_size;
  uint32_t flags;          /**< 0. */
  const moert_matrix* x;   /**< [T, W]. */
  const moert_matrix* g;   /**< As the kind says; absent for ADD_LINEAR. */
  const moert_matrix* h;   /**< [T, N], ADD_LINEAR only. */
  const moert_matrix* w;   /**< [1, N], ADD_LINEAR only. */
  const moert_matrix* acc; /**< [T, W], ADD_ROWS and ADD_LINEAR only; absent: out. */
  const moert_matrix* out; /**< [T, W]. */
} moert_gate_forward_args;
#define MOERT_GATE_FORWARD_ARGS_INIT \
  { sizeof(moert_gate_forward_args), 0, 0, 0, 0, 0, 0, 0 }

/** Enqueues the op; needs no workspace. @since 0.1 */
MOERT_API moert_status moert_gate_forward(const moert_gate* gate, moert_stream* stream,
                                          const moert_gate_forward_args* args, moert_error* error);

/* Training. The shape of these calls is settled; they answer UNSUPPORTED until they are built. */

/** Flags of moert_gradient. */
enum moert_gradient_flag_e {
  MOERT_GRADIENT_FLAG_ACCUMULATE = 1 /**< Add to what is there instead of overwriting it. */
};

/** Where the gradient of one weight goes. */
typedef struct moert_gradient {
  uint32_t struct_size;
  moert_role role;
  int32_t expert; /**< Global id for "each expert" roles; -1: all held experts, stacked by rows. */
  uint32_t flags; /**< moert_gradient_flag_e. */
  const moert_matrix* value; /**< FLOAT32 or the layer's dtype, [out, in] order. */
} moert_gradient;
#define MOERT_GRADIENT_INIT \
  { sizeof(moert_gradient), 0, 0, 0, 0 }

/** Arguments of a backward call; outputs that are NULL are not computed. */
typedef struct moert_layer_backward_args {
  uint32_t struct_size;
  uint32_t flags; /**< moert_forward_flag_e of the forward call. */
  const moert_matrix* x;
  const moert_matrix* router_x;
  const moert_matrix* ids;     /**< Given routing only. */
  const moert_matrix* weights; /**< Given routing only. */
  const moert_matrix* dy;      /**< [T, H], the layer's dtype. */
  const moert_matrix* dx;      /**< [T, H], the layer's dtype. */
  const moert_matrix* d_router_x;
  const moert_matrix* d_weights;   /**< [T, K] FLOAT32, given routing only. */
  const moert_gradient* gradients; /**< `num_gradients`, each gradients[0].struct_size apart. */
  uint32_t num_gradients;
  uint32_t reserved;
  const void* saved;
  uint64_t saved_size;
  void* workspace;
  uint64_t workspace_size;
} moert_layer_backward_args;
#define MOERT_LAYER_BACKWARD_ARGS_INIT \
  { sizeof(moert_layer_backward_args), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/** Bytes that a forward call with KEEP writes to `saved`. @since 0.1 */
MOERT_API moert_status moert_layer_saved_size(const moert_layer* layer,
                                              const moert_layer_forward_args* args, uint64_t* out,
                                              moert_error* error);
/** Scratch of a backward call. @since 0.1 */
MOERT_API moert_status moert_layer_backward_workspace_size(const moert_layer* layer,
                                                           const moert_layer_backward_args* args,
                                                           uint64_t* out, moert_error* error);
/** Enqueues the gradients asked for. @since 0.1 */
MOERT_API moert_status moert_layer_backward(const moert_layer* layer, moert_stream* stream,
                                            const moert_layer_backward_args* args,
                                            moert_error* error);

/** One option of an optimizer: both strings live during the call. */
typedef struct moert_option {
  const char* key;
  const char* value;
} moert_option;

/** One parameter as an optimizer sees it. */
typedef struct moert_parameter {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;
  const moert_matrix* value;
  const moert_matrix* gradient;
} moert_parameter;
#define MOERT_PARAMETER_INIT \
  { sizeof(moert_parameter), 0, 0, 0, 0 }

/** A host's own optimizer. Functions return 0, or a code that becomes CALLBACK_FAILED. */
typedef struct moert_optimizer_callbacks {
  uint32_t struct_size;
  uint32_t reserved;
  void* user_data;
  int32_t (*create_state)(void* user_data, const moert_parameter* parameter,
                          const moert_option* options, uint32_t num_options, void** state);
  int32_t (*step)(void* user_data, void* state, const moert_parameter* parameter,
                  moert_stream* stream, const moert_option* options, uint32_t num_options);
  void (*destroy_state)(void* user_data, void* state);
  moert_free_fn free_fn; /**< May be NULL. */
} moert_optimizer_callbacks;
#define MOERT_OPTIMIZER_CALLBACKS_INIT \
  { sizeof(moert_optimizer_callbacks), 0, 0, 0, 0, 0, 0 }

typedef int32_t moert_optimizer_kind;
enum moert_optimizer_kind_e {
  MOERT_OPTIMIZER_KIND_SGD = 0,
  MOERT_OPTIMIZER_KIND_ADAMW = 1,
  MOERT_OPTIMIZER_KIND_CALLBACKS = 2 /**< The host's own. */
};

/** An optimizer. Options that it does not know are passed through or ignored, never an error. */
typedef struct moert_optimizer_desc {
  uint32_t struct_size;
  moert_optimizer_kind kind;
  const moert_optimizer_callbacks* callbacks;
  const moert_option* options;
  uint32_t num_options;
  uint32_t reserved;
} moert_optimizer_desc;
#define MOERT_OPTIMIZER_DESC_INIT \
  { sizeof(moert_optimizer_desc), 0, 0, 0, 0, 0 }

/** @since 0.1 */
MOERT_API moert_status moert_optimizer_create(const moert_device* device,
                                              const moert_optimizer_desc* desc,
                                              moert_optimizer** out, moert_error* error);
MOERT_API void moert_optimizer_retain(const moert_optimizer* optimizer);
MOERT_API void moert_optimizer_release(const moert_optimizer* optimizer);
/** Enqueues one step over `num_parameters` parameters, parameters[0].struct_size apart. @since 0.1
 */
MOERT_API moert_status moert_optimizer_step(moert_optimizer* optimizer, moert_stream* stream,
                                            const moert_parameter* parameters,
                                            uint32_t num_parameters, const moert_option* options,
                                            uint32_t num_options, moert_error* error);

/* Defaults: each sets struct_size and zeros, as the MOERT_*_INIT macro does. For languages without
 * macros. @since 0.1 */

MOERT_API void moert_error_init(moert_error* value);
MOERT_API void moert_allocator_init(moert_allocator* value);
MOERT_API void moert_log_sink_init(moert_log_sink* value);
MOERT_API void moert_scheduler_init(moert_scheduler* value);
MOERT_API void moert_runtime_desc_init(moert_runtime_desc* value);
MOERT_API void moert_device_info_init(moert_device_info* value);
MOERT_API void moert_device_desc_init(moert_device_desc* value);
MOERT_API void moert_stream_desc_init(moert_stream_desc* value);
MOERT_API void moert_routing_init(moert_routing* value);
MOERT_API void moert_activation_init(moert_activation* value);
MOERT_API void moert_weight_init(moert_weight* value);
MOERT_API void moert_pack_desc_init(moert_pack_desc* value);
MOERT_API void moert_pack_result_init(moert_pack_result* value);
MOERT_API void moert_file_source_init(moert_file_source* value);
MOERT_API void moert_manifest_desc_init(moert_manifest_desc* value);
MOERT_API void moert_manifest_info_init(moert_manifest_info* value);
MOERT_API void moert_file_info_init(moert_file_info* value);
MOERT_API void moert_tensor_info_init(moert_tensor_info* value);
MOERT_API void moert_layer_info_init(moert_layer_info* value);
MOERT_API void moert_weight_info_init(moert_weight_info* value);
MOERT_API void moert_layer_desc_init(moert_layer_desc* value);
MOERT_API void moert_layer_open_desc_init(moert_layer_open_desc* value);
MOERT_API void moert_layer_forward_args_init(moert_layer_forward_args* value);
MOERT_API void moert_router_desc_init(moert_router_desc* value);
MOERT_API void moert_router_forward_args_init(moert_router_forward_args* value);
MOERT_API void moert_gate_desc_init(moert_gate_desc* value);
MOERT_API void moert_gate_forward_args_init(moert_gate_forward_args* value);
MOERT_API void moert_gradient_init(moert_gradient* value);
MOERT_API void moert_layer_backward_args_init(moert_layer_backward_args* value);
MOERT_API void moert_parameter_init(moert_parameter* value);
MOERT_API void moert_optimizer_callbacks_init(moert_optimizer_callbacks* value);
MOERT_API void moert_optimizer_desc_init(moert_optimizer_desc* value);

#ifdef __cplusplus
}
#endif

#endif /* MOERT_MOERT_H_ */
