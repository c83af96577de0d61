// The joint schema head: from the backbone's hidden states to one logit an option.      Source:
// JointSchemaHead.forward.
#pragma once

#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/weights.h"
#include "ops/device.h"
#include "record/decision.h"

namespace clef {

struct HeadScratch {
  Tensor hidden;                                    // [tokens, hidden], normalised; X of the specification
  Tensor memory;                                    // [tokens, width], R0
  Tensor memory_normed;                             // [tokens, width]
  Tensor keys_values;                               // [tokens, 2 * width]
  Tensor keys, values;                              // its columns
  Tensor question;                                  // [questions, hidden], v
  Tensor last;                                      // [questions, hidden], g
  Tensor context, lexical;                          // [options, hidden], c and x
  Tensor options;                                   // [options, width], r
  Tensor options_normed, options_q, options_mixed;  // [options, width]
  Tensor options_inner;                             // [options, feedforward]
  Tensor features;                                  // [options, 4 * width]
  Tensor fields, fields_normed, fields_mixed;       // [questions, width]
  Tensor fields_qkv;                                // [questions, 3 * width]
  Tensor fields_q, fields_k, fields_v;              // its columns
  Tensor fields_inner;                              // [questions, feedforward]
  Tensor residual, logits;                          // [options, 1]

  static std::size_t bytes(const HeadConfig& config, const Batch& batch);
  static HeadScratch take(const HeadConfig& config, const Batch& batch, Arena& arena);
};

class Head {
 public:
  static Result<Head> load(const ModelWeights& weights, const HeadConfig& config, WeightLoader& loader);

  // hidden [tokens, hidden_size]: the backbone's, after its final norm. The logits are in s.logits.
  void forward(Pass& pass, const Batch& batch, const Tensor& hidden, const HeadScratch& s) const;

 private:
  struct Multihead {
    DeviceLinear q, k, v, out;
    Tensor qkv_bias;  // [1, 3 * width], of the three together
  };
  struct EvidenceLayer {
    DeviceNorm query_norm, memory_norm, feedforward_norm;
    Multihead attention;
    DeviceLinear up, down;
  };
  struct FieldLayer {
    DeviceNorm norm1, norm2, norm3;
    Multihead self_attn, multihead_attn;
    DeviceLinear linear1, linear2;
  };
  static Result<Multihead> load_multihead(const MultiheadWeights& weights, WeightLoader& loader);
  static Projections keys_and_values(const Tensor& y, const Tensor& x, const Multihead& attention);
  static Projections item_queries_keys_values(const Tensor& y, const Tensor& x, const Multihead& attention);

  // options += attention(options, memory); options += feedforward(options)
  void forward(const EvidenceLayer& layer, Pass& pass, const Batch& batch, const HeadScratch& s) const;
  // fields += attention(fields, fields); fields += attention(fields, memory); fields += feedforward(fields)
  void forward(const FieldLayer& layer, Pass& pass, const Batch& batch, const HeadScratch& s) const;

  Tensor lm_head_;
  DeviceNorm hidden_norm_, option_summary_norm_, field_norm_, option_norm_;
  Tensor memory_projection_, question_projection_, option_question_projection_;
  Tensor global_projection_, option_context_projection_, option_lexical_projection_, type_embedding_;
  std::vector<EvidenceLayer> evidence_layers_;
  std::vector<FieldLayer> layers_;
  DeviceLinear residual_scorer_0_, residual_scorer_3_;
  float prior_scale_ = 0, joint_scale_ = 0, gate_ = 0;
  std::int64_t head_dim_ = 0;
};

// The logits of each record's questions, from the values of s.logits. Errc::non_finite for a record with NaN or
// infinity.
std::vector<Result<Decisions>> decide(const Batch& batch, std::span<const float> logits);

}  // namespace clef
