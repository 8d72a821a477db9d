// SPDX-License-Identifier: Apache-2.0
// The transformer around the MoE layers. Loops are plain: each is a dot product or a sum over
// contiguous floats, which the compiler vectorises at -O3.
#include "transformer.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace {

// Sixteen independent sums, so that the compiler may use vector instructions without reordering.
float Dot(const float* a, const float* b, int64_t n) {
  constexpr int64_t kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) sums[j] += a[i + j] * b[i + j];
  }
  float total = 0;
  for (; i < n; ++i) total += a[i] * b[i];
  for (float sum : sums) total += sum;
  return total;
}

// y [tokens, out] = x [tokens, in] weight^T + bias.
void Multiply(const std::vector<float>& weight, const std::vector<float>& bias, const float* x,
              int64_t tokens, int64_t in, float* y) {
  const int64_t out = static_cast<int64_t>(weight.size()) / in;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t o = 0; o < out; ++o) {
      const float product = Dot(x + t * in, weight.data() + o * in, in);
      y[t * out + o] = bias.empty() ? product : product + bias[o];
    }
  }
}

// y = x / sqrt(mean(x^2) + epsilon) * weight, for each of `tokens` rows.
void RmsNorm(const std::vector<float>& weight, float epsilon, const float* x, int64_t tokens,
             float* y) {
  const int64_t width = static_cast<int64_t>(weight.size());
  for (int64_t t = 0; t < tokens; ++t, x += width, y += width) {
    const float scale = 1 / std::sqrt(Dot(x, x, width) / static_cast<float>(width) + epsilon);
    for (int64_t i = 0; i < width; ++i) y[i] = x[i] * scale * weight[i];
  }
}

void Add(const std::vector<float>& update, std::vector<float>& residual) {
  for (size_t i = 0; i < residual.size(); ++i) residual[i] += update[i];
}

void Softmax(float* values, int64_t n) {
  const float maximum = *std::max_element(values, values + n);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += values[i] = std::exp(values[i] - maximum);
  for (int64_t i = 0; i < n; ++i) values[i] /= sum;
}

}  // namespace

TransformerConfig ReadConfig(const std::string& directory) {
  const std::string path = directory + "/config.json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  const nlohmann::json json = nlohmann::json::parse(file);
  const std::string model_type = json.at("model_type");
  if (model_type != "qwen2_moe") {
    throw std::runtime_error(path + " has model_type " + model_type +
                             "; this example runs qwen2_moe");
  }
  if (!json.value("tie_word_embeddings", false) || json.value("use_sliding_window", false)) {
    throw std::runtime_error(path + ": this example needs tie_word_embeddings and full attention");
  }
  TransformerConfig config;
  config.hidden_size = json.at("hidden_size");
  config.num_hidden_layers = json.at("num_hidden_layers");
  config.num_attention_heads = json.at("num_attention_heads");
  config.num_key_value_heads = json.at("num_key_value_heads");
  config.head_dim = json.value("head_dim", config.hidden_size / config.num_attention_heads);
  config.vocab_size = json.at("vocab_size");
  config.max_position_embeddings = json.at("max_position_embeddings");
  config.rms_norm_eps = json.at("rms_norm_eps");
  config.rope_theta = json.contains("rope_parameters") ? json.at("rope_parameters").at("rope_theta")
                                                       : json.at("rope_theta");
  if (config.vocab_size != 256) {
    throw std::runtime_error(path + " has vocab_size " + std::to_string(config.vocab_size) +
                             "; this example's tokens are bytes, 256 of them");
  }
  return config;
}

Transformer::Transformer(const TransformerConfig& config, MoeModel* moe)
    : config_(config), moe_(moe) {
  if (moe->num_layers() != config.num_hidden_layers) {
    throw std::runtime_error(std::to_string(moe->num_layers()) + " of the model's " +
                             std::to_string(config.num_hidden_layers) +
                             " layers are MoE; this example needs all to be");
  }
  embedding_ = moe->Tensor("model.embed_tokens.weight");
  final_norm_ = moe->Tensor("model.norm.weight");
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) blocks_.push_back(LoadBlock(i));

  const int64_t half = config.head_dim / 2;
  for (int64_t position = 0; position < config.max_position_embeddings; ++position) {
    for (int64_t i = 0; i < half; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_dim);
      const float angle = static_cast<float>(position) / std::pow(config.rope_theta, exponent);
      cos_.push_back(std::cos(angle));
      sin_.push_back(std::sin(angle));
    }
  }
  scores_.resize(config.max_position_embeddings);
}

Transformer::Linear Transformer::LoadLinear(const std::string& name, bool has_bias) const {
  Linear linear;
  linear.weight = moe_->Tensor(name + ".weight");
  if (has_bias) linear.bias = moe_->Tensor(name + ".bias");
  return linear;
}

Transformer::Block Transformer::LoadBlock(int64_t layer) const {
  const std::string name = "model.layers." + std::to_string(layer) + ".";
  Block block;
  block.input_norm = moe_->Tensor(name + "input_layernorm.weight");
  block.post_attention_norm = moe_->Tensor(name + "post_attention_layernorm.weight");
  block.query = LoadLinear(name + "self_attn.q_proj", true);
  block.key = LoadLinear(name + "self_attn.k_proj", true);
  block.value = LoadLinear(name + "self_attn.v_proj", true);
  block.output = LoadLinear(name + "self_attn.o_proj", false);
  const int64_t width = config_.num_key_value_heads * config_.head_dim;
  block.keys.resize(config_.max_position_embeddings * width);
  block.values.resize(config_.max_position_embeddings * width);
  return block;
}

std::span<const float> Transformer::Forward(std::span<const uint8_t> tokens) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  const int64_t hidden = config_.hidden_size;
  if (position_ + count > config_.max_position_embeddings) {
    throw std::runtime_error("the sequence is full: the model has " +
                             std::to_string(config_.max_position_embeddings) + " positions");
  }
  residual_.resize(count * hidden);
  input_.resize(count * hidden);
  update_.resize(count * hidden);
  for (int64_t t = 0; t < count; ++t) {
    std::copy_n(&embedding_[tokens[t] * hidden], hidden, &residual_[t * hidden]);
  }
  for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    Block& block = blocks_[layer];
    RmsNorm(block.input_norm, config_.rms_norm_eps, residual_.data(), count, input_.data());
    Attention(block, count);
    Add(update_, residual_);
    RmsNorm(block.post_attention_norm, config_.rms_norm_eps, residual_.data(), count,
            input_.data());
    moe_->RunLayer(static_cast<int>(layer), input_.data(), count, update_.data());
    Add(update_, residual_);
  }
  RmsNorm(final_norm_, config_.rms_norm_eps, residual_.data(), count, input_.data());
  logits_.resize(count * config_.vocab_size);
  Multiply(embedding_, {}, input_.data(), count, hidden, logits_.data());
  position_ += count;
  return logits_;
}

// Rotates each head's first half against its second by the position's angles, in place.
void Transformer::Rotate(float* heads, int64_t num_heads, int64_t position) const {
  const int64_t half = config_.head_dim / 2;
  const float* cos = &cos_[position * half];
  const float* sin = &sin_[position * half];
  for (int64_t head = 0; head < num_heads; ++head, heads += config_.head_dim) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = heads[i], b = heads[i + half];
      heads[i] = a * cos[i] - b * sin[i];
      heads[i + half] = b * cos[i] + a * sin[i];
    }
  }
}

// update = attention(input), and the tokens' keys and values join the cache.
void Transformer::Attention(Block& block, int64_t tokens) {
  const int64_t hidden = config_.hidden_size, heads = config_.num_attention_heads;
  const int64_t width = heads * config_.head_dim;
  const int64_t kv_heads = config_.num_key_value_heads, kv_width = kv_heads * config_.head_dim;
  queries_.resize(tokens * width);
  attended_.resize(tokens * width);
  float* keys = &block.keys[position_ * kv_width];
  float* values = &block.values[position_ * kv_width];
  Multiply(block.query.weight, block.query.bias, input_.data(), tokens, hidden, queries_.data());
  Multiply(block.key.weight, block.key.bias, input_.data(), tokens, hidden, keys);
  Multiply(block.value.weight, block.value.bias, input_.data(), tokens, hidden, values);
  for (int64_t t = 0; t < tokens; ++t) {
    Rotate(&queries_[t * width], heads, position_ + t);
    Rotate(keys + t * kv_width, kv_heads, position_ + t);
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t offset = t * width + head * config_.head_dim;
      AttendHead(block, head, position_ + t, &queries_[offset], &attended_[offset]);
    }
  }
  Multiply(block.output.weight, block.output.bias, attended_.data(), tokens, width, update_.data());
}

// One head of one token looks at all positions up to its own.
void Transformer::AttendHead(const Block& block, int64_t head, int64_t position, const float* query,
                             float* out) {
  const int64_t dim = config_.head_dim;
  const int64_t width = config_.num_key_value_heads * dim;
  const int64_t kv_head = head * config_.num_key_value_heads / config_.num_attention_heads;
  const float* keys = &block.keys[kv_head * dim];
  const float* values = &block.values[kv_head * dim];
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  for (int64_t p = 0; p <= position; ++p) scores_[p] = scale * Dot(query, keys + p * width, dim);
  Softmax(scores_.data(), position + 1);
  std::fill_n(out, dim, 0.0f);
  for (int64_t p = 0; p <= position; ++p) {
    for (int64_t i = 0; i < dim; ++i) out[i] += scores_[p] * values[p * width + i];
  }
}
