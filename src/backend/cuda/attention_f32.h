// Attention with f32 operands, causal or not, gated or not.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace clef::cuda {

inline constexpr int kMostAttentionF32HeadDim = 256;
inline constexpr int kAttentionF32Parts = 64;  // of a segment's keys, at most

// y[t, h*d + i] = softmax(q k^T / sqrt(d)) v, by segment; the gate of head h lies at gate[t, h*2*d + d].
struct AttentionF32Args {
  float* y;
  const float *q, *k, *v;
  const float* gate;  // or null
  std::int64_t y_stride, q_stride, kv_stride, gate_stride;
  const int *cu_queries, *cu_keys;       // [segments + 1]; the same when causal
  std::int64_t queries, keys;            // of all segments, as these count
  int segments, heads, group, head_dim;  // group: query heads to a key head
  bool causal;
  std::int64_t prefix = 0;    // causal: the first tokens of each segment, of which q, gate and y have no rows
  float* partials = nullptr;  // attention_f32_partials(args) of them, or null where that is 0
};
// The floats beside the operands: 0 where there is nothing to merge, which is causal or gated attention, whose keys are
// taken in one go, and attention to so few keys that no segment has two parts.
std::int64_t attention_f32_partials(const AttentionF32Args& args);
cudaError_t launch_attention_f32(const AttentionF32Args& args, cudaStream_t stream);

}  // namespace clef::cuda
