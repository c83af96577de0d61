// GatedRmsNorm over heads of 128 features.
// Arithmetic: f32; squares eight a lane in order, then a butterfly of 16 lanes.
// Schedule:   sixteen lanes a head of a token.
// Bound:      memory, 6 bytes a feature.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/gated_rms_norm.cuh"

namespace clef::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kLanesPerHead;

__global__ void __launch_bounds__(kThreads) gated_rms_norm_kernel(const GatedRmsNormArgs args) {
  const std::int64_t rows = std::int64_t{args.tokens} * args.heads;
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kLanesPerHead;
  const int feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  const bool idle = row >= rows;  // stays, for the shuffles
  const int token = static_cast<int>((idle ? 0 : row) / args.heads);
  const int head = static_cast<int>((idle ? 0 : row) % args.heads);
  const std::int64_t place = (std::int64_t{token} * args.heads + head) * kDeltaNetHeadDim + feature;
  float x[kFeaturesPerLane], z[kFeaturesPerLane], gain[kFeaturesPerLane];
  load8(args.x + place, x);
  load8(args.z + token * args.z_stride + std::int64_t{head} * kDeltaNetHeadDim + feature, z);
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) gain[i] = __ldg(args.gain + feature + i);
  gated_rms_norm(x, z, gain, args.eps);
  bool overflowed = false;
  if (idle) return;
  store8(args.y + place, x, overflowed);
  if (overflowed && args.overflow != nullptr) {
    args.overflow[sequence_of(args.cu_seqlens, args.sequences, token)] = 1;
  }
}

}  // namespace

cudaError_t launch_gated_rms_norm(const GatedRmsNormArgs& args, cudaStream_t stream) {
  const std::int64_t rows = std::int64_t{args.tokens} * args.heads;
  if (rows == 0) return cudaSuccess;
  if (args.z_stride % kFeaturesPerLane != 0) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  gated_rms_norm_kernel<<<blocks, kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace clef::cuda
