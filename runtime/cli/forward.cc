// SPDX-License-Identifier: Apache-2.0
// moert forward: one layer of a manifest on one tensor, with y and the routing written to a file.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/commands.h"
#include "cli/convert.h"
#include "cli/description.h"
#include "cli/load_plot.h"
#include "cli/safetensors.h"
#include "cli/text.h"

namespace moert::cli {
namespace {

// A matrix of the device that the host can copy from and to.
struct DeviceMatrix {
  DeviceMemory memory;
  moert_matrix view = MOERT_MATRIX_INIT;

  uint64_t bytes() const { return view.rows * view.cols * (moert_dtype_bits(view.dtype) / 8); }
};

Status Allocate(const moert_device* device, int64_t rows, int64_t cols, moert_dtype dtype,
                DeviceMatrix* out) {
  moert_matrix_init(&out->view, nullptr, rows, cols, dtype);
  MOERT_CLI_TRY(DeviceMemory::Allocate(device, out->bytes(), &out->memory));
  out->view.data = out->memory.data();
  return Status();
}

// FILE.safetensors:TENSOR; both may contain colons.
Status SplitInput(const std::string& input, std::string* path, std::string* name) {
  constexpr std::string_view kSuffix = ".safetensors:";
  size_t colon = input.find(kSuffix);
  colon = colon == std::string::npos ? input.find(':') : colon + kSuffix.size() - 1;
  if (colon == std::string::npos || colon == 0 || colon + 1 == input.size()) {
    return Status::Format("--input \"%s\" is not of the form X.safetensors:TENSOR", input.c_str());
  }
  *path = input.substr(0, colon);
  *name = input.substr(colon + 1);
  return Status();
}

Status ReadInput(const std::string& input, int64_t hidden, std::vector<float>* out) {
  std::string path;
  std::string name;
  MOERT_CLI_TRY(SplitInput(input, &path, &name));
  Tensor tensor;
  MOERT_CLI_TRY(ReadTensor(path, name, &tensor));
  if (!IsFloatDtype(tensor.dtype)) {
    return Status::Format("tensor \"%s\" is %s; F64, F32, F16, BF16 and F8 are accepted",
                          name.c_str(), moert_dtype_name(tensor.dtype));
  }
  if (tensor.shape.size() != 2 || tensor.shape[1] != hidden) {
    std::string shape;
    for (const int64_t extent : tensor.shape) {
      shape += Format("%s%lld", shape.empty() ? "" : ", ", static_cast<long long>(extent));
    }
    return Status::Format("tensor \"%s\" has shape [%s]; the layer takes [tokens, %lld]",
                          name.c_str(), shape.c_str(), static_cast<long long>(hidden));
  }
  out->resize(tensor.shape[0] * hidden);
  Widen(tensor.data.data(), tensor.dtype, static_cast<int64_t>(out->size()), out->data());
  return Status();
}

// What every layer's call shares.
struct ForwardContext {
  const moert_manifest* manifest = nullptr;
  moert_device* device = nullptr;
  moert_stream* stream = nullptr;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
};

// Copies an output back, as float32 if it is of a compute dtype.
Status ReadBack(moert_stream* stream, const char* name, const DeviceMatrix& matrix, Tensor* out) {
  std::vector<std::byte> data(matrix.bytes());
  MOERT_CLI_TRY(Call(moert_stream_copy, stream, data.data(), matrix.view.data, data.size()));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, stream));
  out->name = name;
  out->dtype = matrix.view.dtype;
  out->shape = {matrix.view.rows, matrix.view.cols};
  if (out->dtype == MOERT_DTYPE_INT32 || out->dtype == MOERT_DTYPE_FLOAT32) {
    out->data = std::move(data);
    return Status();
  }
  const int64_t count = matrix.view.rows * matrix.view.cols;
  out->data.resize(count * sizeof(float));
  Widen(data.data(), out->dtype, count, reinterpret_cast<float*>(out->data.data()));
  out->dtype = MOERT_DTYPE_FLOAT32;
  return Status();
}

// Runs a layer; `out` gets y, ids, weights and logits.
Status RunLayer(const ForwardContext& context, const moert_layer* layer,
                const std::vector<float>& input, std::vector<Tensor>* out) {
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_layer_get_info, layer, &info));
  const int64_t tokens = static_cast<int64_t>(input.size()) / info.hidden;
  const moert_device* device = context.device;
  moert_stream* stream = context.stream;
  DeviceMatrix x, y, ids, weights, logits;
  MOERT_CLI_TRY(Allocate(device, tokens, info.hidden, context.dtype, &x));
  MOERT_CLI_TRY(Allocate(device, tokens, info.hidden, context.dtype, &y));
  MOERT_CLI_TRY(Allocate(device, tokens, info.top_k, MOERT_DTYPE_INT32, &ids));
  MOERT_CLI_TRY(Allocate(device, tokens, info.top_k, MOERT_DTYPE_FLOAT32, &weights));
  MOERT_CLI_TRY(Allocate(device, tokens, info.num_experts, MOERT_DTYPE_FLOAT32, &logits));
  std::vector<std::byte> narrowed(x.bytes());
  Narrow(input.data(), static_cast<int64_t>(input.size()), context.dtype, narrowed.data());
  MOERT_CLI_TRY(Call(moert_stream_copy, stream, x.view.data, narrowed.data(), x.bytes()));

  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  args.x = &x.view;
  args.y = &y.view;
  args.ids = &ids.view;
  args.weights = &weights.view;
  args.logits = &logits.view;
  uint64_t scratch = 0;
  MOERT_CLI_TRY(Call(moert_layer_workspace_size, layer, &args, &scratch));
  MOERT_CLI_TRY(Call(moert_stream_reserve, stream, scratch));
  MOERT_CLI_TRY(Call(moert_layer_forward, layer, stream, &args));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, stream));

  out->resize(4);
  MOERT_CLI_TRY(ReadBack(stream, "y", y, &(*out)[0]));
  MOERT_CLI_TRY(ReadBack(stream, "ids", ids, &(*out)[1]));
  MOERT_CLI_TRY(ReadBack(stream, "weights", weights, &(*out)[2]));
  return ReadBack(stream, "logits", logits, &(*out)[3]);
}

// Indices in the manifest, from "3", "0,2" or "all".
Status SelectLayers(const moert_manifest* manifest, const std::string& text,
                    std::vector<uint32_t>* out) {
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest, &info));
  if (info.num_layers == 0) return Status::Failure("the manifest has no MoE layer to run");
  if (text == "all") {
    out->resize(info.num_layers);
    std::iota(out->begin(), out->end(), 0);
    return Status();
  }
  std::vector<int64_t> numbers;
  MOERT_CLI_TRY(ParseIntegers("--layer", text, 0, std::numeric_limits<int32_t>::max(), &numbers));
  for (const int64_t number : numbers) {
    uint32_t index = 0;
    MOERT_CLI_TRY(Call(moert_manifest_find_layer, manifest, static_cast<int32_t>(number), &index));
    if (std::find(out->begin(), out->end(), index) != out->end()) {
      return Status::Format("--layer names %lld twice", static_cast<long long>(number));
    }
    out->push_back(index);
  }
  return Status();
}

// Puts the layer's number where {} stands.
std::string InputOf(std::string input, int32_t layer) {
  const std::string number = Format("%d", layer);
  for (size_t at = input.find("{}"); at != std::string::npos; at = input.find("{}", at)) {
    input.replace(at, 2, number);
    at += number.size();
  }
  return input;
}

LayerLoad CountLoad(const moert_layer_info& info, const Tensor& ids) {
  LayerLoad load = {info.model_layer, std::vector<int64_t>(info.num_experts)};
  const auto* begin = reinterpret_cast<const int32_t*>(ids.data.data());
  const size_t count = ids.data.size() / sizeof(int32_t);
  for (const int32_t id : std::span(begin, count)) ++load.counts[id];
  return load;
}

// Runs the index-th layer and adds what it gave. With several layers, tensors are named "N.y".
Status RunIndex(const ForwardOptions& options, const ForwardContext& context, uint32_t index,
                bool several, std::vector<Tensor>* tensors, std::vector<LayerLoad>* loads) {
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_layer, context.manifest, index, &info));
  std::vector<float> input;
  MOERT_CLI_TRY(ReadInput(InputOf(options.input, info.model_layer), info.hidden, &input));
  moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
  desc.dtype = context.dtype;
  Layer layer;
  MOERT_CLI_TRY(Make(layer, moert_layer_open, context.device, context.manifest, index, &desc));
  std::vector<Tensor> outputs;
  MOERT_CLI_TRY(RunLayer(context, layer.get(), input, &outputs));
  loads->push_back(CountLoad(info, outputs[1]));
  for (Tensor& tensor : outputs) {
    if (several) tensor.name = Format("%d.%s", info.model_layer, tensor.name.c_str());
    tensors->push_back(std::move(tensor));
  }
  return Status();
}

// An output must not replace what the call reads: the manifest, its files beside it, the inputs.
Status CheckOutputs(const ForwardOptions& options, const moert_manifest* manifest,
                    const std::vector<uint32_t>& indices) {
  std::vector<std::filesystem::path> read = {options.manifest};
  for (const uint32_t index : indices) {
    moert_layer_info layer = MOERT_LAYER_INFO_INIT;
    MOERT_CLI_TRY(Call(moert_manifest_layer, manifest, index, &layer));
    std::string input, tensor;
    MOERT_CLI_TRY(SplitInput(InputOf(options.input, layer.model_layer), &input, &tensor));
    read.emplace_back(input);
  }
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest, &info));
  for (uint32_t i = 0; i < info.num_files; ++i) {
    moert_file_info file = MOERT_FILE_INFO_INIT;
    MOERT_CLI_TRY(Call(moert_manifest_file, manifest, i, &file));
    read.push_back(read[0].parent_path() / file.path);
  }
  for (const std::string& output : {options.output, options.load}) {
    for (const std::filesystem::path& path : read) {
      std::error_code absent;
      if (output.empty() || !std::filesystem::equivalent(output, path, absent)) continue;
      return Status::Format("output \"%s\" is \"%s\", which the call reads", output.c_str(),
                            path.c_str());
    }
  }
  return Status();
}

}  // namespace

Status RunForward(const ForwardOptions& options) {
  ForwardContext context;
  MOERT_CLI_TRY(ParseComputeDtype("--dtype", options.dtype, &context.dtype));
  if (options.output.empty() && options.load.empty()) {
    return Status::Failure("forward has nothing to write: give --output, --load or both");
  }
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, nullptr));
  Manifest manifest;
  MOERT_CLI_TRY(OpenManifest(runtime.get(), options.manifest, 0, &manifest));
  std::vector<uint32_t> indices;
  MOERT_CLI_TRY(SelectLayers(manifest.get(), options.layers, &indices));
  if (indices.size() > 1 && options.input.find("{}") == std::string::npos) {
    return Status::Format("--input \"%s\" has no {} for the number of each of the %zu layers",
                          options.input.c_str(), indices.size());
  }
  MOERT_CLI_TRY(CheckOutputs(options, manifest.get(), indices));
  Device device;
  Stream stream;
  MOERT_CLI_TRY(Make(device, moert_device_create, runtime.get(), options.device.c_str(), nullptr));
  MOERT_CLI_TRY(Make(stream, moert_stream_create, device.get(), nullptr));
  context.manifest = manifest.get();
  context.device = device.get();
  context.stream = stream.get();
  std::vector<Tensor> tensors;
  std::vector<LayerLoad> loads;
  for (const uint32_t index : indices) {
    MOERT_CLI_TRY(RunIndex(options, context, index, indices.size() > 1, &tensors, &loads));
  }
  if (!options.output.empty()) MOERT_CLI_TRY(WriteTensors(options.output, tensors));
  if (options.load.empty()) return Status();
  moert_manifest_info info = MOERT_MANIFEST_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_get_info, manifest.get(), &info));
  const int64_t tokens = tensors[0].shape[0];
  const std::string title = Format("%s, %lld token%s, each chose %lld experts a layer",
                                   info.model_type, static_cast<long long>(tokens), Plural(tokens),
                                   static_cast<long long>(tensors[1].shape[1]));
  return WriteLoadPlot(options.load, title, loads);
}

}  // namespace moert::cli
