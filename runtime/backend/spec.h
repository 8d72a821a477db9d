// SPDX-License-Identifier: Apache-2.0
// What a backend is asked to run: checked specs of layers, routers and gates, their weights, and
// the arguments of one call. layer/ makes these from the ABI's structs; nothing here needs checking
// again except what a device in particular cannot do.
#ifndef MOERT_BACKEND_SPEC_H_
#define MOERT_BACKEND_SPEC_H_

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "moert/moert.h"

namespace moert {

// A logical [out, in] matrix anywhere: element (o, i) is at data + (o * out_stride + i * in_stride)
// elements. Covers both orientations and both gate/up packings. A vector has out = 1. `data` may be
// unaligned. Absent: data is null.
struct WeightMatrix {
  const void* data = nullptr;
  moert_dtype dtype = MOERT_DTYPE_NONE;
  int64_t out_stride = 0;
  int64_t in_stride = 0;
  bool present() const { return data != nullptr; }
};

// One expert (or the shared one): gate and up [I, D], down [D, I]; biases are vectors.
struct ExpertWeights {
  WeightMatrix gate;  // absent when ungated
  WeightMatrix up;
  WeightMatrix down;
  WeightMatrix gate_bias;
  WeightMatrix up_bias;
  WeightMatrix down_bias;
};

struct RouterWeights {
  WeightMatrix router;          // [E, H]; absent: given logits, or given routing
  WeightMatrix router_bias;     // [E]
  WeightMatrix selection_bias;  // [E]
  WeightMatrix input_scale;     // [H]
  WeightMatrix expert_scale;    // [E]
};

struct LayerWeights {
  explicit LayerWeights(std::pmr::memory_resource* memory) : experts(memory) {}
  RouterWeights router;
  std::pmr::vector<ExpertWeights> experts;  // one a local expert
  ExpertWeights shared;                     // up absent: none
  WeightMatrix shared_expert_gate;          // [H]
  WeightMatrix latent_in;                   // [L, H]
  WeightMatrix latent_out;                  // [H, L]
};

// Where weights lie while a layer is prepared, and how long.
enum class WeightSource {
  kCopy,    // memory of host or device, valid during the call only
  kBorrow,  // memory the device can use directly, valid as long as the prepared object
  kMapped,  // host memory (a mapped file), valid as long as the prepared object
};

struct RouterSpec {
  moert_routing routing = MOERT_ROUTING_INIT;  // defaults resolved: no "0 means"
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;     // of x or given logits
  int64_t hidden = 0;                          // 0: given logits only
};

struct LayerSpec {
  explicit LayerSpec(std::pmr::memory_resource* memory) : local_experts(memory) {}
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  moert_weight_application weight_application = MOERT_WEIGHT_APPLICATION_OUTPUT;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t latent = 0;
  int64_t shared_intermediate = 0;
  moert_routing routing = MOERT_ROUTING_INIT;           // defaults resolved
  moert_activation activation = MOERT_ACTIVATION_INIT;  // alpha resolved; limit 0: none
  moert_activation shared_activation = MOERT_ACTIVATION_INIT;
  bool trainable = false;
  std::pmr::vector<int32_t> local_experts;  // global ids in weight order; always filled

  int64_t expert_width() const { return latent != 0 ? latent : hidden; }  // D
};

struct GateSpec {
  moert_gate_kind kind = MOERT_GATE_KIND_MULTIPLY;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  int64_t width = 0;
  int64_t linear_width = 0;
};

// A matrix argument. Absent: dtype NONE. When a workspace size is asked for, data means nothing.
struct Matrix : moert_matrix {
  Matrix() : moert_matrix(MOERT_MATRIX_INIT) {}
  explicit Matrix(const moert_matrix& matrix) : moert_matrix(matrix) {}
  Matrix(void* data, int64_t rows, int64_t cols, moert_dtype dtype)
      : moert_matrix{data, rows, cols, cols, dtype, 0} {}
  bool present() const { return dtype != MOERT_DTYPE_NONE; }
};

struct Workspace {
  void* data = nullptr;  // aligned to 256 bytes
  uint64_t size = 0;
};

struct RouteCall {
  int64_t tokens = 0;
  Matrix x;              // or given_logits
  Matrix given_logits;   // before router bias and soft cap
  Matrix ids;            // output [T, K] INT32
  Matrix weights;        // output [T, K] FLOAT32
  Matrix logits;         // optional output [T, E] FLOAT32
  Matrix expert_counts;  // optional output [1, E] INT32
  Workspace workspace;
};

struct ExpertsCall {
  int64_t tokens = 0;
  Matrix x;
  Matrix y;
  Matrix ids;            // input [T, K]; any value may stand there
  Matrix weights;        // input [T, K]
  Matrix expert_counts;  // optional output [1, E] INT32
  bool accumulate = false;
  bool skip_shared = false;
  Workspace workspace;
};

// A whole forward call.
struct LayerCall {
  int64_t tokens = 0;
  Matrix x;
  Matrix router_x;  // always present unless routing is given
  Matrix y;
  Matrix ids;      // absent: into the workspace
  Matrix weights;  // absent: into the workspace
  Matrix logits;
  Matrix expert_counts;
  bool given_routing = false;
  bool accumulate = false;
  bool skip_shared = false;
  Workspace workspace;
};

struct GateCall {
  int64_t tokens = 0;
  Matrix x, g, h, w, acc, out;  // acc is out where the caller gave none
};

}  // namespace moert

#endif  // MOERT_BACKEND_SPEC_H_
