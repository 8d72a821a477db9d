// SPDX-License-Identifier: Apache-2.0
// The CPU kernels as tables of functions, one table an instruction level. kernels.inc is compiled
// once for each level; the rest of the backend calls through a table and never names a level.
//
// This header is included by code compiled for several instruction sets: plain data only, no inline
// function and nothing of the C++ library, so that the linker can't take one level's copy for
// another.
#ifndef MOERT_BACKEND_CPU_KERNELS_H_
#define MOERT_BACKEND_CPU_KERNELS_H_

#include <stdint.h>

#include "moert/moert.h"

namespace moert::cpu {

// Rows of a product that one call may have: bounds the panel, which is meant to stay in the L2
// cache.
constexpr int64_t kBlockRows = 60;
// Elements of a row that a panel holds at most.
constexpr int64_t kPanelDepth = 2048;
// Outputs of a product that a worker takes at once, at most; bounds its scratch.
constexpr int64_t kBlockOutputs = 256;
// Floats in the widest vector; rows of scratch are padded to it.
constexpr int64_t kMaxLanes = 16;

// A logical [out, in] matrix: element (o, i) is at data + (o * out_stride + i * in_stride)
// elements.
struct WeightView {
  const void* data;
  moert_dtype dtype;
  int64_t out_stride;
  int64_t in_stride;
};

// Rows to multiply: row j is row index[j] of data (j itself without an index), its value at k times
// row_factor[j] times column_factor[k] where those are given, rounded to dtype if `round`.
struct RowSource {
  const void* data;
  moert_dtype dtype;
  int64_t row_stride;
  const int32_t* index;
  const float* row_factor;
  const float* column_factor;
  bool round;
};

// out[j, o] = sum over k of row j at k * weight (o, k), for `rows` rows (at most kBlockRows) and
// `outputs` outputs, accumulated in float32. The bits of out[j, o] depend on that row, that output,
// k and the strides only, never on how many rows or outputs the call has.
struct ProductArgs {
  RowSource source;
  int64_t rows;
  int64_t depth;  // k
  WeightView weight;
  int64_t outputs;
  float* out;
  int64_t out_stride;
  float* panel;  // scratch of PanelFloats(rows, depth), aligned to 64 bytes
  // The panel still holds these rows, from a call with a weight of the same dtype and orientation;
  // only with depth <= kPanelDepth.
  bool panel_ready;
};

// h[j, i] = act(gate[j, i] + gate_bias[i], up[j, i] + up_bias[i]), stored in dtype. Biases may be
// null.
struct ActivateArgs {
  const moert_activation* activation;
  const float* gate;  // null when ungated
  const float* up;
  const float* gate_bias;
  const float* up_bias;
  int64_t in_stride;
  int64_t step;  // elements between two values of gate or up: 2 when they are interleaved
  int64_t rows, columns;
  void* out;
  moert_dtype dtype;
  int64_t out_stride;
};

// Chooses experts for one row. `logits` [E] holds the products on entry, and the logits after bias
// and soft cap on return.
struct RouteArgs {
  const moert_routing* routing;
  const float* router_bias;     // [E] or null
  const float* selection_bias;  // [E] or null
  const float* expert_scale;    // [E] or null
  float* logits;
  float* scores;        // scratch, E padded to kMaxLanes
  int32_t* keys;        // scratch, E padded to kMaxLanes
  int32_t* score_keys;  // the same; needed with groups only
  int32_t* group_keys;  // the same
  int32_t* ids;         // [K]
  float* weights;
};

struct GateArgs {
  moert_gate_kind kind;
  moert_dtype dtype;
  int64_t columns;
  int64_t linear_columns;
  const void* x;
  const void* g;  // a row, or one value
  const void* h;
  const void* w;
  const void* acc;
  void* out;
  bool stream_out;  // write past the caches
};

struct Kernels {
  const char* name;

  void (*product)(const ProductArgs& args);
  void (*activate)(const ActivateArgs& args);
  // sum[i] += factor * (value[i] + bias[i]); bias may be null.
  void (*accumulate)(float* sum, const float* value, const float* bias, float factor, int64_t n);
  // out[i] = value[i] (+ out[i] if add), narrowed to dtype.
  void (*store)(void* out, moert_dtype dtype, const float* value, bool add, int64_t n);
  // out[i] = element i of an array of a compute dtype, `stride` elements apart.
  void (*load)(float* out, const void* data, moert_dtype dtype, int64_t stride, int64_t n);
  // Sum of squares of an array of a compute dtype.
  float (*sum_of_squares)(const void* data, moert_dtype dtype, int64_t n);
  void (*route)(const RouteArgs& args);
  // One row of a gate op.
  void (*gate)(const GateArgs& args);
  // Orders the writes of `gate` with stream_out before what follows.
  void (*fence)();

  // The vector functions on arrays, for tests.
  void (*exp)(float* values, int64_t n);
  void (*sigmoid)(float* values, int64_t n);
  void (*tanh)(float* values, int64_t n);
  void (*normal_cdf)(float* values, int64_t n);
};

extern const Kernels kKernelsBaseline;
#if defined(__x86_64__)
extern const Kernels kKernelsAvx2;
extern const Kernels kKernelsAvx512;
extern const Kernels kKernelsAvx512Bf16;
#endif

}  // namespace moert::cpu

#endif  // MOERT_BACKEND_CPU_KERNELS_H_
