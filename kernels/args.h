/* SPDX-License-Identifier: Apache-2.0 */
/* The arguments of every kernel, shared by host and device: one trivially copyable struct a kernel,
 * plain C, 64-bit pointers. Strides and widths are in elements. dtype fields hold moert_dtype
 * values; "16-bit" below means bfloat16 or float16. A change here changes MOERT_KERNEL_ABI. */
#ifndef MOERT_KERNELS_ARGS_H_
#define MOERT_KERNELS_ARGS_H_

#include <stdint.h>

#define MOERT_KERNEL_ABI 1

/* Limits that host and device agree on. */
enum {
  MOERT_KERNEL_MAX_EXPERTS = 1024,
  MOERT_KERNEL_DEPTH_UNIT = 64,    /* rows of packed operands are padded with zeros to this */
  MOERT_KERNEL_SMALL_SLOTS = 1024, /* up to here one block groups the slots */
  MOERT_KERNEL_GROUP_BLOCKS = 256  /* blocks that count and scatter above */
};

/* The sticky status of a stream, in pinned memory. `raised` is written last. */
typedef struct moert_stream_status {
  uint32_t raised;
  int32_t id;
  int64_t slot;
  int32_t num_experts;
  int32_t top_k;
} moert_stream_status;

/* out = x * sigmoid(g) and relatives; see moert_gate_kind. */
typedef struct moert_gate_kernel_args {
  const void *x, *g, *h, *w, *acc;
  void* out;
  int64_t rows, width, linear_width;
  int64_t x_stride, g_stride, h_stride, acc_stride, out_stride;
  int32_t vectors;        /* x, acc, out (and an element-wise g) may be read in 16-byte vectors */
  int32_t linear_vectors; /* h and w too */
} moert_gate_kernel_args;

/* destination[r, c] = convert(scale(r) * source[index(r), c]), zero from `cols` to `padded_cols`.
 */
typedef struct moert_rows_kernel_args {
  const void* source;
  void* destination;
  const int32_t* index;    /* row r reads source row index[r] / index_divisor; null: row r */
  const float* scale;      /* of row r; null: 1 */
  const int32_t* num_rows; /* null: max_rows */
  int64_t max_rows;
  int64_t cols, padded_cols;
  int64_t source_stride, destination_stride;
  int32_t dtype;
  int32_t index_divisor;
} moert_rows_kernel_args;

/* Packs a strided [out, in] weight: row o goes to row (o / 8) * group + o % 8 + first. */
typedef struct moert_pack_kernel_args {
  const void* source;
  void* destination;
  int64_t out, in; /* of this piece */
  int64_t out_source_stride, in_source_stride;
  int64_t padded_out, padded_in; /* zeros beyond out and in are written as far as this */
  int64_t first_out, first_in;   /* where the piece begins in the whole */
  int64_t destination_stride;
  const float* in_scale; /* multiplies column i of the whole; null: 1 */
  int32_t group, first;  /* 8 and 0: plain rows; 16 and 0 or 8: interleaved by 8 */
  int32_t source_dtype, destination_dtype;
} moert_pack_kernel_args;

/* A weight of one expert, or of a layer: `value` and `pair` (up, when value is gate) with their
 * biases; what is absent is null. */
typedef struct moert_weight_entry {
  const void *value, *pair;
  const void *value_bias, *pair_bias;
} moert_weight_entry;

/* Consecutive positions of one expert that one block multiplies. */
typedef struct moert_tile {
  int32_t expert; /* local */
  int32_t first;  /* position */
  int32_t count;
  int32_t reserved;
} moert_tile;

/* out[p, :] = epilogue(W rows[index(p), :]). W is [outputs, depth]; output o of a weight lies at
 * value + (o / 8) * group_stride + (o % 8) * row_stride, its element i at in_stride * i from there.
 */
typedef struct moert_linear_kernel_args {
  const void* rows;
  const int32_t* row_index;  /* position -> row; null: the position itself */
  int32_t row_index_divisor; /* row = row_index[p] / divisor */
  int32_t tile_positions;    /* positions a tile holds at most */
  int64_t row_stride_in;
  const moert_tile* tiles; /* null: positions 0 .. dense_rows-1 of expert 0 */
  const int32_t* num_tiles;
  int64_t dense_rows;
  const moert_weight_entry* weights;
  int64_t outputs, depth;
  int64_t row_depth; /* elements of a row, at most depth; the rest counts as zero */
  int64_t weight_row_stride, weight_group_stride, weight_in_stride;
  int64_t bias_stride;
  int32_t row_dtype, weight_dtype, bias_dtype, out_dtype;
  int32_t activation; /* -1: none; else moert_activation_kind */
  int32_t gated;
  float alpha, limit, up_offset, soft_cap; /* limit: infinity when none; soft_cap 0: none */
  float product_scale;                     /* multiplies the product, before the bias */
  int32_t reserved;
  const float* position_scale; /* multiplies the output of a position, after the bias; null: 1 */
  const float* row_scale;      /* multiplies the product of a dense row, before the bias; null: 1 */
  void* out;
  int64_t out_stride;
  int64_t padded_outputs; /* zeros are stored from outputs up to this */
} moert_linear_kernel_args;

/* fc2 of few tokens, summed over slots: y[t] = sum_s weight(t, s) * (W2 h[position(t, s)] + bias).
 */
typedef struct moert_down_sum_kernel_args {
  moert_linear_kernel_args linear; /* rows: h; out and position_scale unused */
  const int32_t* position_of;      /* slot -> position, or -1 */
  const float* weights;            /* [tokens, top_k], of slots; null: 1 */
  int64_t weights_stride;
  int32_t tokens, top_k;
  int32_t splits; /* pieces of the depth */
  int32_t accumulate;
  const float* addend; /* [tokens, outputs] added once a token; null: none */
  int64_t addend_stride;
  const float* addend_scale; /* of a token; null: 1 */
  void* y;
  int64_t y_stride;
} moert_down_sum_kernel_args;

/* y[t] = sum over present slots of parts[position_of[t * top_k + s]] + scale[t] * addend[t] (+ y).
 * position_of null: part t is token t's only one. */
typedef struct moert_combine_kernel_args {
  const void* parts;
  const int32_t* position_of;
  const float* addend;
  const void* gate_x; /* addend times sigmoid(gate_x[t] . gate_w); null: times 1 */
  const void* gate_w;
  void* y;
  int64_t tokens, width, padded_width;
  int64_t parts_stride, addend_stride, gate_x_stride, gate_width, y_stride;
  int32_t top_k, parts_dtype, y_dtype, gate_w_dtype;
  int32_t accumulate, vectors;
} moert_combine_kernel_args;

/* scale[t] = 1 / sqrt(mean(x[t]^2) + epsilon), or sigmoid(x[t] . w) when w is given. */
typedef struct moert_row_scale_kernel_args {
  const void *x, *w;
  float* scale;
  int64_t rows, width, x_stride;
  float epsilon;
  int32_t x_dtype, w_dtype;
} moert_row_scale_kernel_args;

/* Logits of few tokens: logits[t, e] = x[t] . w[e]. */
typedef struct moert_logits_kernel_args {
  const void *x, *w, *bias;
  const float* row_scale;
  float* logits;
  int64_t width, x_stride, w_stride, logits_stride;
  int32_t tokens, num_experts;
  int32_t x_dtype, w_dtype, bias_dtype;
  float soft_cap, product_scale;
  int32_t vectors; /* x and w rows may be read in 16-byte vectors */
  int32_t reserved;
} moert_logits_kernel_args;

/* The choice of experts. Enums as in moert.h, defaults resolved. */
typedef struct moert_top_k_kernel_args {
  const void* logits; /* final, or given: then bias and soft cap are applied here */
  const void* bias;   /* float32 [E]; null: none */
  const float* selection_bias;
  const float* expert_scale;
  int32_t* ids;
  float* weights;
  float* logits_out; /* null: not wanted */
  int32_t* counts;   /* [E], zero before; null: not wanted */
  int64_t tokens;
  int64_t logits_stride, ids_stride, weights_stride, logits_out_stride;
  int32_t logits_dtype;
  int32_t num_experts, top_k, score, renormalize, group_score, num_groups, top_k_groups;
  float renormalize_value, routed_scaling_factor, soft_cap, sparsemixer_epsilon;
} moert_top_k_kernel_args;

/* Sorts slots by expert, in token order within an expert. */
typedef struct moert_group_kernel_args {
  const int32_t* ids;
  const float* weights;
  int64_t tokens, slots;
  int64_t ids_stride, weights_stride;
  int32_t top_k, num_experts;
  const int32_t* local_of;       /* expert -> local index, -1: not held */
  int32_t tile_positions, chunk; /* chunk: slots a block counts and scatters */
  int32_t* position_of;          /* slot -> position, -1: adds nothing */
  int32_t* slot_of;              /* position -> slot */
  float* position_weight;
  moert_tile* tiles;
  int32_t* num_tiles;
  int32_t* num_positions;
  int32_t* block_counts;  /* [blocks, E]; above SMALL_SLOTS */
  int64_t* block_offence; /* [blocks], first bad slot, or INT64_MAX */
  int32_t* counts;        /* [E] output, ids outside 0..E-1 not counted; null: not wanted */
  moert_stream_status* status;
  int32_t blocks, reserved;
} moert_group_kernel_args;

/* Both at once, in one block. */
typedef struct moert_choose_and_group_kernel_args {
  moert_top_k_kernel_args top_k;
  moert_group_kernel_args group;
} moert_choose_and_group_kernel_args;

/* Ceilings for moert bench. */
typedef struct moert_ceiling_kernel_args {
  const void* source;
  void* destination;
  int64_t vectors; /* of 16 bytes */
} moert_ceiling_kernel_args;

#endif /* MOERT_KERNELS_ARGS_H_ */
