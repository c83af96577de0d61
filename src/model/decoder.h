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

// How activations are stored between the products of a layer. What is rounded to FP16 in the first layers grows through
// all the others: at the size of Clef-Flash the first layer alone accounts for four fifths of the error's square, and
// the first seven for nearly all. And it matters in the rows of questions and options: there alone the products of
// these layers read more than f16, but the first of all, which does in every row (docs/accuracy.md).
struct Precision {
  DType activation = DType::f32;
  std::int64_t precise_layers = 0;  // of which Gated DeltaNet and MLP are precise; attention hardly matters
  bool low_parts = false;           // what those layers' products read is f16 with a low part, not f32
  bool operator==(const Precision&) const = default;

  // Of what a layer's Gated DeltaNet has from its products: qkvz.
  DType mixer_dtype(std::int64_t layer) const { return layer < precise_layers ? DType::f32 : activation; }
};
// f16 with seven precise layers, where the device likes f16 and was not told otherwise. A small model is f32
// throughout: its products are not what takes the time.
Precision precision_for(const TextConfig& config, const Device& device);

// Of a layer's activations. f16_and_low: what products read is f16 with a low part, and Gated DeltaNet works in f32.
enum class Storage { f32, f16, f16_and_low };

// The tokens that a pass computes, and with them those whose rows are known (Batch).
struct TokenRows {
  std::int64_t tokens = 0, all_tokens = 0;
};

// Activations of one layer, of the type asked for where no other stands; what only one sublayer needs shares memory.
struct DecoderScratch {
  Tensor residual;                               // [tokens, hidden]  f32
  Tensor normed;                                 // [tokens, hidden]
  LowPart normed_low, gated_low, activated_low;  // of the precise rows
  // Gated DeltaNet
  Tensor qkvz;        // [tokens, conv_width + value_width], straight from the products
  Tensor qkv, z;      // its columns
  Tensor ba;          // [tokens, 2 * value heads]  f32
  Tensor b, a;        // its columns
  Tensor query, key;  // [all tokens, key_width], after convolution and norm
  Tensor value;       // [all tokens, value_width]
  Tensor mixed;       // [tokens, value_width]
  Tensor gated;       // [tokens, value_width]
  // Gated attention
  Tensor qgkv;         // [tokens, 2 * query_width + 2 * kv_width], straight from the products
  Tensor q_gate;       // its columns: per head the query, then the gate
  Tensor k, v;         // its columns; k is normalised and rotated where it lies
  Tensor q, attended;  // [tokens, query_width]
  Tensor kv;           // [all tokens, 2 * kv_width]: k and v with those of known tokens, where there are any
  // MLP
  Tensor activated;  // [tokens, intermediate]
  Tensor low_sums;   // [precise rows, 2 * intermediate]  f16, where there are low parts
  Tensor remainder;  // [precise rows, intermediate]      f16, likewise

  // Without the residual, which outlives the layers; with room for all rows' low parts.
  static std::size_t bytes(const TextConfig& config, const TokenRows& rows, Storage storage);
  static DecoderScratch take(const TextConfig& config, const TokenRows& rows, const Tensor& residual, Storage storage,
                             Arena& arena);
};

// What the products of a Gated DeltaNet layer make of tokens, before any has met another.
struct FirstProducts {
  Tensor qkvz;  // [tokens, conv_width + value_width]
  Tensor ba;    // [tokens, 2 * value heads]  f32
};

// The memory of one forward pass over the backbone. The residual comes first; what follows it is free until the first
// layer.
struct DecoderMemory {
  DecoderScratch precise, rest;  // in the same place: a layer keeps nothing for the next but the residual
  std::int64_t precise_layers = 0;
  bool all_rows_precise = true;  // in those layers; else in the first alone
  Tensor residual() const { return rest.residual; }

  static std::size_t bytes(const TextConfig& config, const TokenRows& rows, const Precision& precision);
  static std::size_t residual_bytes(const TextConfig& config, std::int64_t tokens);
  static DecoderMemory take(const TextConfig& config, const TokenRows& rows, const Precision& precision, Arena& arena);
};

class GatedDeltaNet {
 public:
  static Result<GatedDeltaNet> load(const DeltaNetWeights& weights, const TextConfig& config, bool has_low_parts,
                                    WeightLoader& loader);
  // qkvz and ba of normed.
  void project(Pass& pass, const DecoderScratch& s, const PreciseRows& precise) const;
  // residual += out_proj(delta net(qkvz, ba)); `precise` is for the product of what comes out. `layer` counts from 0,
  // in the model.
  void forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const PreciseRows& precise,
               const std::string& name, std::size_t layer) const;

 private:
  Tensor in_qkv_, in_z_, in_b_, in_a_, conv_, neg_exp_a_log_, dt_bias_, norm_, out_;
  std::int64_t key_head_dim_ = 0, value_head_dim_ = 0;
  float eps_ = 0;
};

class GatedAttention {
 public:
  static Result<GatedAttention> load(const AttentionWeights& weights, const TextConfig& config, WeightLoader& loader);
  // residual += o_proj(attention(normed) * sigmoid(gate))
  void forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const std::string& name,
               std::size_t layer) const;

 private:
  Tensor q_gate_, k_, v_, q_norm_, k_norm_, out_;
  std::int64_t head_dim_ = 0;
  std::int64_t height_pairs_ = 0, width_pairs_ = 0;  // of the rotary ones
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

  // The tokens' embeddings, in the residual; rows of the vision tower may then replace some of them.
  void embed(Pass& pass, const Batch& batch, const DecoderMemory& memory) const;
  // What the first layer, which must be of Gated DeltaNet, makes of tokens before they meet: into `to`. With memory for
  // so many, in which their embeddings are then the residual.
  void project_tokens(Pass& pass, const Tensor& ids, const DecoderMemory& memory, const FirstProducts& to) const;
  // From the embeddings; leaves the hidden states after the final norm in the residual, [tokens, hidden].
  void forward(Pass& pass, const Batch& batch, const DecoderMemory& memory) const;

 private:
  Tensor embed_tokens_, norm_;
  std::vector<DecoderLayer> layers_;
  float eps_ = 0;
};

}  // namespace clef
