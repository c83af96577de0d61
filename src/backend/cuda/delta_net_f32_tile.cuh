// What the two passes of DeltaNet with f32 activations share. A matrix is two planes of halves, high + low, each in
// panels, swizzled as they lie in shared memory.
#pragma once

#include <cuda_fp16.h>

#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/delta_net_tile.cuh"

namespace clef::cuda {

// Keys, queries and scores are at most 1: times this, their low halves lose nothing to FP16's least numbers.
inline constexpr float kPlaneScale = 256.0F;

// A chunk of a key head, times kPlaneScale; rows past the sequence's end are zeros.
struct KeyPlanes {
  unsigned char k_high[kTileBytes], k_low[kTileBytes], q_high[kTileBytes], q_low[kTileBytes];
};

// A chunk of a value head.
struct ChunkPlanes {
  __half inverse_high[kChunk * kChunk], inverse_low[kChunk * kChunk];  // T, as in ChunkRecord; at most 1
  __half scores_high[kChunk * kChunk], scores_low[kChunk * kChunk];    // (q_i . k_j) D_ij times kPlaneScale
};
struct ChunkGates {                  // as in ChunkRecord
  float value_gates[kChunk / 2][4];  // of two tokens: beta_i, beta_j, -beta_i e^gamma_i, -beta_j e^gamma_j
  float query_decay[kChunk];         // e^gamma_i / sqrt(head_dim)
  float decay_to_last[kChunk];
  float chunk_decay[32];
};
struct ChunkF32Record {
  ChunkPlanes planes;
  ChunkGates gates;
};
static_assert(sizeof(ChunkF32Record) % 128 == 0);

// The workspace holds KeyPlanes [slots, key_heads], then ChunkF32Record [slots, value_heads].
inline KeyPlanes* key_planes(const DeltaNetF32Args& args) { return static_cast<KeyPlanes*>(args.workspace); }
inline ChunkF32Record* chunk_records(const DeltaNetF32Args& args) {
  return reinterpret_cast<ChunkF32Record*>(key_planes(args) +
                                           static_cast<std::size_t>(slot_count(args.tokens, args.sequences)) *
                                               static_cast<std::size_t>(args.key_heads));
}

cudaError_t launch_delta_net_f32_prepare(const DeltaNetF32Args& args, cudaStream_t stream);
cudaError_t launch_delta_net_f32_scan(const DeltaNetF32Args& args, cudaStream_t stream);

}  // namespace clef::cuda
