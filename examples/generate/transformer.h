// SPDX-License-Identifier: Apache-2.0
// A Qwen2-MoE transformer in plain C++ and float32: embedding, RMSNorm, attention with rotary
// positions and a key/value cache, and a head tied to the embedding. The MoE layers are moert's
// (MoeModel).
#ifndef MOERT_EXAMPLES_GENERATE_TRANSFORMER_H_
#define MOERT_EXAMPLES_GENERATE_TRANSFORMER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "moe_model.h"

// What config.json says, in its own names.
struct TransformerConfig {
  int64_t hidden_size;
  int64_t num_hidden_layers;
  int64_t num_attention_heads;
  int64_t num_key_value_heads;
  int64_t head_dim;
  int64_t vocab_size;
  int64_t max_position_embeddings;
  float rms_norm_eps;
  float rope_theta;
};

// Reads directory/config.json; throws std::runtime_error for a model that is not of this kind.
TransformerConfig ReadConfig(const std::string& directory);

class Transformer {
 public:
  Transformer(const TransformerConfig& config, MoeModel* moe);

  // Appends tokens to the sequence and returns their logits, [tokens, vocab_size]; valid until the
  // next call. The sequence may grow to max_position_embeddings.
  std::span<const float> Forward(std::span<const uint8_t> tokens);

  // Forgets the sequence.
  void Reset() { position_ = 0; }

  const TransformerConfig& config() const { return config_; }

 private:
  // y = x weight^T + bias. weight is [out, in], bias [out] or empty.
  struct Linear {
    std::vector<float> weight;
    std::vector<float> bias;
  };
  struct Block {
    std::vector<float> input_norm;
    std::vector<float> post_attention_norm;
    Linear query, key, value, output;
    std::vector<float> keys;    // [max_position_embeddings, kv heads * head_dim], rotated.
    std::vector<float> values;  // The same shape.
  };

  Linear LoadLinear(const std::string& name, bool has_bias) const;
  Block LoadBlock(int64_t layer) const;
  void Rotate(float* heads, int64_t num_heads, int64_t position) const;
  void Attention(Block& block, int64_t tokens);
  void AttendHead(const Block& block, int64_t head, int64_t position, const float* query,
                  float* out);

  TransformerConfig config_;
  MoeModel* moe_;
  std::vector<float> embedding_;  // [vocab_size, hidden_size]; also the head.
  std::vector<float> final_norm_;
  std::vector<Block> blocks_;
  std::vector<float> cos_, sin_;  // [max_position_embeddings, head_dim / 2].
  int64_t position_ = 0;          // Tokens in the sequence so far.

  // Working memory of a call: the residual stream, a layer's input and output [tokens,
  // hidden_size].
  std::vector<float> residual_, input_, update_;
  std::vector<float> queries_, attended_;  // [tokens, heads * head_dim].
  std::vector<float> scores_;              // [max_position_embeddings].
  std::vector<float> logits_;
};

#endif  // MOERT_EXAMPLES_GENERATE_TRANSFORMER_H_
