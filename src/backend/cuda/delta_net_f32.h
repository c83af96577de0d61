// Gated DeltaNet with f32 activations: for records whose activations leave the range of FP16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace clef::cuda {

// Contracts as in ops/delta_net.h, heads of 128 features; q, k, v and y without gaps between rows.
struct ShortConvF32Args {
  float *q, *k, *v;
  const float* x;
  std::int64_t x_stride;
  const float* weight;  // [taps, channels]
  int taps;
  const int* cu_seqlens;
  int sequences, tokens, key_heads, value_heads;
};
cudaError_t launch_short_conv_f32(const ShortConvF32Args& args, cudaStream_t stream);

struct DeltaNetF32Args {
  float* y;
  const float *q, *k, *v, *b, *a;
  std::int64_t ba_stride;
  const float *neg_exp_a_log, *dt_bias;
  const int* cu_seqlens;
  int sequences, tokens, key_heads, value_heads;
};
cudaError_t launch_delta_net_f32(const DeltaNetF32Args& args, cudaStream_t stream);

}  // namespace clef::cuda
