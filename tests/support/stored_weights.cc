// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <numeric>

#include "layers.h"

namespace moert::test {
namespace {

Mat Transposed(const Mat& in) {
  Mat out(in.cols, in.rows);
  for (int64_t r = 0; r < in.rows; ++r) {
    for (int64_t c = 0; c < in.cols; ++c) out(c, r) = in(r, c);
  }
  return out;
}

enum class Along { kRows, kCols };

// Gate and up packed along the rows, or, for biases, along the one row.
Mat Packed(const Mat& gate, const Mat& up, moert_packing packing, Along along) {
  const bool bias = along == Along::kCols;
  Mat out = bias ? Mat(1, 2 * gate.cols) : Mat(2 * gate.rows, gate.cols);
  const int64_t outputs = bias ? gate.cols : gate.rows;
  const int64_t width = bias ? 1 : gate.cols;
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t gate_at = packing == MOERT_PACKING_INTERLEAVED ? 2 * o : o;
    const int64_t up_at = packing == MOERT_PACKING_INTERLEAVED ? 2 * o + 1 : outputs + o;
    std::copy_n(gate.v.begin() + o * width, width, out.v.begin() + gate_at * width);
    std::copy_n(up.v.begin() + o * width, width, out.v.begin() + up_at * width);
  }
  return out;
}

bool IsVector(moert_role role) {
  switch (role) {
    case MOERT_ROLE_ROUTER_BIAS:
    case MOERT_ROLE_SELECTION_BIAS:
    case MOERT_ROLE_ROUTER_INPUT_SCALE:
    case MOERT_ROLE_EXPERT_SCALE:
    case MOERT_ROLE_EXPERT_GATE_BIAS:
    case MOERT_ROLE_EXPERT_UP_BIAS:
    case MOERT_ROLE_EXPERT_GATE_UP_BIAS:
    case MOERT_ROLE_EXPERT_DOWN_BIAS:
    case MOERT_ROLE_SHARED_EXPERT_GATE:
      return true;
    default:
      return false;
  }
}

// Matrices `stride` elements apart, rows padded; padding is NaN.
std::vector<uint8_t> Stored(const std::vector<Mat>& matrices, moert_dtype dtype, int64_t row_stride,
                            int64_t stride, int64_t byte_offset) {
  const auto count = static_cast<int64_t>(matrices.size());
  const size_t size = DtypeBytes(dtype);
  std::vector<uint8_t> out(byte_offset + static_cast<size_t>(count * stride) * size, 0xff);
  for (int64_t m = 0; m < count; ++m) {
    for (int64_t r = 0; r < matrices[m].rows; ++r) {
      for (int64_t c = 0; c < matrices[m].cols; ++c) {
        const int64_t at = m * stride + r * row_stride + c;
        Encode(dtype, matrices[m](r, c), out.data() + byte_offset + at * size);
      }
    }
  }
  return out;
}

}  // namespace

const void* StoredWeights::Keep(Device& device, std::vector<uint8_t> bytes,
                                const WeightStyle& style) {
  if (style.on_device) {
    on_device_.emplace_back(device, bytes.size());
    on_device_.back().Upload(bytes.data(), bytes.size());
    return static_cast<const uint8_t*>(on_device_.back().data()) + style.byte_offset;
  }
  host_.push_back(std::move(bytes));
  return host_.back().data() + style.byte_offset;
}

void StoredWeights::AddExperts(Device& device, moert_role role, const std::vector<Mat>& given,
                               moert_dtype dtype, const WeightStyle& style) {
  std::vector<Mat> matrices = given;
  moert_weight weight = MOERT_WEIGHT_INIT;
  weight.role = role;
  weight.dtype = dtype;
  weight.packing = style.packing;
  if (!IsVector(role)) weight.orientation = style.orientation;
  if (weight.orientation == MOERT_ORIENTATION_IN_OUT) {
    std::transform(matrices.begin(), matrices.end(), matrices.begin(), Transposed);
  }
  weight.rows = matrices[0].rows;
  weight.cols = matrices[0].cols;
  const int64_t row_stride = weight.cols + style.row_padding;
  const int64_t stride = weight.rows * row_stride + style.expert_padding;
  // Zero where the default says the same, so that both spellings are used.
  if (style.row_padding != 0) weight.row_stride = row_stride;
  if (style.expert_padding != 0) weight.expert_stride = stride;
  if (style.one_tensor_each) {
    pointers_.emplace_back();
    for (const Mat& matrix : matrices) {
      pointers_.back().push_back(
          Keep(device, Stored({matrix}, dtype, row_stride, stride, style.byte_offset), style));
    }
    weight.experts = pointers_.back().data();
  } else {
    weight.data =
        Keep(device, Stored(matrices, dtype, row_stride, stride, style.byte_offset), style);
  }
  list_.push_back(weight);
}

void StoredWeights::AddOne(Device& device, moert_role role, const Mat& matrix, moert_dtype dtype,
                           const WeightStyle& style) {
  if (matrix.empty()) return;
  WeightStyle single = style;
  single.one_tensor_each = false;
  AddExperts(device, role, {matrix}, dtype, single);
}

void StoredWeights::AddRouter(Device& device, const RefRouter& router, const WeightStyle& style) {
  const moert_dtype dtype = style.router_dtype;
  AddOne(device, MOERT_ROLE_ROUTER, router.weight, dtype, style);
  AddOne(device, MOERT_ROLE_ROUTER_BIAS, router.bias, dtype, style);
  AddOne(device, MOERT_ROLE_SELECTION_BIAS, router.selection_bias, dtype, style);
  AddOne(device, MOERT_ROLE_ROUTER_INPUT_SCALE, router.input_scale, dtype, style);
  AddOne(device, MOERT_ROLE_EXPERT_SCALE, router.expert_scale, dtype, style);
}

void StoredWeights::AddLayer(Device& device, const RefLayer& layer,
                             const std::vector<int32_t>& experts, const WeightStyle& style) {
  if (!layer.router.weight.empty()) AddRouter(device, layer.router, style);
  auto each = [&](moert_role role, moert_dtype dtype, auto&& part) {
    std::vector<Mat> matrices;
    for (int32_t id : experts) matrices.push_back(part(layer.experts[id]));
    if (!matrices[0].empty()) AddExperts(device, role, matrices, dtype, style);
  };
  auto member = [](Mat RefExpert::*part) { return [part](const RefExpert& e) { return e.*part; }; };
  auto packed = [&](Mat RefExpert::*gate, Mat RefExpert::*up, Along along) {
    return [gate, up, along, &style](const RefExpert& e) {
      return (e.*gate).empty() ? Mat() : Packed(e.*gate, e.*up, style.packing, along);
    };
  };
  const RefExpert& first = layer.experts[experts[0]];
  if (style.packed && !first.gate.empty()) {
    each(MOERT_ROLE_EXPERT_GATE_UP, style.dtype,
         packed(&RefExpert::gate, &RefExpert::up, Along::kRows));
    each(MOERT_ROLE_EXPERT_GATE_UP_BIAS, style.router_dtype,
         packed(&RefExpert::gate_bias, &RefExpert::up_bias, Along::kCols));
  } else {
    each(MOERT_ROLE_EXPERT_GATE, style.dtype, member(&RefExpert::gate));
    each(MOERT_ROLE_EXPERT_UP, style.dtype, member(&RefExpert::up));
    each(MOERT_ROLE_EXPERT_GATE_BIAS, style.router_dtype, member(&RefExpert::gate_bias));
    each(MOERT_ROLE_EXPERT_UP_BIAS, style.router_dtype, member(&RefExpert::up_bias));
  }
  each(MOERT_ROLE_EXPERT_DOWN, style.dtype, member(&RefExpert::down));
  each(MOERT_ROLE_EXPERT_DOWN_BIAS, style.router_dtype, member(&RefExpert::down_bias));
  AddOne(device, MOERT_ROLE_LATENT_IN, layer.latent_in, style.dtype, style);
  AddOne(device, MOERT_ROLE_LATENT_OUT, layer.latent_out, style.dtype, style);
  if (layer.shared_intermediate == 0) return;
  if (style.packed && !layer.shared.gate.empty()) {
    AddOne(device, MOERT_ROLE_SHARED_GATE_UP,
           Packed(layer.shared.gate, layer.shared.up, style.packing, Along::kRows), style.dtype,
           style);
  } else {
    AddOne(device, MOERT_ROLE_SHARED_GATE, layer.shared.gate, style.dtype, style);
    AddOne(device, MOERT_ROLE_SHARED_UP, layer.shared.up, style.dtype, style);
  }
  AddOne(device, MOERT_ROLE_SHARED_DOWN, layer.shared.down, style.dtype, style);
  AddOne(device, MOERT_ROLE_SHARED_EXPERT_GATE, layer.shared_gate, style.dtype, style);
}

LayerSource::LayerSource(Device& device, const RefLayer& layer, const WeightStyle& style)
    : routing(layer.router.routing),
      activation(layer.activation),
      shared_activation(layer.shared_activation) {
  for (int32_t e = 0; e < layer.num_experts(); ++e) {
    if (layer.held.empty() || layer.held[e]) local_experts.push_back(e);
  }
  weights.AddLayer(device, layer, local_experts, style);
  desc.dtype = layer.dtype;
  desc.weight_application = layer.weight_application;
  desc.hidden = layer.hidden;
  desc.intermediate = layer.intermediate;
  desc.latent = layer.latent;
  desc.shared_intermediate = layer.shared_intermediate;
  desc.routing = &routing;
  desc.activation = &activation;
  desc.shared_activation = &shared_activation;
  desc.weights = weights.list().data();
  desc.num_weights = static_cast<uint32_t>(weights.list().size());
  if (!layer.held.empty()) {
    desc.num_local_experts = static_cast<uint32_t>(local_experts.size());
    desc.local_experts = local_experts.data();
  }
}

Layer LayerSource::Create(Device& device) {
  Layer out;
  Error error;
  const moert_status status = moert_layer_create(device.handle, &desc, out.out(), &error);
  if (status == MOERT_STATUS_UNSUPPORTED) throw Skip{error.message};
  INFO("moert_layer_create: ", error.message);
  REQUIRE(status == MOERT_STATUS_OK);
  return out;
}

Layer MakeLayer(Device& device, const RefLayer& layer, const WeightStyle& style) {
  return LayerSource(device, layer, style).Create(device);
}

Router MakeRouter(Device& device, const RefRouter& router, moert_dtype dtype, int64_t hidden,
                  const WeightStyle& style) {
  StoredWeights weights;
  weights.AddRouter(device, router, style);
  moert_router_desc desc = MOERT_ROUTER_DESC_INIT;
  desc.dtype = dtype;
  desc.hidden = hidden;
  desc.routing = &router.routing;
  desc.weights = weights.list().data();
  desc.num_weights = static_cast<uint32_t>(weights.list().size());
  Router out;
  Error error;
  const moert_status status = moert_router_create(device.handle, &desc, out.out(), &error);
  if (status == MOERT_STATUS_UNSUPPORTED) throw Skip{error.message};
  INFO("moert_router_create: ", error.message);
  REQUIRE(status == MOERT_STATUS_OK);
  return out;
}

}  // namespace moert::test
