// Gated DeltaNet with f32 activations: for records whose activations leave the range of FP16, and for the layers whose
// roundings weigh most. Contracts as in ops/delta_net.h, ops/rms_norm.h and delta_net.h beside this, heads of
// kDeltaNetHeadDim features. What is not finite stays so, in its own sequence; a token's bits do not depend on the
// sequences around it, nor on their order.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/delta_net.h"

namespace clef::cuda {

struct ShortConvF32Args {
  float *q = nullptr, *k = nullptr;  // [tokens, key_heads * head_dim]
  float* v = nullptr;                // [tokens, value_heads * head_dim]
  const float* x = nullptr;          // [new tokens, (2 * key_heads + value_heads) * head_dim], rows x_stride apart
  std::int64_t x_stride = 0;         // a multiple of 4
  const float* weight = nullptr;     // [kShortConvTaps, (2 * key_heads + value_heads) * head_dim]
  const int* cu_seqlens = nullptr;
  int sequences = 0, tokens = 0, key_heads = 0, value_heads = 0;
  const float* prefix = nullptr;  // [prefix_tokens, as x], rows prefix_stride apart, a multiple of 4
  std::int64_t prefix_stride = 0;
  int prefix_tokens = 0;
};
cudaError_t launch_short_conv_f32(const ShortConvF32Args& args, cudaStream_t stream);

struct DeltaNetF32Args {
  float* y = nullptr;                                    // [new tokens, value_heads * head_dim]
  const float *q = nullptr, *k = nullptr, *v = nullptr;  // as ShortConv leaves them: |q|, |k| at most 1
  const float *b = nullptr, *a = nullptr;                // [new tokens, value_heads], rows ba_stride apart
  std::int64_t ba_stride = 0;
  const float *neg_exp_a_log = nullptr, *dt_bias = nullptr;  // [value_heads]
  const int* cu_seqlens = nullptr;
  int sequences = 0, tokens = 0, key_heads = 0, value_heads = 0;
  void* workspace = nullptr;  // delta_net_f32_workspace() bytes, 128-byte aligned
  std::size_t workspace_bytes = 0;
  const float *prefix_b = nullptr, *prefix_a = nullptr;  // [prefix_tokens, value_heads], rows prefix_stride apart
  std::int64_t prefix_stride = 0;
  int prefix_tokens = 0;
};
std::size_t delta_net_f32_workspace(int tokens, int sequences, int key_heads, int value_heads);
cudaError_t launch_delta_net_f32(const DeltaNetF32Args& args, cudaStream_t stream);
// The recurrence token by token, on any device and without workspace: slow.
cudaError_t launch_delta_net_f32_plain(const DeltaNetF32Args& args, cudaStream_t stream);

struct GatedRmsNormF32Args {
  float* y = nullptr;           // [tokens, heads * head_dim]
  const float* x = nullptr;     // [tokens, heads * head_dim]
  const float* z = nullptr;     // [tokens, heads * head_dim], rows z_stride apart
  std::int64_t z_stride = 0;    // a multiple of 4
  const float* gain = nullptr;  // [head_dim]
  float eps = 0;
  int tokens = 0, heads = 0;
};
cudaError_t launch_gated_rms_norm_f32(const GatedRmsNormF32Args& args, cudaStream_t stream);

// The same, stored as f16 with a low part (ops/low_part.h).
struct GatedRmsNormLowArgs {
  __half* y = nullptr;          // [tokens, heads * head_dim]
  const float* x = nullptr;     // [tokens, heads * head_dim]
  const float* z = nullptr;     // [tokens, heads * head_dim], rows z_stride apart
  std::int64_t z_stride = 0;    // a multiple of 4
  const float* gain = nullptr;  // [head_dim]
  float eps = 0;
  int tokens = 0, heads = 0;
  std::uint8_t* low = nullptr;  // [precise rows, heads * head_dim], rows low_stride apart, a multiple of 8
  std::int64_t low_stride = 0;
  float* low_scales = nullptr;  // [precise rows]
  const int* places = nullptr;  // [tokens]: a token's place among the precise rows, or -1; or none: all are
};
cudaError_t launch_gated_rms_norm_low(const GatedRmsNormLowArgs& args, cudaStream_t stream);

}  // namespace clef::cuda
