// SPDX-License-Identifier: Apache-2.0
// moert forward: one layer of a manifest on one tensor, with y and the routing written to a file.
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/convert.h"
#include "cli/description.h"
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

struct ForwardCall {
  Device device;
  Layer layer;
  Stream stream;
  moert_dtype dtype = MOERT_DTYPE_FLOAT32;
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
};

Status Open(const ForwardOptions& options, moert_runtime* runtime, const moert_manifest* manifest,
            uint32_t index, ForwardCall* call) {
  MOERT_CLI_TRY(Make(call->device, moert_device_create, runtime, options.device.c_str(), nullptr));
  moert_layer_open_desc desc = MOERT_LAYER_OPEN_DESC_INIT;
  desc.dtype = call->dtype;
  MOERT_CLI_TRY(Make(call->layer, moert_layer_open, call->device.get(), manifest, index, &desc));
  MOERT_CLI_TRY(Make(call->stream, moert_stream_create, call->device.get(), nullptr));
  return Call(moert_layer_get_info, call->layer.get(), &call->info);
}

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

Status Run(const ForwardCall& call, const std::vector<float>& input, std::vector<Tensor>* out) {
  const moert_layer_info& info = call.info;
  const int64_t tokens = static_cast<int64_t>(input.size()) / info.hidden;
  const moert_device* device = call.device.get();
  moert_stream* stream = call.stream.get();
  DeviceMatrix x, y, ids, weights, logits;
  MOERT_CLI_TRY(Allocate(device, tokens, info.hidden, call.dtype, &x));
  MOERT_CLI_TRY(Allocate(device, tokens, info.hidden, call.dtype, &y));
  MOERT_CLI_TRY(Allocate(device, tokens, info.top_k, MOERT_DTYPE_INT32, &ids));
  MOERT_CLI_TRY(Allocate(device, tokens, info.top_k, MOERT_DTYPE_FLOAT32, &weights));
  MOERT_CLI_TRY(Allocate(device, tokens, info.num_experts, MOERT_DTYPE_FLOAT32, &logits));
  std::vector<std::byte> narrowed(x.bytes());
  Narrow(input.data(), static_cast<int64_t>(input.size()), call.dtype, narrowed.data());
  MOERT_CLI_TRY(Call(moert_stream_copy, stream, x.view.data, narrowed.data(), x.bytes()));

  moert_layer_forward_args args = MOERT_LAYER_FORWARD_ARGS_INIT;
  args.x = &x.view;
  args.y = &y.view;
  args.ids = &ids.view;
  args.weights = &weights.view;
  args.logits = &logits.view;
  uint64_t scratch = 0;
  MOERT_CLI_TRY(Call(moert_layer_workspace_size, call.layer.get(), &args, &scratch));
  MOERT_CLI_TRY(Call(moert_stream_reserve, stream, scratch));
  MOERT_CLI_TRY(Call(moert_layer_forward, call.layer.get(), stream, &args));
  MOERT_CLI_TRY(Call(moert_stream_synchronize, stream));

  out->resize(4);
  MOERT_CLI_TRY(ReadBack(stream, "y", y, &(*out)[0]));
  MOERT_CLI_TRY(ReadBack(stream, "ids", ids, &(*out)[1]));
  MOERT_CLI_TRY(ReadBack(stream, "weights", weights, &(*out)[2]));
  return ReadBack(stream, "logits", logits, &(*out)[3]);
}

}  // namespace

Status RunForward(const ForwardOptions& options) {
  ForwardCall call;
  int64_t model_layer = 0;
  MOERT_CLI_TRY(
      ParseInteger("--layer", options.layer, 0, std::numeric_limits<int32_t>::max(), &model_layer));
  MOERT_CLI_TRY(ParseComputeDtype("--dtype", options.dtype, &call.dtype));
  Runtime runtime;
  MOERT_CLI_TRY(Make(runtime, moert_runtime_create, nullptr));
  Manifest manifest;
  MOERT_CLI_TRY(OpenManifest(runtime.get(), options.manifest, 0, &manifest));
  uint32_t index = 0;
  MOERT_CLI_TRY(
      Call(moert_manifest_find_layer, manifest.get(), static_cast<int32_t>(model_layer), &index));
  moert_layer_info info = MOERT_LAYER_INFO_INIT;
  MOERT_CLI_TRY(Call(moert_manifest_layer, manifest.get(), index, &info));
  std::vector<float> input;
  MOERT_CLI_TRY(ReadInput(options.input, info.hidden, &input));
  MOERT_CLI_TRY(Open(options, runtime.get(), manifest.get(), index, &call));
  std::vector<Tensor> outputs;
  MOERT_CLI_TRY(Run(call, input, &outputs));
  return WriteTensors(options.output, outputs);
}

}  // namespace moert::cli
