// What the attention kernels share: which rows a block has, and how a result leaves.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/tile.cuh"

namespace clef::cuda {


// The softmax's sums start from this, not from minus infinity, where a difference of two such would be NaN.
inline constexpr float kLargestHalf = 65504.0F;

// Some tokens of one sequence.
struct SequenceTile {
  int sequence;
  int start;   // the sequence's first token
  int length;  // the sequence's tokens
  int first;   // the tile's first token, counted from `start`; a tile at or past `length` has no rows

  // Where the sequence's first token would have its row in a matrix that lacks each sequence's first `prefix` ones.
  __device__ __forceinline__ int start_without(int prefix) const { return start - (sequence + 1) * prefix; }
};

// The host knows how many tokens and sequences there are, not where they lie. A tile of `rows` tokens is found by its
// slot: sequence s has the slots from cu[s] / rows + s on, at least as many as it has tiles, and
// tokens / rows + sequences slots hold them all.
inline __host__ __device__ std::int64_t tile_slots(std::int64_t tokens, std::int64_t sequences, int rows) {
  return tokens / rows + sequences;
}

__device__ __forceinline__ SequenceTile find_tile(const int* cu, int sequences, int rows, int slot) {
  int low = 0, high = sequences;  // the sequence is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (cu[middle] / rows + middle <= slot) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const int start = cu[low];
  return {low, start, cu[low + 1] - start, (slot - start / rows - low) * rows};
}

// Brings a result into FP16's range; `bad` becomes true where it was not.
__device__ __forceinline__ float saturate(float x, bool& bad) {
  const bool inside = fabsf(x) <= kLargestHalf;  // false for NaN
  bad |= !inside;
  const float clamped = fminf(fmaxf(x, -kLargestHalf), kLargestHalf);
  return x == x ? clamped : 0.0F;
}

// The same for two values that were rounded to FP16 before they were looked at.
__device__ __forceinline__ std::uint32_t saturate_halves(std::uint32_t halves) {
  std::uint32_t result = 0;
#pragma unroll
  for (int shift = 0; shift < 32; shift += 16) {
    const std::uint32_t value = halves >> shift & 0xffffu, magnitude = value & 0x7fffu;
    const std::uint32_t largest = (value & 0x8000u) | 0x7bffu;
    result |= (magnitude > 0x7c00u ? 0u : magnitude == 0x7c00u ? largest : value) << shift;
  }
  return result;
}

__device__ __forceinline__ float approximate_sigmoid(float x) {
  return reciprocal_approximate(1.0F + exp2_approximate(-kLog2E * x));
}

}  // namespace clef::cuda
