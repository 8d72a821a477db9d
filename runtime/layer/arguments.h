// SPDX-License-Identifier: Apache-2.0
// From the ABI's argument structs to checked calls: presence, dtype, shapes, strides, overlap.
#ifndef MOERT_LAYER_ARGUMENTS_H_
#define MOERT_LAYER_ARGUMENTS_H_

#include "backend/spec.h"
#include "core/status.h"
#include "moert/moert.h"

namespace moert {

// Whether a call will run (data and overlap are checked) or only its workspace is asked for.
enum class Purpose { kRun, kSize };

Status ResolveForward(const LayerSpec& spec, bool has_router, const moert_layer_forward_args& args,
                      Purpose purpose, LayerCall* call);
Status ResolveRoute(const RouterSpec& spec, bool has_router, const moert_router_forward_args& args,
                    Purpose purpose, RouteCall* call);
Status ResolveGateCall(const GateSpec& spec, const moert_gate_forward_args& args, GateCall* call);

}  // namespace moert

#endif  // MOERT_LAYER_ARGUMENTS_H_
