// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "cli/convert.h"
#include "cli/random_fill.h"

namespace moert::cli {
namespace {

constexpr int64_t kLeastSlots =
    8;  // so that inputs vary even where one copy of the weights suffices

double ElementBytes(moert_dtype dtype) { return moert_dtype_bits(dtype) / 8; }

// A device matrix, filled with random values if `fill` is given.
struct SlotMatrix {
  DeviceMemory memory;
  moert_matrix view = MOERT_MATRIX_INIT;

  Status Make(const BenchPlace& place, int64_t rows, int64_t cols, moert_dtype dtype,
              RandomFill* fill) {
    moert_matrix_init(&view, nullptr, rows, cols, dtype);
    const uint64_t bytes = rows * cols * (moert_dtype_bits(dtype) / 8);
    MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, bytes, &memory));
    view.data = memory.data();
    return fill == nullptr ? Status() : fill->Fill(place.stream, view.data, rows * cols);
  }
};

// x, y and what else a slot's call reads and writes; `args` points into the slot, which stays put.
struct LayerSlot {
  SlotMatrix x, y, ids;
  std::shared_ptr<DeviceMemory> workspace;  // absent: the stream's scratch
  const moert_layer* layer = nullptr;
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
};

struct RouterSlot {
  SlotMatrix weight, x, ids, weights;
  std::shared_ptr<DeviceMemory> workspace;  // absent: the stream's scratch
  Router router;
  moert_router_forward_args args = MOERT_ROUTER_FORWARD_ARGS_INIT;
};

struct GateSlot {
  SlotMatrix x, g, h, w, out;
  moert_gate_forward_args args = MOERT_GATE_FORWARD_ARGS_INIT;
};

struct GateCase {
  Gate gate;
  std::vector<GateSlot> slots;
};

Status MakeLayerSlot(const BenchPlace& place, const BenchShape& shape, int64_t tokens,
                     RandomFill* fill, LayerSlot* slot) {
  MOERT_CLI_TRY(slot->x.Make(place, tokens, shape.hidden, place.dtype, fill));
  MOERT_CLI_TRY(slot->y.Make(place, tokens, shape.hidden, place.dtype, fill));
  MOERT_CLI_TRY(slot->ids.Make(place, tokens, shape.top_k, MOERT_DTYPE_INT32, nullptr));
  slot->args.x = &slot->x.view;
  slot->args.y = &slot->y.view;
  slot->args.ids = &slot->ids.view;
  uint64_t scratch = 0;
  MOERT_CLI_TRY(Call(moert_layer_workspace_size, slot->layer, &slot->args, &scratch));
  return Call(moert_stream_reserve, place.stream, scratch);
}

// Gives all slots one workspace of the size that the largest needs.
template <class Slot, class Size>
std::function<Status()> OwnWorkspace(const BenchPlace& place,
                                     std::shared_ptr<std::vector<Slot>> slots, Size size) {
  return [place, slots, size]() -> Status {
    uint64_t bytes = 0;
    MOERT_CLI_TRY(size((*slots)[0], &bytes));
    auto memory = std::make_shared<DeviceMemory>();
    MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, std::max<uint64_t>(bytes, 1), memory.get()));
    for (Slot& slot : *slots) {
      slot.workspace = memory;
      slot.args.workspace = memory->data();
      slot.args.workspace_size = bytes;
    }
    return Status();
  };
}

// Makes each token the sum of the router rows of the experts it is dealt, from `first` on in the
// deck, scaled to a variance of about one.
Status DealTokens(const BenchPlace& place, const LayerSet& layers, int64_t copy,
                  const std::vector<int64_t>& deck, int64_t first, LayerSlot* slot) {
  const BenchShape& shape = layers.shape;
  const moert_matrix& x = slot->x.view;
  std::vector<std::byte> stored(shape.experts * shape.hidden *
                                (moert_dtype_bits(place.weights_dtype) / 8));
  MOERT_CLI_TRY(Call(moert_stream_copy, place.stream, stored.data(), layers.memory[copy].data(),
                     stored.size()));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, place.stream));
  std::vector<float> router(shape.experts * shape.hidden);
  Widen(stored.data(), place.weights_dtype, static_cast<int64_t>(router.size()), router.data());
  const float scale = std::sqrt(static_cast<float>(shape.hidden) / static_cast<float>(shape.top_k));
  std::vector<float> values(x.rows * x.cols);
  for (int64_t token = 0; token < x.rows; ++token) {
    for (int64_t k = 0; k < shape.top_k; ++k) {
      const int64_t expert = deck[(first + token * shape.top_k + k) % shape.experts];
      for (int64_t i = 0; i < x.cols; ++i) {
        values[token * x.cols + i] += scale * router[expert * x.cols + i];
      }
    }
  }
  std::vector<std::byte> narrowed(values.size() * (moert_dtype_bits(place.dtype) / 8));
  Narrow(values.data(), static_cast<int64_t>(values.size()), place.dtype, narrowed.data());
  MOERT_CLI_TRY(Call(moert_stream_copy, place.stream, x.data, narrowed.data(), narrowed.size()));
  return Call(moert_stream_synchronize, place.stream);
}

// Distinct experts in a slot's ids.
Status CountHit(const BenchPlace& place, const LayerSlot& slot, int64_t experts, int64_t* out) {
  const moert_matrix& view = slot.ids.view;
  std::vector<int32_t> ids(view.rows * view.cols);
  MOERT_CLI_TRY(
      Call(moert_stream_copy, place.stream, ids.data(), view.data, ids.size() * sizeof(int32_t)));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, place.stream));
  std::vector<bool> hit(experts);
  for (const int32_t id : ids) hit[id] = true;
  *out = std::count(hit.begin(), hit.end(), true);
  return Status();
}

Status MakeRouterSlot(const BenchPlace& place, const BenchShape& shape, int64_t tokens,
                      RandomFill* fill_weights, RandomFill* fill_x, RouterSlot* slot) {
  MOERT_CLI_TRY(
      slot->weight.Make(place, shape.experts, shape.hidden, place.weights_dtype, fill_weights));
  MOERT_CLI_TRY(slot->x.Make(place, tokens, shape.hidden, place.dtype, fill_x));
  MOERT_CLI_TRY(slot->ids.Make(place, tokens, shape.top_k, MOERT_DTYPE_INT32, nullptr));
  MOERT_CLI_TRY(slot->weights.Make(place, tokens, shape.top_k, MOERT_DTYPE_FLOAT32, nullptr));
  moert_weight weight = MOERT_WEIGHT_INIT;
  weight.role = MOERT_ROLE_ROUTER;
  weight.dtype = place.weights_dtype;
  weight.rows = shape.experts;
  weight.cols = shape.hidden;
  weight.data = slot->weight.view.data;
  moert_routing routing = MOERT_ROUTING_INIT;
  routing.num_experts = static_cast<int32_t>(shape.experts);
  routing.top_k = static_cast<int32_t>(shape.top_k);
  routing.renormalize = MOERT_RENORMALIZE_SUM;
  moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
  desc.flags = MOERT_LAYER_FLAG_BORROW_WEIGHTS;
  desc.dtype = place.dtype;
  desc.num_weights = 1;
  desc.hidden = shape.hidden;
  desc.routing = &routing;
  desc.weights = &weight;
  MOERT_CLI_TRY(Make(slot->router, moert_router_create, place.device, &desc));
  slot->args.x = &slot->x.view;
  slot->args.ids = &slot->ids.view;
  slot->args.weights = &slot->weights.view;
  uint64_t scratch = 0;
  MOERT_CLI_TRY(Call(moert_router_workspace_size, slot->router.get(), &slot->args, &scratch));
  return Call(moert_stream_reserve, place.stream, scratch);
}

Status MakeGateSlot(const BenchPlace& place, int64_t width, moert_gate_kind kind, int64_t tokens,
                    RandomFill* fill, GateSlot* slot) {
  MOERT_CLI_TRY(slot->x.Make(place, tokens, width, place.dtype, fill));
  MOERT_CLI_TRY(slot->out.Make(place, tokens, width, place.dtype, fill));
  slot->args.x = &slot->x.view;
  slot->args.out = &slot->out.view;
  if (kind == MOERT_GATE_KIND_ADD_LINEAR) {
    MOERT_CLI_TRY(slot->h.Make(place, tokens, width, place.dtype, fill));
    MOERT_CLI_TRY(slot->w.Make(place, 1, width, place.dtype, fill));
    slot->args.h = &slot->h.view;
    slot->args.w = &slot->w.view;
    return Status();
  }
  const int64_t gate_width = kind == MOERT_GATE_KIND_MULTIPLY ? width : 1;
  MOERT_CLI_TRY(slot->g.Make(place, tokens, gate_width, place.dtype, fill));
  slot->args.g = &slot->g.view;
  return Status();
}

// Slots for each copy of a layer, where tokens are random: a few, if there is memory for their
// inputs.
int64_t RandomRounds(const BenchPlace& place, int64_t copies, double slot_bytes) {
  const auto affordable =
      static_cast<int64_t>(static_cast<double>(place.memory_bytes) / 8 / slot_bytes);
  return std::max<int64_t>(1, std::min(kLeastSlots, affordable) / copies);
}

// A sigmoid counts as three: exponential, sum, quotient.
BenchCost GateCost(moert_gate_kind kind, double tokens, double width, double element_bytes) {
  switch (kind) {
    case MOERT_GATE_KIND_MULTIPLY:
      return {3 * tokens * width * element_bytes, 4 * tokens * width};
    case MOERT_GATE_KIND_MULTIPLY_ROWS:
      return {(2 * width + 1) * tokens * element_bytes, tokens * (width + 3)};
    case MOERT_GATE_KIND_ADD_ROWS:
      return {(3 * width + 1) * tokens * element_bytes, tokens * (2 * width + 3)};
    default:
      return {(4 * tokens + 1) * width * element_bytes, tokens * (4 * width + 3)};
  }
}

}  // namespace

Status MakeLayerCase(const BenchPlace& place, const LayerSet& layers, int64_t tokens,
                     BenchCase* out) {
  const BenchShape& shape = layers.shape;
  const auto available = static_cast<int64_t>(layers.layers.size());
  const int64_t copies = std::min(available, LayersNeeded(place, layers, tokens));
  const double slot_bytes = static_cast<double>(tokens) *
                            (2 * static_cast<double>(shape.hidden) * ElementBytes(place.dtype) +
                             static_cast<double>(shape.top_k) * sizeof(int32_t));
  const bool deal = DealsExperts(layers, tokens);
  const int64_t rounds = deal ? shape.experts / std::gcd(shape.experts, tokens * shape.top_k)
                              : RandomRounds(place, copies, slot_bytes);
  auto slots = std::make_shared<std::vector<LayerSlot>>(rounds * copies);
  std::vector<int64_t> deck(shape.experts);
  std::iota(deck.begin(), deck.end(), 0);
  std::shuffle(deck.begin(), deck.end(), std::minstd_rand(1));
  RandomFill fill(place.dtype, 1.0f);
  for (int64_t i = 0; i < rounds * copies; ++i) {
    LayerSlot& slot = (*slots)[i];
    slot.layer = layers.layers[i % copies].get();
    MOERT_CLI_TRY(MakeLayerSlot(place, shape, tokens, &fill, &slot));
    if (deal) {
      const int64_t first = i / copies * tokens * shape.top_k;
      MOERT_CLI_TRY(DealTokens(place, layers, i % copies, deck, first, &slot));
    }
  }
  out->slots = static_cast<int64_t>(slots->size());
  out->run = [place, slots](int64_t slot) {
    const LayerSlot& call = (*slots)[slot];
    return Call(moert_layer_forward, call.layer, place.stream, &call.args);
  };
  out->own_workspace = OwnWorkspace(place, slots, [](const LayerSlot& slot, uint64_t* bytes) {
    return Call(moert_layer_workspace_size, slot.layer, &slot.args, bytes);
  });
  out->cost = [place, slots, &layers, tokens, slot_bytes](int64_t slot, BenchCost* cost) {
    int64_t hit = 0;
    MOERT_CLI_TRY(CountHit(place, (*slots)[slot], layers.shape.experts, &hit));
    cost->bytes = layers.fixed_bytes + layers.expert_bytes * static_cast<double>(hit) + slot_bytes;
    cost->flops =
        static_cast<double>(tokens) *
        (layers.token_flops + layers.slot_flops * static_cast<double>(layers.shape.top_k));
    return Status();
  };
  return Status();
}

Status MakeRouterCase(const BenchPlace& place, const BenchShape& shape, int64_t tokens,
                      BenchCase* out) {
  const auto rows = static_cast<double>(tokens);
  const auto hidden = static_cast<double>(shape.hidden);
  const auto experts = static_cast<double>(shape.experts);
  const BenchCost cost = {experts * hidden * ElementBytes(place.weights_dtype) +
                              rows * hidden * ElementBytes(place.dtype) +
                              rows * static_cast<double>(shape.top_k) * 8,
                          2 * rows * experts * hidden};
  auto slots = std::make_shared<std::vector<RouterSlot>>(
      std::max(kLeastSlots, CopiesNeeded(place, cost.bytes, 0)));
  RandomFill fill_weights(place.weights_dtype, std::sqrt(3.0f / static_cast<float>(shape.hidden)));
  RandomFill fill_x(place.dtype, 1.0f);
  for (RouterSlot& slot : *slots) {
    MOERT_CLI_TRY(MakeRouterSlot(place, shape, tokens, &fill_weights, &fill_x, &slot));
  }
  out->slots = static_cast<int64_t>(slots->size());
  out->run = [place, slots](int64_t slot) {
    const RouterSlot& call = (*slots)[slot];
    return Call(moert_router_forward, call.router.get(), place.stream, &call.args);
  };
  out->own_workspace = OwnWorkspace(place, slots, [](const RouterSlot& slot, uint64_t* bytes) {
    return Call(moert_router_workspace_size, slot.router.get(), &slot.args, bytes);
  });
  out->cost = [cost](int64_t, BenchCost* result) {
    *result = cost;
    return Status();
  };
  return Status();
}

Status MakeGateCase(const BenchPlace& place, const BenchShape& shape, moert_gate_kind kind,
                    int64_t tokens, BenchCase* out) {
  const BenchCost cost = GateCost(kind, static_cast<double>(tokens),
                                  static_cast<double>(shape.hidden), ElementBytes(place.dtype));
  auto state = std::make_shared<GateCase>();
  moert_gate_desc desc = MOERT_GATE_DESC_INIT;
  desc.kind = kind;
  desc.dtype = place.dtype;
  desc.width = shape.hidden;
  desc.linear_width = kind == MOERT_GATE_KIND_ADD_LINEAR ? shape.hidden : 0;
  MOERT_CLI_TRY(Make(state->gate, moert_gate_create, place.device, &desc));
  state->slots = std::vector<GateSlot>(CopiesNeeded(place, cost.bytes, 0));
  RandomFill fill(place.dtype, 1.0f);
  for (GateSlot& slot : state->slots) {
    MOERT_CLI_TRY(MakeGateSlot(place, shape.hidden, kind, tokens, &fill, &slot));
  }
  out->slots = static_cast<int64_t>(state->slots.size());
  out->run = [place, state](int64_t slot) {
    return Call(moert_gate_forward, state->gate.get(), place.stream, &state->slots[slot].args);
  };
  out->own_workspace = [] { return Status(); };
  out->cost = [cost](int64_t, BenchCost* result) {
    *result = cost;
    return Status();
  };
  return Status();
}

}  // namespace moert::cli
