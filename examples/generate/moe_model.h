// SPDX-License-Identifier: Apache-2.0
// What moert does for the text generator: it opens a checkpoint, hands out its tensors and runs its
// MoE layers on a device. A failure is thrown as moert::Error with the library's message.
#ifndef MOERT_EXAMPLES_GENERATE_MOE_MODEL_H_
#define MOERT_EXAMPLES_GENERATE_MOE_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "moert/moert.hpp"

class MoeModel {
 public:
  // `directory` is a Hugging Face checkpoint. Its manifest is directory/model.moem, written if
  // absent. `device` is what moert_device_create takes; `dtype`, FLOAT32 or BFLOAT16, what layers
  // compute in.
  MoeModel(const std::string& directory, const std::string& device, moert_dtype dtype);

  // A tensor of the checkpoint, widened to float32.
  std::vector<float> Tensor(const std::string& name) const;

  // y = layer(x), both [tokens, hidden] in host memory. `layer` is the model's own number.
  void RunLayer(int layer, const float* x, int64_t tokens, float* y);

  int num_layers() const { return static_cast<int>(layers_.size()); }
  const moert_device_info& device_info() const { return device_info_; }
  // How many tokens each expert of a layer has served so far.
  const std::vector<int64_t>& expert_counts(int layer) const { return layers_[layer].counts; }

 private:
  struct Layer {
    moert::Layer layer;
    moert_layer_info info;
    std::vector<int64_t> counts;
  };
  // Matrices in the device's memory.
  struct Arguments {
    moert_matrix x, y, counts;
  };

  void ReserveTokens(int64_t tokens);
  Arguments MakeArguments(const moert_layer_info& info, int64_t tokens) const;

  moert::Runtime runtime_;
  moert::Device device_;
  moert::Stream stream_;
  moert::Manifest manifest_;
  moert_device_info device_info_;
  std::vector<Layer> layers_;

  int64_t capacity_ = 0;  // Tokens that the memory below and the stream's scratch have room for.
  moert::Memory x_, y_, counts_;
  std::vector<uint16_t> narrow_;      // x or y in bfloat16, in host memory.
  std::vector<int32_t> call_counts_;  // One call's counts, in host memory.
};

#endif  // MOERT_EXAMPLES_GENERATE_MOE_MODEL_H_
