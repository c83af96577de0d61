// A weight's way onto the GPU: BF16 values become FP16 times a power of two.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/tensor.h"

namespace clef::cuda {

// FP16 keeps all 8 significant bits of a BF16 value whose scaled magnitude lies in [2^-17, 65504]. With 2^12 that is
// [2^-29, 16): beyond it lie no weights of a trained layer that matter, and those there are get counted.
inline constexpr int kWeightExponent = 12;

struct ReencodeCounts {
  unsigned long long rounded;    // values that lost bits
  unsigned long long overflown;  // values past 65504 after scaling
};

// In place when the types are equally wide. values *= 2^exponent; counts (on the device) are added to.
cudaError_t reencode(__half* to, const void* from, DType dtype, std::int64_t count, int exponent,
                     ReencodeCounts* counts, cudaStream_t stream);

// E4M3 copies of f16 rows, times `factor` and saturated; rows `to_stride` bytes apart, zero past the columns.
cudaError_t reencode_low(std::uint8_t* to, std::int64_t to_stride, const __half* from, std::int64_t rows,
                         std::int64_t columns, float factor, cudaStream_t stream);

}  // namespace clef::cuda
