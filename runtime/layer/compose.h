// SPDX-License-Identifier: Apache-2.0
// A layer for backends without a fused one: route into the workspace, then run the experts.
#ifndef MOERT_LAYER_COMPOSE_H_
#define MOERT_LAYER_COMPOSE_H_

#include "backend/backend.h"

namespace moert {

// The backend's fused layer, else the composition of its router and experts.
Status MakeLayer(Allocator& allocator, BackendDevice& device, const LayerSpec& spec,
                 const LayerWeights& weights, WeightSource source, Owned<PreparedLayer>* out);

}  // namespace moert

#endif  // MOERT_LAYER_COMPOSE_H_
