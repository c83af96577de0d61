// Gated DeltaNet on CUDA: the launchers of its kernels. What each computes: ops/delta_net.h and ops/rms_norm.h.
// Heads are of kDeltaNetHeadDim features, keys and values alike; cu_seqlens lies on the device, [sequences + 1], from 0
// to tokens. A token's bits do not depend on the sequences around it, nor on their order.
// Where the sequences' first tokens are known (ops/delta_net.h), cu_seqlens and `tokens` count them; the rows of x, b,
// a and y are without them, and a prefix is given. A result that is not finite in FP16 is stored as it is, and so
// reaches all that follows in its sequence; unless overflow is given: then it is stored saturated (NaN as 0) and sets
// overflow[sequence] to 1. The launchers never clear it.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace clef::cuda {

inline constexpr int kDeltaNetHeadDim = 128;
inline constexpr int kShortConvTaps = 4;

// q and k leave as unit vectors; 1 / sqrt(head_dim), which the op's contract gives to q, is DeltaNet's, in FP32.
struct ShortConvArgs {
  __half* q = nullptr;            // [tokens, key_heads * head_dim]
  __half* k = nullptr;            // [tokens, key_heads * head_dim]
  __half* v = nullptr;            // [tokens, value_heads * head_dim]
  const __half* x = nullptr;      // [new tokens, (2 * key_heads + value_heads) * head_dim], rows x_stride apart
  std::int64_t x_stride = 0;      // a multiple of 8
  const float* weight = nullptr;  // [taps, (2 * key_heads + value_heads) * head_dim]
  const int* cu_seqlens = nullptr;
  int sequences = 0, tokens = 0, key_heads = 0, value_heads = 0;
  int* overflow = nullptr;         // [sequences]
  const __half* prefix = nullptr;  // [prefix_tokens, as x], rows prefix_stride apart, a multiple of 8
  std::int64_t prefix_stride = 0;
  int prefix_tokens = 0;
};
cudaError_t launch_short_conv(const ShortConvArgs& args, cudaStream_t stream);

struct DeltaNetArgs {
  __half* y = nullptr;                                    // [new tokens, value_heads * head_dim]
  const __half *q = nullptr, *k = nullptr, *v = nullptr;  // as ShortConv leaves them
  const float *b = nullptr, *a = nullptr;                 // [new tokens, value_heads], rows ba_stride apart
  std::int64_t ba_stride = 0;
  const float *neg_exp_a_log = nullptr, *dt_bias = nullptr;  // [value_heads]
  const int* cu_seqlens = nullptr;
  int sequences = 0, tokens = 0, key_heads = 0, value_heads = 0;
  void* workspace = nullptr;  // delta_net_workspace() bytes, 128-byte aligned
  std::size_t workspace_bytes = 0;
  int* overflow = nullptr;                               // [sequences]
  const float *prefix_b = nullptr, *prefix_a = nullptr;  // [prefix_tokens, value_heads], rows prefix_stride apart
  std::int64_t prefix_stride = 0;
  int prefix_tokens = 0;
};
std::size_t delta_net_workspace(int tokens, int sequences, int key_heads, int value_heads);
cudaError_t launch_delta_net(const DeltaNetArgs& args, cudaStream_t stream);
// The recurrence token by token in FP32, on any device and without workspace: slow, and what the other is held to.
cudaError_t launch_delta_net_plain(const DeltaNetArgs& args, cudaStream_t stream);

struct GatedRmsNormArgs {
  __half* y = nullptr;          // [tokens, heads * head_dim]
  const __half* x = nullptr;    // [tokens, heads * head_dim]
  const __half* z = nullptr;    // [tokens, heads * head_dim], rows z_stride apart
  std::int64_t z_stride = 0;    // a multiple of 8
  const float* gain = nullptr;  // [head_dim]
  float eps = 0;
  int tokens = 0, heads = 0;
  const int* cu_seqlens = nullptr;  // with sequences and overflow: whose flag to set
  int sequences = 0;
  int* overflow = nullptr;  // [sequences]
};
cudaError_t launch_gated_rms_norm(const GatedRmsNormArgs& args, cudaStream_t stream);

}  // namespace clef::cuda
