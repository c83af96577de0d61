#include "backend/cuda/attention.h"

namespace clef::cuda {

namespace {

// A kernel counts its tiles in an int, with room for a round more.
constexpr std::int64_t kMostBlocks = 1 << 30;

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

bool is_matrix(const void* pointer, std::int64_t stride, std::int64_t columns) {
  return pointer != nullptr && is_aligned(pointer) && stride % 8 == 0 && stride >= columns;
}

// At worst a kernel takes 16 tokens of one head at a time.
bool fits_a_grid(std::int64_t tokens, std::int64_t sequences, std::int64_t heads) {
  return tokens >= 0 && sequences >= 0 && heads > 0 && heads <= 65536 &&
         (tokens / 16 + sequences) * heads <= kMostBlocks;
}

// Compute capability 9.0 of the current device: sm_90a runs nowhere else.
bool is_hopper() {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
         minor == 0;
}

}  // namespace

bool valid(const AttentionArgs& args) {
  const std::int64_t d = kAttentionHeadDim;
  return args.kv_heads > 0 && args.q_heads > 0 && args.q_heads % args.kv_heads == 0 && args.prefix_tokens >= 0 &&
         std::int64_t{args.prefix_tokens} * args.sequences <= args.tokens &&
         fits_a_grid(args.tokens, args.sequences, args.q_heads) && is_matrix(args.q, args.q_stride, args.q_heads * d) &&
         is_matrix(args.k, args.kv_stride, args.kv_heads * d) && is_matrix(args.v, args.kv_stride, args.kv_heads * d) &&
         is_matrix(args.gate, args.gate_stride, args.gate_head_stride * (args.q_heads - 1) + d) &&
         args.gate_head_stride % 8 == 0 && args.gate_head_stride >= d &&
         is_matrix(args.y, args.y_stride, args.q_heads * d) && args.cu_seqlens != nullptr;
}

bool valid(const SegmentAttentionArgs& args) {
  if (args.head_dim <= 0 || args.head_dim > 128 || args.head_dim % 8 != 0) return false;
  if (!fits_a_grid(args.tokens, args.segments, args.heads)) return false;
  const std::int64_t columns = std::int64_t{args.heads} * args.head_dim;
  return is_matrix(args.q, args.q_stride, columns) && is_matrix(args.k, args.kv_stride, columns) &&
         is_matrix(args.v, args.kv_stride, columns) && is_matrix(args.y, args.y_stride, columns) &&
         args.cu_segments != nullptr;
}

cudaError_t launch_attention(const AttentionArgs& args, cudaStream_t stream) {
  return is_hopper() ? launch_attention_sm90(args, 0, stream) : launch_attention_mma(args, stream);
}

cudaError_t launch_segment_attention(const SegmentAttentionArgs& args, cudaStream_t stream) {
  return is_hopper() && args.head_dim == 72 ? launch_segment_attention_sm90(args, 0, stream)
                                            : launch_segment_attention_mma(args, stream);
}

}  // namespace clef::cuda
