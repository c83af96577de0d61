// Attention on the GPU: the causal, gated, grouped-query form of the text layers and the full form of the vision tower.
// FP16 operands, FP32 sums and softmax. A row's bits depend on its own sequence alone: blocks of keys are counted from
// the sequence's first token, each block's arithmetic is the same whether or not all its keys exist, and the order of
// every sum is fixed by key index. Tiles, grids and the packing of heads only share the rows out.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace clef::cuda {

inline constexpr int kAttentionHeadDim = 256;

// y[t, h*256 + d] = sigmoid(gate[t*gate_stride + h*gate_head_stride + d]) * softmax(q k^T / 16) v, causal inside each
// sequence. Query head h reads key head h / (q_heads / kv_heads). Strides are in elements; every pointer is the
// device's, lies on 16 bytes, and every stride is a multiple of 8. Sequences may be empty; rows past the last are not
// written. y overlaps no input. Of the first prefix_tokens of every sequence there are keys and values alone: q, gate
// and y have the rows of the others, the new tokens.
struct AttentionArgs {
  const __half* q = nullptr;  // [new tokens, q_heads * 256]
  std::int64_t q_stride = 0;
  const __half* k = nullptr;  // [tokens, kv_heads * 256]
  const __half* v = nullptr;
  std::int64_t kv_stride = 0;
  const __half* gate = nullptr;
  std::int64_t gate_stride = 0, gate_head_stride = 0;
  __half* y = nullptr;  // [new tokens, q_heads * 256]
  std::int64_t y_stride = 0;
  const int* cu_seqlens = nullptr;  // [sequences + 1], first token of each sequence, then the token count
  int sequences = 0;
  int tokens = 0;
  int prefix_tokens = 0;
  int q_heads = 0, kv_heads = 0;
  // [sequences] or null. Set to 1 where an output is NaN or past FP16's largest value; NaN is stored as 0, the rest as
  // the nearest FP16. Never cleared here.
  int* overflow = nullptr;
};

// y[t, h*d + i] = softmax(q k^T / sqrt(d)) v, each token seeing all of its own segment. The rest is as above; d is
// head_dim, a multiple of 8, at most 128.
struct SegmentAttentionArgs {
  const __half* q = nullptr;  // [tokens, heads * head_dim]
  std::int64_t q_stride = 0;
  const __half* k = nullptr;
  const __half* v = nullptr;
  std::int64_t kv_stride = 0;
  __half* y = nullptr;
  std::int64_t y_stride = 0;
  const int* cu_segments = nullptr;
  int segments = 0;
  int tokens = 0;
  int heads = 0;
  int head_dim = 0;
  int* overflow = nullptr;
};

// The fastest kernel this device has. cudaErrorInvalidValue where the arguments break the contract above.
cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream);
cudaError_t launch_segment_attention(const SegmentAttentionArgs& args, cudaStream_t stream);

// One kernel each, for the tests and for the choice above.
cudaError_t launch_attention_mma(const AttentionArgs& args, cudaStream_t stream);                 // sm_80 and later
cudaError_t launch_segment_attention_mma(const SegmentAttentionArgs& args, cudaStream_t stream);  // sm_80 and later
// sm_90a alone; `workers` warpgroups share a tile, 0 for the kernel's own choice. The segments' head size is 72.
cudaError_t launch_attention_sm90(const AttentionArgs& args, int workers, cudaStream_t stream);
cudaError_t launch_segment_attention_sm90(const SegmentAttentionArgs& args, int workers, cudaStream_t stream);

// Whether the arguments keep the contract: what a launcher asks before it starts a kernel.
bool valid(const AttentionArgs& args);
bool valid(const SegmentAttentionArgs& args);

}  // namespace clef::cuda
