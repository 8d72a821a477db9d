// SPDX-License-Identifier: Apache-2.0
// From the ABI's descs to checked specs and weights: defaults filled in, every value and shape
// checked, every weight reduced to a strided [out, in] matrix.
#ifndef MOERT_LAYER_RESOLVE_H_
#define MOERT_LAYER_RESOLVE_H_

#include "backend/spec.h"
#include "core/status.h"
#include "moert/moert.h"

namespace moert {

// Limits of the device that the spec must keep.
struct RoutingLimits {
  int32_t max_experts;
  int32_t max_top_k;
};

// Checks `in` (already extended to the library's struct) and resolves its defaults.
Status ResolveRouting(const moert_routing& in, const RoutingLimits& limits, moert_routing* out);
Status ResolveActivation(const char* name, const moert_activation& in, moert_activation* out);

Status ResolveLayer(const moert_layer_desc& desc, const RoutingLimits& limits, LayerSpec* spec,
                    LayerWeights* weights);
Status ResolveRouter(const moert_router_desc& desc, const RoutingLimits& limits, RouterSpec* spec,
                     RouterWeights* weights);
Status ResolveGate(const moert_gate_desc& desc, GateSpec* spec);

}  // namespace moert

#endif  // MOERT_LAYER_RESOLVE_H_
