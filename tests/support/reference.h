// SPDX-License-Identifier: Apache-2.0
// What the library must compute, in float64 and in the plainest way: routing with every knob,
// experts, shared expert, latent projections and gate ops. Shares nothing with the library but the
// structs of moert.h that hold the knobs, which here may leave their defaults at zero.
#ifndef MOERT_TESTS_SUPPORT_REFERENCE_H_
#define MOERT_TESTS_SUPPORT_REFERENCE_H_

#include "numbers.h"

namespace moert::test {

// Gate and up [I, D], down [D, I]; biases are row vectors; absent ones are empty.
struct RefExpert {
  Mat gate, up, down;
  Mat gate_bias, up_bias, down_bias;
};

// Absent parts are empty.
struct RefRouter {
  moert_routing routing = MOERT_ROUTING_INIT;
  Mat weight;          // [E, H]
  Mat bias;            // [1, E]
  Mat selection_bias;  // [1, E]
  Mat input_scale;     // [1, H]
  Mat expert_scale;    // [1, E]
};

struct RefLayer {
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  moert_weight_application weight_application = MOERT_WEIGHT_APPLICATION_OUTPUT;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t latent = 0;
  int64_t shared_intermediate = 0;
  RefRouter router;
  moert_activation activation = MOERT_ACTIVATION_INIT;
  moert_activation shared_activation = MOERT_ACTIVATION_INIT;
  std::vector<RefExpert> experts;  // all E of them
  std::vector<bool> held;          // empty: all
  RefExpert shared;
  Mat shared_gate;  // [1, H]
  Mat latent_in;    // [L, H]
  Mat latent_out;   // [H, L]

  int64_t expert_width() const { return latent != 0 ? latent : hidden; }
  int32_t num_experts() const { return router.routing.num_experts; }
  int32_t top_k() const { return router.routing.top_k; }
};

struct RefRoute {
  Ints ids;     // [T, K]
  Mat weights;  // [T, K]
  // For each row, how little would change its choice; infinity where the choice is by comparison of
  // the logits alone, so that float32 decides as float64 does.
  std::vector<double> margins;
};

// Logits after bias and soft cap.
Mat RefLogits(const RefRouter& router, const Mat& x);
Mat RefFinishLogits(const RefRouter& router, Mat given_logits);
// The choice on finished logits.
RefRoute RefChoose(const RefRouter& router, const Mat& logits);
// The weights of ids that were chosen on these logits, in their order.
Mat RefWeights(const RefRouter& router, const Mat& logits, const Ints& ids);

struct RefOptions {
  bool skip_shared = false;
  // Not null: moves every stored value, and every float32 sum, by a random error of the size that
  // its rounding makes, to find how well-conditioned a layer is.
  Rng* rng = nullptr;
};
// y for the given routing. Ids outside of 0..E-1 and experts that are not held add nothing.
Mat RefForward(const RefLayer& layer, const Mat& x, const Ints& ids, const Mat& weights,
               const RefOptions& options = {});

Ints RefCounts(int32_t num_experts, const Ints& ids);

double RefActivation(const moert_activation& activation, double gate, double up);
double RefSigmoid(double value);

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_REFERENCE_H_
