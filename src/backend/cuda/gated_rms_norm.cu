// GatedRmsNorm over heads of 128 features.
// Arithmetic: f32; squares eight a lane in order, then a butterfly of 16 lanes.
// Schedule:   sixteen lanes a head of a token.
// Bound:      memory, 6 bytes a feature.
#include <limits>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"

namespace clef::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kLanesPerHead;

__device__ void load_gain(const float* from, float (&gain)[kFeaturesPerLane]) {
  const auto* const pieces = reinterpret_cast<const float4*>(from);
  const float4 low = __ldg(pieces), high = __ldg(pieces + 1);
  gain[0] = low.x, gain[1] = low.y, gain[2] = low.z, gain[3] = low.w;
  gain[4] = high.x, gain[5] = high.y, gain[6] = high.z, gain[7] = high.w;
}

// x becomes gain * (x / sqrt(mean(x^2) + eps)) * silu_approximate(z). Whole warps call it together.
__device__ void gated_rms_norm(float (&x)[kFeaturesPerLane], const float (&z)[kFeaturesPerLane],
                               const float (&gain)[kFeaturesPerLane], float eps) {
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) squares = __fmaf_rn(x[i], x[i], squares);
  squares = sum_over_head(squares);
  const float scale = rsqrtf(__fmaf_rn(squares, 1.0F / kDeltaNetHeadDim, eps));
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) x[i] = gain[i] * (x[i] * scale) * silu_approximate(z[i]);
}

__global__ void __launch_bounds__(kThreads) gated_rms_norm_kernel(const GatedRmsNormArgs args, unsigned rows) {
  const unsigned row = blockIdx.x * kRowsPerBlock + threadIdx.x / kLanesPerHead;
  const bool idle = row >= rows;  // stays, for the shuffles
  const auto heads = static_cast<unsigned>(args.heads);
  const unsigned token = idle ? 0 : row / heads, head = idle ? 0 : row % heads;
  const int feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  const std::int64_t place = (std::int64_t{token} * heads + head) * kDeltaNetHeadDim + feature;
  float x[kFeaturesPerLane], z[kFeaturesPerLane], gain[kFeaturesPerLane];
  unpack8(load_bits(args.x + place), x);
  unpack8(load_bits(args.z + token * args.z_stride + std::int64_t{head} * kDeltaNetHeadDim + feature), z);
  load_gain(args.gain + feature, gain);
  gated_rms_norm(x, z, gain, args.eps);
  uint4 y = pack8(x);
  const bool overflowed = args.overflow != nullptr && saturate(y) && !idle;
  if (!idle) *reinterpret_cast<uint4*>(args.y + place) = y;
  if (__ballot_sync(~0U, overflowed) == 0) return;
  // The warp's two rows may lie in two sequences.
  const int token_of_first = __shfl_sync(~0U, static_cast<int>(token), 0);
  const int token_of_second = __shfl_sync(~0U, static_cast<int>(token), kLanesPerHead);
  const int first = sequence_of(args.cu_seqlens, args.sequences, token_of_first);
  const int second = sequence_of(args.cu_seqlens, args.sequences, token_of_second);
  if (overflowed) args.overflow[threadIdx.x % 32 < kLanesPerHead ? first : second] = 1;
}

}  // namespace

cudaError_t launch_gated_rms_norm(const GatedRmsNormArgs& args, cudaStream_t stream) {
  const std::int64_t rows = std::int64_t{args.tokens} * args.heads;
  if (rows == 0) return cudaSuccess;
  if (args.z_stride % kFeaturesPerLane != 0 || rows > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  gated_rms_norm_kernel<<<blocks, kThreads, 0, stream>>>(args, static_cast<unsigned>(rows));
  return cudaGetLastError();
}

}  // namespace clef::cuda
