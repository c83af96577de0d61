// What DeltaNet's two passes over chunks share: where a chunk's record lies and what is in it, and the layout of tiles
// in shared memory.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/delta_net.h"

namespace clef::cuda {

inline constexpr int kChunk = 64;  // kDeltaNetChunk: the reference's chunk
inline constexpr int kRowBytes = 128;
inline constexpr int kPanelBytes = kChunk * kRowBytes;  // 64 tokens of 64 halves
inline constexpr int kTileBytes = 2 * kPanelBytes;      // 64 tokens of a head

// A chunk of a value head as the first pass leaves it. Both matrices are panels, swizzled as they lie in shared memory.
struct ChunkRecord {
  __half inverse[kChunk * kChunk];   // T = (I + strictly lower (beta_i (k_i . k_j) D_ij))^-1
  __half scores[kChunk * kChunk];    // P = (q_i . k_j) D_ij / sqrt(head_dim)
  float value_gates[kChunk / 2][4];  // of two tokens: beta_i, beta_j, -beta_i e^gamma_i, -beta_j e^gamma_j
  float query_decay[kChunk];         // e^gamma_i / sqrt(head_dim)
  float decay_to_last[kChunk];       // exp(sum of g after token i)
  float chunk_decay[32];             // e^gamma_last, 32 times: the record's size is a multiple of 128 bytes
};
static_assert(sizeof(ChunkRecord) % 128 == 0);

// Sequence s has slots cu_seqlens[s] / 64 + s onwards, one a chunk: a few stay empty, and no sum over sequences is
// needed to find them.
__host__ __device__ inline int first_slot(int start, int sequence) { return start / kChunk + sequence; }
inline int slot_count(int tokens, int sequences) { return tokens / kChunk + sequences; }

cudaError_t launch_delta_net_prepare(const DeltaNetArgs& args, cudaStream_t stream);
// In halves of heads or in whole ones: the bits are the same.
cudaError_t launch_delta_net_scan(const DeltaNetArgs& args, bool halves, cudaStream_t stream);

#ifdef __CUDACC__

// Byte offset of the 16-byte piece of a row in a panel: pieces are permuted so that eight rows' equal pieces lie in
// different banks, as the tensor cores expect it.
__device__ __forceinline__ std::uint32_t panel_offset(int row, int piece) {
  return static_cast<std::uint32_t>(row * kRowBytes + (piece ^ (row % 8)) * 16);
}
// The same in a tile: pieces 0 to 7 in its first panel, 8 to 15 in its second.
__device__ __forceinline__ std::uint32_t tile_offset(int row, int piece) {
  return static_cast<std::uint32_t>(piece / 8 * kPanelBytes) + panel_offset(row, piece % 8);
}

// Orders this thread's writes of shared memory before the reads of tensor cores and bulk copies.
__device__ __forceinline__ void fence_shared_for_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif

}  // namespace clef::cuda
