// The text backbone: Qwen3.5 dense, prefill only.      Source: Qwen3_5TextModel.forward.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/weights.h"
#include "ops/device.h"

namespace clef {

// Activations of one forward pass over the backbone, of the type asked for where no other stands; what only one
// sublayer needs shares memory.
struct DecoderScratch {
  Tensor residual;  // [tokens, hidden]  f32
  Tensor normed;    // [tokens, hidden]
  // Gated DeltaNet
  Tensor qkvz;        // [tokens, conv_width + value_width], straight from the products
  Tensor qkv, z;      // its columns
  Tensor ba;          // [tokens, 2 * value heads]  f32
  Tensor b, a;        // its columns
  Tensor query, key;  // [tokens, key_width], after convolution and norm
  Tensor value;       // [tokens, value_width]
  Tensor mixed;       // [tokens, value_width]
  Tensor gated;       // [tokens, value_width]
  // Gated attention
  Tensor qgkv;         // [tokens, 2 * query_width + 2 * kv_width], straight from the products
  Tensor q_gate;       // its columns: per head the query, then the gate
  Tensor k, v;         // its columns; k is normalised and rotated where it lies
  Tensor q, attended;  // [tokens, query_width]
  // MLP
  Tensor activated;  // [tokens, intermediate]

  // Residual and normed come first; what follows them is free until the first layer.
  static std::size_t bytes(const TextConfig& config, std::int64_t tokens, DType activation);
  static std::size_t residual_bytes(const TextConfig& config, std::int64_t tokens, DType activation);
  static DecoderScratch take(const TextConfig& config, std::int64_t tokens, DType activation, Arena& arena);
};

class GatedDeltaNet {
 public:
  static Result<GatedDeltaNet> load(const DeltaNetWeights& weights, const TextConfig& config, WeightLoader& loader);
  // residual += out_proj(delta net(normed))
  void forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const std::string& name) const;

 private:
  Tensor in_qkv_, in_z_, in_b_, in_a_, conv_, neg_exp_a_log_, dt_bias_, norm_, out_;
  std::int64_t key_head_dim_ = 0, value_head_dim_ = 0;
  float eps_ = 0;
};

class GatedAttention {
 public:
  static Result<GatedAttention> load(const AttentionWeights& weights, const TextConfig& config, WeightLoader& loader);
  // residual += o_proj(attention(normed) * sigmoid(gate))
  void forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const std::string& name) const;

 private:
  Tensor q_gate_, k_, v_, q_norm_, k_norm_, out_;
  std::int64_t head_dim_ = 0;
  float eps_ = 0;
};

struct DecoderLayer {
  std::string name;  // "layer.3"
  Tensor input_norm, post_attention_norm;
  std::variant<GatedDeltaNet, GatedAttention> mixer;
  Tensor gate, up, down;
};

class Decoder {
 public:
  static Result<Decoder> load(const ModelWeights& weights, const TextConfig& config, WeightLoader& loader);

  // The tokens' embeddings, in s.residual; rows of the vision tower may then replace some of them.
  void embed(Pass& pass, const Batch& batch, const DecoderScratch& s) const;
  // From the embeddings; leaves the hidden states after the final norm in s.residual, [tokens, hidden].
  void forward(Pass& pass, const Batch& batch, const DecoderScratch& s) const;

 private:
  Tensor embed_tokens_, norm_;
  std::vector<DecoderLayer> layers_;
  float eps_ = 0;
};

}  // namespace clef
