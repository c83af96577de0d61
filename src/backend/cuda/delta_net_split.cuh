// Numbers of f32 as two halves, high + low: 22 bits of each, where the low half does not fall below FP16's least.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "backend/cuda/tile.cuh"

namespace clef::cuda {

// A product's operand [16, 16].
struct Split {
  std::uint32_t high[4], low[4];
};

__device__ __forceinline__ std::uint32_t split(float x, float y, std::uint32_t& low) {
  const std::uint32_t high = pack_halves(x, y);
  const float2 rounded = unpack_halves(high);
  low = pack_halves(x - rounded.x, y - rounded.y);
  return high;
}

}  // namespace clef::cuda
