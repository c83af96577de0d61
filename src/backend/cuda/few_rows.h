// The product of few f32 rows with a weight.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/product_sm90.h"

namespace clef::cuda {

inline constexpr std::int64_t kMostFewRowsDepth = 6144;  // eight rows of it fill a multiprocessor's shared memory

// y = follow(alpha * x * w^T + bias), any Follow but swiglu; with `add` the y that was there joins before the bias.
struct FewRowsArgs {
  float* y;
  std::int64_t y_stride;
  const float* x;  // [rows, depth]
  std::int64_t x_stride;
  const __half* w;    // [columns, depth], depth a multiple of 8
  const float* bias;  // [columns] or null
  std::int64_t rows, columns, depth;
  float alpha;
  Follow follow;
};
cudaError_t launch_few_rows(const FewRowsArgs& args, cudaStream_t stream);

}  // namespace clef::cuda
