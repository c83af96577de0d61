// A model's weights by field, whichever file they came from. After binding, no tensor is looked up by name.
//
// Matrices stay where they are mapped, row-major [out, in], y = x * W^T. Vectors and other small tensors are widened to
// float32 at load, with 1 + w and -exp(A_log) already applied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"
#include "model/config.h"

namespace clef {

// A matrix in mapped memory: rows * cols elements of dtype, rows contiguous.
struct MappedMatrix {
  DType dtype = DType::bf16;  // bf16, f16 or f32
  std::int64_t rows = 0, cols = 0;
  std::span<const std::byte> bytes;
};

struct MlpWeights {
  MappedMatrix gate, up;  // [intermediate, hidden]
  MappedMatrix down;      // [hidden, intermediate]
};

struct DeltaNetWeights {
  MappedMatrix in_qkv;               // [conv_width, hidden]: query heads, key heads, value heads
  MappedMatrix in_z;                 // [value_width, hidden]
  MappedMatrix in_b, in_a;           // [value_heads, hidden]
  std::vector<float> conv;           // [taps, conv_width], tap-major: tap taps-1 meets the current token
  std::vector<float> neg_exp_a_log;  // [value_heads]: -exp(A_log), in double, rounded once
  std::vector<float> dt_bias;        // [value_heads]
  std::vector<float> norm;           // [value_head_dim], as stored (no 1 +)
  MappedMatrix out;                  // [hidden, value_width]
};

struct AttentionWeights {
  MappedMatrix q_gate;  // [2 * query_width, hidden]: per head head_dim query rows, then head_dim gate rows
  MappedMatrix k, v;    // [kv_width, hidden]
  std::vector<float> q_norm, k_norm;  // [head_dim], 1 + w
  MappedMatrix out;                   // [hidden, query_width]
};

struct LayerWeights {
  std::vector<float> input_norm, post_attention_norm;  // [hidden], 1 + w
  std::variant<DeltaNetWeights, AttentionWeights> mixer;
  MlpWeights mlp;
};

struct NormWeights {
  std::vector<float> gain, bias;
};
struct LinearWeights {
  MappedMatrix weight;
  std::vector<float> bias;  // empty: none
};
// torch.nn.MultiheadAttention's packed projection, split in its three row blocks.
struct MultiheadWeights {
  LinearWeights q, k, v, out;
};
struct EvidenceLayerWeights {
  NormWeights query_norm, memory_norm, feedforward_norm;
  MultiheadWeights attention;
  LinearWeights up, down;  // feedforward.0, feedforward.3
};
struct FieldLayerWeights {
  NormWeights norm1, norm2, norm3;
  MultiheadWeights self_attn, multihead_attn;
  LinearWeights linear1, linear2;
};
struct HeadWeights {
  NormWeights hidden_norm, option_summary_norm, field_norm, option_norm;
  MappedMatrix memory_projection, question_projection, option_question_projection;  // [width, hidden]
  MappedMatrix global_projection, option_context_projection, option_lexical_projection;
  MappedMatrix type_embedding;  // [3, width]
  std::vector<EvidenceLayerWeights> evidence_layers;
  std::vector<FieldLayerWeights> layers;
  LinearWeights residual_scorer_0, residual_scorer_3;                     // [width, 4 width], [1, width]
  float prior_logit_scale = 0, joint_logit_scale = 0, residual_gate = 0;  // as stored
};

struct VisionBlockWeights {
  NormWeights norm1, norm2;
  LinearWeights qkv, proj;  // [3 width, width]: query, key, value; [width, width]
  LinearWeights fc1, fc2;
};
struct VisionWeights {
  LinearWeights patch_embed;  // [width, patch width]: columns channel, frame, y, x
  MappedMatrix pos_embed;     // [positions, width]: a square table, row by row
  std::vector<VisionBlockWeights> blocks;
  NormWeights merger_norm;
  LinearWeights merger_fc1, merger_fc2;  // [merged, merged], [hidden, merged]
};

struct ModelWeights {
  MappedMatrix embed_tokens, lm_head;  // [vocab, hidden]
  std::vector<float> norm;             // [hidden], 1 + w
  std::vector<LayerWeights> layers;
  HeadWeights head;
  VisionWeights vision;  // empty when the config has no vision
};

}  // namespace clef
