// GatedRmsNorm over heads of 128 features.
// Arithmetic: f32; squares eight a lane in order, then a butterfly of 16 lanes.
// Schedule:   sixteen lanes a head of a token; with a low part, a block a token.
// Bound:      memory, 6 bytes a feature, 12 of f32.
#include <limits>
#include <type_traits>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/low_part.cuh"

namespace clef::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsPerBlock = kThreads / kLanesPerHead;

template <typename Args>
using Activation = std::remove_pointer_t<decltype(Args::y)>;

// x becomes gain * (x / sqrt(mean(x^2) + eps)) * silu(z). Whole warps call it together.
template <typename T>
__device__ void gated_rms_norm(float (&x)[kFeaturesPerLane], const float (&z)[kFeaturesPerLane],
                               const float (&gain)[kFeaturesPerLane], float eps) {
  float squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) squares = __fmaf_rn(x[i], x[i], squares);
  squares = sum_over_head(squares);
  const float scale = rsqrtf(__fmaf_rn(squares, 1.0F / kDeltaNetHeadDim, eps));
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) x[i] = gain[i] * (x[i] * scale) * silu_for<T>(z[i]);
}

// Saturates what FP16 cannot hold, and tells the sequence's flag; by whole warps, whose two rows may lie in two
// sequences.
__device__ void saturate_and_flag(const GatedRmsNormArgs& args, Bits8<__half>& y, unsigned token, bool idle) {
  const bool overflowed = args.overflow != nullptr && saturate(y.words) && !idle;
  if (__ballot_sync(~0U, overflowed) == 0) return;
  const int token_of_first = __shfl_sync(~0U, static_cast<int>(token), 0);
  const int token_of_second = __shfl_sync(~0U, static_cast<int>(token), kLanesPerHead);
  const int first = sequence_of(args.cu_seqlens, args.sequences, token_of_first);
  const int second = sequence_of(args.cu_seqlens, args.sequences, token_of_second);
  if (overflowed) args.overflow[threadIdx.x % 32 < kLanesPerHead ? first : second] = 1;
}
__device__ void saturate_and_flag(const GatedRmsNormF32Args& /*args*/, Bits8<float>& /*y*/, unsigned /*token*/,
                                  bool /*idle*/) {}

template <typename Args>
__global__ void __launch_bounds__(kThreads) gated_rms_norm_kernel(const Args args, unsigned rows) {
  let_next_start();
  using T = Activation<Args>;
  const unsigned row = blockIdx.x * kRowsPerBlock + threadIdx.x / kLanesPerHead;
  const bool idle = row >= rows;  // stays, for the shuffles
  const auto heads = static_cast<unsigned>(args.heads);
  const unsigned token = idle ? 0 : row / heads, head = idle ? 0 : row % heads;
  const int feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  const std::int64_t place = (std::int64_t{token} * heads + head) * kDeltaNetHeadDim + feature;
  float x[kFeaturesPerLane], z[kFeaturesPerLane], gain[kFeaturesPerLane];
  unpack8(load_bits(args.gain + feature), gain);  // a weight, which no kernel writes
  wait_for_inputs();
  unpack8(load_bits(args.x + place), x);
  unpack8(load_bits(args.z + token * args.z_stride + std::int64_t{head} * kDeltaNetHeadDim + feature), z);
  gated_rms_norm<T>(x, z, gain, args.eps);
  Bits8<T> y;
  pack8(x, y);
  saturate_and_flag(args, y, token, idle);
  if (!idle) store_bits(args.y + place, y);
}

// A block a token, which holds its heads: the low part's scale is the whole row's.
constexpr int kMostHeld = 4;  // eights of features a thread: rows up to 8,192 wide

__global__ void __launch_bounds__(kThreads) gated_rms_norm_low_kernel(const GatedRmsNormLowArgs args) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t token = blockIdx.x, width = std::int64_t{args.heads} * kDeltaNetHeadDim;
  const std::int64_t token_place = args.places == nullptr ? token : args.places[token];
  const int feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  float gain[kFeaturesPerLane], held[kMostHeld][kFeaturesPerLane];
  unpack8(load_bits(args.gain + feature), gain);
  float most = 0;
#pragma unroll
  for (int i = 0; i < kMostHeld; ++i) {
    if (i * kRowsPerBlock >= args.heads) break;
    const int head = i * kRowsPerBlock + static_cast<int>(threadIdx.x) / kLanesPerHead;
    const bool idle = head >= args.heads;  // stays, for the shuffles
    const std::int64_t place = std::int64_t{idle ? 0 : head} * kDeltaNetHeadDim + feature;
    float z[kFeaturesPerLane];
    unpack8(load_bits(args.x + token * width + place), held[i]);
    unpack8(load_bits(args.z + token * args.z_stride + place), z);
    gated_rms_norm<float>(held[i], z, gain, args.eps);
    if (idle) continue;
    Bits8<__half> y;
    pack8(held[i], y);
    store_bits(args.y + token * width + place, y);
    if (token_place < 0) continue;
#pragma unroll
    for (float& x : held[i]) {
      x = lost_by_half(x);
      most = fmaxf(most, fabsf(x));
    }
  }
  if (token_place < 0) return;
  const LowScale by = low_scale(block_max<kThreads>(most));
  if (threadIdx.x == 0) args.low_scales[token_place] = by.scale;
#pragma unroll
  for (int i = 0; i < kMostHeld; ++i) {
    const int head = i * kRowsPerBlock + static_cast<int>(threadIdx.x) / kLanesPerHead;
    if (head >= args.heads) continue;
    const float(&x)[kFeaturesPerLane] = held[i];
    const auto bytes = [&](int first) {
      return low_bytes(x[first] * by.factor, x[first + 1] * by.factor, x[first + 2] * by.factor,
                       x[first + 3] * by.factor);
    };
    *reinterpret_cast<uint2*>(args.low + token_place * args.low_stride + head * kDeltaNetHeadDim + feature) =
        make_uint2(bytes(0), bytes(4));
  }
}

template <typename Args>
cudaError_t launch(const Args& args, cudaStream_t stream) {
  constexpr std::int64_t kAligned = 16 / sizeof(Activation<Args>);
  const std::int64_t rows = std::int64_t{args.tokens} * args.heads;
  if (rows == 0) return cudaSuccess;
  if (args.z_stride % kAligned != 0 || rows > std::numeric_limits<int>::max()) return cudaErrorInvalidValue;
  const auto blocks = static_cast<unsigned>((rows + kRowsPerBlock - 1) / kRowsPerBlock);
  return Launch(blocks, kThreads, 0, stream).run(gated_rms_norm_kernel<Args>, args, static_cast<unsigned>(rows));
}

}  // namespace

cudaError_t launch_gated_rms_norm(const GatedRmsNormArgs& args, cudaStream_t stream) { return launch(args, stream); }
cudaError_t launch_gated_rms_norm_f32(const GatedRmsNormF32Args& args, cudaStream_t stream) {
  return launch(args, stream);
}
cudaError_t launch_gated_rms_norm_low(const GatedRmsNormLowArgs& args, cudaStream_t stream) {
  if (args.tokens == 0) return cudaSuccess;
  if (args.z_stride % 4 != 0 || args.low_stride % kFeaturesPerLane != 0 || args.heads > kMostHeld * kRowsPerBlock) {
    return cudaErrorInvalidValue;
  }
  return Launch(static_cast<unsigned>(args.tokens), kThreads, 0, stream).run(gated_rms_norm_low_kernel, args);
}

}  // namespace clef::cuda
