// SPDX-License-Identifier: Apache-2.0
// What bench times: an op of given shape on given tokens, as slots that take turns so that no cache
// line is used again before four last-level caches' worth of other bytes.
#ifndef MOERT_CLI_BENCH_CASE_H_
#define MOERT_CLI_BENCH_CASE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/description.h"
#include "cli/handles.h"
#include "cli/status.h"
#include "moert/moert.h"

namespace moert::cli {

struct BenchShape {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t shared = 0;  // 0: no shared expert
};

// Where an op runs, and how much memory its slots must cover and may take.
struct BenchPlace {
  moert_runtime* runtime = nullptr;
  moert_device* device = nullptr;
  moert_stream* stream = nullptr;
  bool on_gpu = false;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;          // of x
  moert_dtype weights_dtype = MOERT_DTYPE_FLOAT32;  // of a shape's weights
  uint64_t rotation_bytes = 0;                      // four last-level caches
  uint64_t memory_bytes = 0;                        // free memory that weights and inputs may take
};

// Bytes and operations that a call cannot do without.
struct BenchCost {
  double bytes = 0;
  double flops = 0;
};

// An op on a number of tokens. Slots are used in turn.
struct BenchCase {
  int64_t slots = 0;
  std::function<Status(int64_t slot)> run;  // enqueues the call
  // Makes calls use memory of their own instead of the stream's scratch, as a captured call must.
  std::function<Status()> own_workspace;
  std::function<Status(int64_t slot, BenchCost* cost)> cost;  // after it: what it took at least
};

// The layers that take turns: copies of one, made from a shape or read from a manifest.
struct LayerSet {
  BenchShape shape;
  double layer_bytes = 0;   // weights of one layer
  double fixed_bytes = 0;   // of them, read by every call
  double expert_bytes = 0;  // of them, read for each expert that is hit
  double token_flops = 0;   // for each token: router, shared expert, latent
  double slot_flops = 0;    // for each expert of a token
  // What the layers of a shape borrow, one block each, which begins with the router [E, H]. Empty
  // for a manifest.
  std::vector<DeviceMemory> memory;
  std::vector<Layer> layers;
};

// Enough layers for calls of those tokens. `note` gets one sentence if memory does not suffice for
// that many.
Status MakeShapeLayers(const BenchPlace& place, const BenchShape& shape,
                       const std::vector<int64_t>& tokens, LayerSet* out, std::string* note);
// The layers of a manifest that are like its first one; several readings of the file if need be.
Status MakeManifestLayers(const BenchPlace& place, const std::string& path,
                          const std::vector<int64_t>& tokens, LayerSet* out, std::string* note);
// The shape of a manifest's first layer.
Status ReadManifestShape(const BenchPlace& place, const std::string& path, BenchShape* out);

// How many copies must take turns if a call touches at least `call_bytes`, so that rotation_bytes
// lie between two uses of a line; `kept_bytes` of them lie there even without copies.
int64_t CopiesNeeded(const BenchPlace& place, double call_bytes, double kept_bytes);
// Layers that must take turns for calls of `tokens` tokens.
int64_t LayersNeeded(const BenchPlace& place, const LayerSet& layers, int64_t tokens);
// Whether inputs are made so that calls deal out the experts in turn, none twice before all had
// one: where a call cannot hit all of them, that is what keeps the next call's weights out of the
// caches without many copies of the layer.
bool DealsExperts(const LayerSet& layers, int64_t tokens);

// `layers` must outlive the case.
Status MakeLayerCase(const BenchPlace& place, const LayerSet& layers, int64_t tokens,
                     BenchCase* out);
Status MakeRouterCase(const BenchPlace& place, const BenchShape& shape, int64_t tokens,
                      BenchCase* out);
// A gate op [tokens, hidden].
Status MakeGateCase(const BenchPlace& place, const BenchShape& shape, moert_gate_kind kind,
                    int64_t tokens, BenchCase* out);

}  // namespace moert::cli

#endif  // MOERT_CLI_BENCH_CASE_H_
