// GatedRmsNorm of one head of one token, eight features in each of sixteen lanes: what the kernel of that name and
// DeltaNet's epilogue do, bit for bit.
#pragma once

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"

namespace clef::cuda {

__device__ inline void load_gain(const float* from, float (&gain)[kFeaturesPerLane]) {
  const auto* const pieces = reinterpret_cast<const float4*>(from);
  const float4 low = __ldg(pieces), high = __ldg(pieces + 1);
  gain[0] = low.x, gain[1] = low.y, gain[2] = low.z, gain[3] = low.w;
  gain[4] = high.x, gain[5] = high.y, gain[6] = high.z, gain[7] = high.w;
}

// x becomes gain * (x / sqrt(mean(x^2) + eps)) * silu(z). Whole warps call it together.
__device__ inline void gated_rms_norm(float (&x)[kFeaturesPerLane], const float (&z)[kFeaturesPerLane],
                                      const float (&gain)[kFeaturesPerLane], float eps) {
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) squares = __fmaf_rn(x[i], x[i], squares);
  squares = sum_over_head(squares);
  const float scale = rsqrtf(__fmaf_rn(squares, 1.0F / kDeltaNetHeadDim, eps));
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) x[i] = gain[i] * (x[i] * scale) * silu(z[i]);
}

}  // namespace clef::cuda
