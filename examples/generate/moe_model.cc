// SPDX-License-Identifier: Apache-2.0
// The calls into moert, in the order a program makes them: runtime, device, stream, manifest,
// layers, then one forward call for each layer and step.
#include "moe_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace {

float WidenBfloat16(uint16_t value) { return std::bit_cast<float>(uint32_t{value} << 16); }

// To nearest, ties to even. Hidden states are finite, so NaN needs no care.
uint16_t NarrowToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

moert::Manifest OpenManifest(moert::Runtime& runtime, const std::string& directory) {
  const std::string path = directory + "/model.moem";
  if (!std::filesystem::exists(path)) {
    moert_pack_desc pack = MOERT_PACK_DESC_INIT;
    pack.directory = directory.c_str();
    moert::Manifest::Pack(runtime, pack);
  }
  return moert::Manifest::Open(runtime, path.c_str());
}

// What a forward call takes; the matrices stay the caller's.
moert_layer_forward_args ForwardArgs(const moert_matrix& x, const moert_matrix& y,
                                     const moert_matrix& counts) {
  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  args.x = &x;
  args.y = &y;
  args.expert_counts = &counts;
  return args;
}

}  // namespace

MoeModel::MoeModel(const std::string& directory, const std::string& device, moert_dtype dtype)
    : runtime_(moert::Runtime::Create()),
      device_(moert::Device::Create(runtime_, device.c_str())),
      stream_(moert::Stream::Create(device_)),
      manifest_(OpenManifest(runtime_, directory)),
      device_info_(device_.Info()) {
  moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
  desc.dtype = dtype;
  const int32_t num_layers = static_cast<int32_t>(manifest_.Info().num_layers);
  for (int32_t number = 0; number < num_layers; ++number) {
    moert::Layer layer = moert::Layer::Open(device_, manifest_, manifest_.FindLayer(number), &desc);
    const moert_layer_info info = layer.Info();
    layers_.push_back({std::move(layer), info, std::vector<int64_t>(info.num_experts)});
  }
}

std::vector<float> MoeModel::Tensor(const std::string& name) const {
  const uint64_t index = manifest_.FindTensor(name.c_str());
  const moert_tensor_info info = manifest_.Tensor(index);
  const void* data = manifest_.TensorData(index);
  if (info.dtype == MOERT_DTYPE_FLOAT32) {
    std::vector<float> values(info.bytes / sizeof(float));
    std::memcpy(values.data(), data, info.bytes);
    return values;
  }
  if (info.dtype == MOERT_DTYPE_BFLOAT16) {
    std::vector<uint16_t> stored(info.bytes / sizeof(uint16_t));
    std::memcpy(stored.data(), data, info.bytes);  // It may lie unaligned.
    std::vector<float> values(stored.size());
    std::ranges::transform(stored, values.begin(), WidenBfloat16);
    return values;
  }
  throw std::runtime_error(name + " is stored as " + moert_dtype_name(info.dtype) +
                           "; this example reads F32 and BF16");
}

MoeModel::Arguments MoeModel::MakeArguments(const moert_layer_info& info, int64_t tokens) const {
  return {moert::MakeMatrix(x_.data(), tokens, info.hidden, info.dtype),
          moert::MakeMatrix(y_.data(), tokens, info.hidden, info.dtype),
          moert::MakeMatrix(counts_.data(), 1, info.num_experts, MOERT_DTYPE_INT32)};
}

// Grows memory and the stream's scratch, so that the calls after this one allocate nothing.
void MoeModel::ReserveTokens(int64_t tokens) {
  if (tokens <= capacity_) return;
  int64_t hidden = 0, experts = 0;
  uint64_t scratch = 0;
  for (const Layer& layer : layers_) {
    const Arguments matrices = MakeArguments(layer.info, tokens);
    const auto args = ForwardArgs(matrices.x, matrices.y, matrices.counts);
    scratch = std::max(scratch, layer.layer.WorkspaceSize(args));
    hidden = std::max(hidden, layer.info.hidden);
    experts = std::max<int64_t>(experts, layer.info.num_experts);
  }
  stream_.Reserve(scratch);
  x_ = moert::Memory::OnDevice(device_, tokens * hidden * sizeof(float));
  y_ = moert::Memory::OnDevice(device_, tokens * hidden * sizeof(float));
  counts_ = moert::Memory::OnDevice(device_, experts * sizeof(int32_t));
  narrow_.resize(tokens * hidden);
  call_counts_.resize(experts);
  capacity_ = tokens;
}

void MoeModel::RunLayer(int number, const float* x, int64_t tokens, float* y) {
  ReserveTokens(tokens);
  Layer& layer = layers_[number];
  const int64_t elements = tokens * layer.info.hidden;
  const bool narrow = layer.info.dtype == MOERT_DTYPE_BFLOAT16;
  const uint64_t bytes = elements * (narrow ? sizeof(uint16_t) : sizeof(float));
  const void* source = x;
  void* destination = y;
  if (narrow) {
    std::transform(x, x + elements, narrow_.begin(), NarrowToBfloat16);
    source = destination = narrow_.data();
  }

  const Arguments matrices = MakeArguments(layer.info, tokens);
  stream_.Copy(x_.data(), source, bytes);
  layer.layer.Forward(stream_, ForwardArgs(matrices.x, matrices.y, matrices.counts));
  stream_.Copy(destination, y_.data(), bytes);
  stream_.Copy(call_counts_.data(), counts_.data(), layer.counts.size() * sizeof(int32_t));
  stream_.Synchronize();

  if (narrow) std::transform(narrow_.begin(), narrow_.begin() + elements, y, WidenBfloat16);
  for (size_t e = 0; e < layer.counts.size(); ++e) layer.counts[e] += call_counts_[e];
}
