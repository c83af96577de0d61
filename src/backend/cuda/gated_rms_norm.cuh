// GatedRmsNorm of one head of one token, eight features in each of sixteen lanes: what the kernel of that name and
// DeltaNet's epilogue do, bit for bit.
#pragma once

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"

namespace clef::cuda {

// x becomes gain * (x / sqrt(mean(x^2) + eps)) * silu(z). Whole warps call it together.
__device__ inline void gated_rms_norm(float (&x)[kFeaturesPerLane], const float (&z)[kFeaturesPerLane],
                                      const float (&gain)[kFeaturesPerLane], float eps) {
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) squares = __fmaf_rn(x[i], x[i], squares);
  squares = sum_over_head(squares);
  const float scale = 1.0F / sqrtf(squares * (1.0F / kDeltaNetHeadDim) + eps);
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) x[i] = gain[i] * (x[i] * scale) * silu(z[i]);
}

}  // namespace clef::cuda
