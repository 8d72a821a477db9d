// SPDX-License-Identifier: Apache-2.0
// The layers that bench lets take turns: made from a shape, or read from a manifest.
#include <algorithm>
#include <cmath>

#include "cli/bench_case.h"
#include "cli/random_fill.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

// A weight of a shape: `count` matrices (experts) of [rows, cols].
struct ShapeWeight {
  moert_role role;
  int64_t count, rows, cols;

  int64_t elements() const { return count * rows * cols; }
};

std::vector<ShapeWeight> ShapeWeights(const BenchShape& shape) {
  const int64_t hidden = shape.hidden;
  std::vector<ShapeWeight> weights = {
      {MOERT_ROLE_ROUTER, 1, shape.experts, hidden},
      {MOERT_ROLE_EXPERT_GATE, shape.experts, shape.intermediate, hidden},
      {MOERT_ROLE_EXPERT_UP, shape.experts, shape.intermediate, hidden},
      {MOERT_ROLE_EXPERT_DOWN, shape.experts, hidden, shape.intermediate}};
  if (shape.shared != 0) {
    weights.push_back({MOERT_ROLE_SHARED_GATE, 1, shape.shared, hidden});
    weights.push_back({MOERT_ROLE_SHARED_UP, 1, shape.shared, hidden});
    weights.push_back({MOERT_ROLE_SHARED_DOWN, 1, hidden, shape.shared});
  }
  return weights;
}

uint64_t Aligned(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

Status MakeShapeLayer(const BenchPlace& place, const BenchShape& shape, RandomFill& fill,
                      LayerSet* out) {
  const uint64_t element_bytes = moert_dtype_bits(place.weights_dtype) / 8;
  const std::vector<ShapeWeight> shape_weights = ShapeWeights(shape);
  uint64_t bytes = 0;
  for (const ShapeWeight& weight : shape_weights) {
    bytes += Aligned(weight.elements() * element_bytes);
  }
  DeviceMemory memory;
  MOERT_CLI_TRY(DeviceMemory::Allocate(place.device, bytes, &memory));
  auto* next = static_cast<std::byte*>(memory.data());
  std::vector<moert_weight> weights;
  for (const ShapeWeight& from : shape_weights) {
    moert_weight weight = MOERT_WEIGHT_INIT;
    weight.role = from.role;
    weight.dtype = place.weights_dtype;
    weight.rows = from.rows;
    weight.cols = from.cols;
    weight.data = next;
    weights.push_back(weight);
    MOERT_CLI_TRY(fill.Fill(place.stream, next, from.elements()));
    next += Aligned(from.elements() * element_bytes);
  }
  moert_routing routing = MOERT_ROUTING_INIT;
  routing.num_experts = static_cast<int32_t>(shape.experts);
  routing.top_k = static_cast<int32_t>(shape.top_k);
  routing.renormalize = MOERT_RENORMALIZE_SUM;
  moert_layer_desc desc = MOERT_LAYER_DESC_INIT;
  // A GPU runs best on weights it has packed.
  desc.flags = place.on_gpu ? 0 : MOERT_LAYER_FLAG_BORROW_WEIGHTS;
  desc.dtype = place.dtype;
  desc.hidden = shape.hidden;
  desc.intermediate = shape.intermediate;
  desc.shared_intermediate = shape.shared;
  desc.routing = &routing;
  desc.weights = weights.data();
  desc.num_weights = static_cast<uint32_t>(weights.size());
  Layer layer;
  MOERT_CLI_TRY(Make(layer, moert_layer_create, place.device, &desc));
  out->memory.push_back(std::move(memory));
  out->layers.push_back(std::move(layer));
  return Status();
}

int64_t MostLayersNeeded(const BenchPlace& place, const LayerSet& layers,
                         const std::vector<int64_t>& tokens) {
  int64_t most = 1;
  for (const int64_t count : tokens) most = std::max(most, LayersNeeded(place, layers, count));
  return most;
}

void NoteTooFew(const BenchPlace& place, int64_t needed, int64_t have, double bytes_each,
                std::string* note) {
  *note = Format(
      "%lld layers of %s would have to take turns to keep weights out of the caches, "
      "but only %lld fit into %s of free memory",
      static_cast<long long>(needed), Bytes(static_cast<uint64_t>(bytes_each)).c_str(),
      static_cast<long long>(have), Bytes(place.memory_bytes).c_str());
}

bool Alike(const moert_layer_info& a, const moert_layer_info& b) {
  return a.num_experts == b.num_experts && a.top_k == b.top_k && a.hidden == b.hidden &&
         a.intermediate == b.intermediate && a.latent == b.latent &&
         a.shared_intermediate == b.shared_intermediate && a.weight_bytes == b.weight_bytes;
}

double ProductFlops(const moert_activation& activation, int64_t width, int64_t intermediate) {
  const bool gated = (activation.flags & MOERT_ACTIVATION_FLAG_UNGATED) == 0;
  return (gated ? 6.0 : 4.0) * static_cast<double>(width) * static_cast<double>(intermediate);
}

BenchShape ShapeOf(const moert_layer_info& info) {
  return {info.num_experts, info.top_k, info.hidden, info.intermediate, info.shared_intermediate};
}

void CountManifestLayer(const LayerDescription& layer, LayerSet* out) {
  const moert_layer_info& info = layer.info;
  out->shape = ShapeOf(info);
  const auto hidden = static_cast<double>(info.hidden);
  const int64_t width = info.latent != 0 ? info.latent : info.hidden;
  out->slot_flops = ProductFlops(layer.activation, width, info.intermediate);
  out->token_flops = 2 * hidden * info.num_experts + 4 * hidden * static_cast<double>(info.latent) +
                     ProductFlops(layer.shared_activation, info.hidden, info.shared_intermediate);
  for (const moert_weight_info& weight : layer.weights) {
    const double bytes = static_cast<double>(weight.rows) * static_cast<double>(weight.cols) *
                         moert_dtype_bits(weight.dtype) / 8;
    (IsExpertRole(weight.role) ? out->expert_bytes : out->fixed_bytes) += bytes;
  }
  out->layer_bytes = out->fixed_bytes + out->expert_bytes * info.num_experts;
}

Status OpenWithLayers(const BenchPlace& place, const std::string& path, Manifest* manifest,
                      moert_manifest_info* info) {
  MOERT_CLI_TRY(OpenManifest(place.runtime, path, 0, manifest));
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest->get(), info));
  if (info->num_layers > 0) return Status();
  return Status::Format("%s has no MoE layer to run", path.c_str());
}

// Opens the layers like the first one, at most as many as are still wanted.
Status OpenLayers(const BenchPlace& place, const moert_manifest* manifest,
                  const std::vector<uint32_t>& indices, int64_t wanted, LayerSet* out) {
  for (const uint32_t index : indices) {
    if (static_cast<int64_t>(out->layers.size()) >= wanted) break;
    moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
    desc.dtype = place.dtype;
    Layer layer;
    MOERT_CLI_TRY(Make(layer, moert_layer_open, place.device, manifest, index, &desc));
    out->layers.push_back(std::move(layer));
  }
  return Status();
}

}  // namespace

int64_t CopiesNeeded(const BenchPlace& place, double call_bytes, double kept_bytes) {
  const double missing = static_cast<double>(place.rotation_bytes) - kept_bytes;
  return missing < 0 ? 1 : 2 + static_cast<int64_t>(missing / call_bytes);
}

bool DealsExperts(const LayerSet& layers, int64_t tokens) {
  // A sum of top_k random router rows stands out from the other rows if hidden is far above top_k.
  const BenchShape& shape = layers.shape;
  return !layers.memory.empty() && tokens * shape.top_k < shape.experts &&
         16 * shape.top_k <= shape.hidden;
}

int64_t LayersNeeded(const BenchPlace& place, const LayerSet& layers, int64_t tokens) {
  const BenchShape& shape = layers.shape;
  const auto slots = static_cast<double>(tokens * shape.top_k);
  const auto experts = static_cast<double>(shape.experts);
  if (DealsExperts(layers, tokens)) {
    return CopiesNeeded(place, layers.layer_bytes,
                        layers.layer_bytes - layers.fixed_bytes - slots * layers.expert_bytes);
  }
  // Random tokens with as many slots as there are experts hit more than half of them.
  const double hit = slots < experts ? static_cast<double>(shape.top_k) : experts / 2;
  const double inputs = 2 * static_cast<double>(tokens) * static_cast<double>(shape.hidden) *
                        moert_dtype_bits(place.dtype) / 8;
  return CopiesNeeded(place, layers.fixed_bytes + hit * layers.expert_bytes + inputs,
                      layers.expert_bytes);
}

Status MakeShapeLayers(const BenchPlace& place, const BenchShape& shape,
                       const std::vector<int64_t>& tokens, LayerSet* out, std::string* note) {
  out->shape = shape;
  for (const ShapeWeight& weight : ShapeWeights(shape)) {
    const auto matrix = static_cast<double>(weight.rows) * static_cast<double>(weight.cols);
    const double bytes = matrix * moert_dtype_bits(place.weights_dtype) / 8;
    (IsExpertRole(weight.role) ? out->expert_bytes : out->fixed_bytes) += bytes;
    (IsExpertRole(weight.role) ? out->slot_flops : out->token_flops) += 2 * matrix;
  }
  out->layer_bytes = out->fixed_bytes + out->expert_bytes * static_cast<double>(shape.experts);
  const auto fitting =
      static_cast<int64_t>(static_cast<double>(place.memory_bytes) / out->layer_bytes);
  if (fitting < 1) {
    return Status::Format("the shape's weights take %s; up to %s of free memory are accepted",
                          Bytes(static_cast<uint64_t>(out->layer_bytes)).c_str(),
                          Bytes(place.memory_bytes).c_str());
  }
  RandomFill fill(place.weights_dtype, std::sqrt(3.0f / static_cast<float>(shape.hidden)));
  MOERT_CLI_TRY(MakeShapeLayer(place, shape, fill, out));
  const int64_t needed = MostLayersNeeded(place, *out, tokens);
  if (fitting < needed) NoteTooFew(place, needed, fitting, out->layer_bytes, note);
  for (int64_t i = 1; i < std::min(needed, fitting); ++i) {
    MOERT_CLI_TRY(MakeShapeLayer(place, shape, fill, out));
  }
  return Status();
}

Status ReadManifestShape(const BenchPlace& place, const std::string& path, BenchShape* out) {
  Manifest manifest;
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(OpenWithLayers(place, path, &manifest, &info));
  moert_layer_info layer = MOERT_LAYER_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_layer, manifest.get(), 0, &layer));
  *out = ShapeOf(layer);
  return Status();
}

Status MakeManifestLayers(const BenchPlace& place, const std::string& path,
                          const std::vector<int64_t>& tokens, LayerSet* out, std::string* note) {
  Manifest mapped;
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(OpenWithLayers(place, path, &mapped, &info));
  std::vector<uint32_t> alike;
  LayerDescription first;
  MOERT_CLI_TRY(DescribeLayer(mapped.get(), 0, &first));
  for (uint32_t i = 0; i < info.num_layers; ++i) {
    moert_layer_info layer = MOERT_LAYER_INFO_INIT;
    MOERT_CLI_TRY(Call(moert_manifest_layer, mapped.get(), i, &layer));
    if (Alike(first.info, layer)) alike.push_back(i);
  }
  CountManifestLayer(first, out);
  const int64_t needed = MostLayersNeeded(place, *out, tokens);
  const auto per_reading = static_cast<int64_t>(alike.size());
  const auto fitting =
      static_cast<int64_t>(place.memory_bytes / std::max<uint64_t>(1, info.total_bytes));
  if (fitting * per_reading < needed) {
    const int64_t have = std::min(needed, std::max<int64_t>(1, fitting) * per_reading);
    if (have < needed) NoteTooFew(place, needed, have, out->layer_bytes, note);
  }
  if (fitting < 1) return OpenLayers(place, mapped.get(), alike, needed, out);
  // Each reading has memory of its own.
  for (int64_t i = 0; i < fitting && static_cast<int64_t>(out->layers.size()) < needed; ++i) {
    Manifest reading;
    MOERT_CLI_TRY(OpenManifest(place.runtime, path, MOERT_MANIFEST_FLAG_READ, &reading));
    MOERT_CLI_TRY(OpenLayers(place, reading.get(), alike, needed, out));
  }
  return Status();
}

}  // namespace moert::cli
