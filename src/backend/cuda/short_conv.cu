// ShortConv: four taps, SiLU, and unit queries and keys.
// Arithmetic: f32; taps ascending, one fma each; a head's squares eight a lane in order, then a butterfly of 16 lanes.
// Schedule:   sixteen lanes a head, each over a run of tokens with the last three kept in registers; runs are shorter
//             when there are few tokens.
// Bound:      memory, 4 bytes a feature.
#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"

namespace clef::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadsPerBlock = kThreads / kLanesPerHead;
constexpr int kHistory = kShortConvTaps - 1;
constexpr int kStep = 4;  // tokens loaded before the first is used
constexpr float kNormEps = 1e-6F;

// The channels' last three inputs and the current one, oldest first.
struct Window {
  float x[kShortConvTaps][kFeaturesPerLane];

  __device__ void clear() {
#pragma unroll
    for (int tap = 0; tap < kShortConvTaps; ++tap) {
#pragma unroll
      for (int i = 0; i < kFeaturesPerLane; ++i) x[tap][i] = 0.0F;
    }
  }
  __device__ void push(const float (&next)[kFeaturesPerLane]) {
#pragma unroll
    for (int i = 0; i < kFeaturesPerLane; ++i) {
#pragma unroll
      for (int tap = 0; tap < kHistory; ++tap) x[tap][i] = x[tap + 1][i];
      x[kHistory][i] = next[i];
    }
  }
};

template <int kRun>
__global__ void __launch_bounds__(kThreads) short_conv_kernel(const ShortConvArgs args) {
  const int heads = 2 * args.key_heads + args.value_heads;
  const int head = static_cast<int>(blockIdx.x) * kHeadsPerBlock + static_cast<int>(threadIdx.x) / kLanesPerHead;
  const int lane_feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  const bool idle = head >= heads;  // stays, for the shuffles
  const std::int64_t channels = std::int64_t{heads} * kDeltaNetHeadDim;
  const std::int64_t channel = std::int64_t{idle ? 0 : head} * kDeltaNetHeadDim + lane_feature;

  const bool is_query = head < args.key_heads, is_key = !is_query && head < 2 * args.key_heads;
  const int first_head = is_query ? 0 : is_key ? args.key_heads : 2 * args.key_heads;
  const std::int64_t out_stride =
      std::int64_t{is_query || is_key ? args.key_heads : args.value_heads} * kDeltaNetHeadDim;
  __half* out = (is_query ? args.q
                 : is_key ? args.k
                          : args.v) +
                std::int64_t{head - first_head} * kDeltaNetHeadDim + lane_feature;

  float weight[kShortConvTaps][kFeaturesPerLane];
#pragma unroll
  for (int tap = 0; tap < kShortConvTaps; ++tap) {
#pragma unroll
    for (int i = 0; i < kFeaturesPerLane; ++i) weight[tap][i] = __ldg(args.weight + tap * channels + channel + i);
  }

  const int first = static_cast<int>(blockIdx.y) * kRun, last = min(first + kRun, args.tokens);
  int sequence = sequence_of(args.cu_seqlens, args.sequences, first);
  int end = __ldg(args.cu_seqlens + sequence + 1);
  Window window;
  window.clear();
  for (int token = max(first - kHistory, __ldg(args.cu_seqlens + sequence)); token < first; ++token) {
    float x[kFeaturesPerLane];
    load8(args.x + token * args.x_stride + channel, x);
    window.push(x);
  }

  for (int group = first; group < last; group += kStep) {
    float x[kStep][kFeaturesPerLane];
#pragma unroll
    for (int step = 0; step < kStep; ++step) {
      load8(args.x + std::int64_t{min(group + step, last - 1)} * args.x_stride + channel, x[step]);
    }
#pragma unroll
    for (int step = 0; step < kStep; ++step) {
      const int token = group + step;
      if (token >= last) break;
      if (token == end) {  // a new sequence has no history
        while (__ldg(args.cu_seqlens + sequence + 1) <= token) ++sequence;
        end = __ldg(args.cu_seqlens + sequence + 1);
        window.clear();
      }
      window.push(x[step]);
      float y[kFeaturesPerLane], squares = 0.0F;
#pragma unroll
      for (int i = 0; i < kFeaturesPerLane; ++i) {
        float sum = weight[0][i] * window.x[0][i];
#pragma unroll
        for (int tap = 1; tap < kShortConvTaps; ++tap) sum = __fmaf_rn(weight[tap][i], window.x[tap][i], sum);
        y[i] = silu(sum);
        squares = __fmaf_rn(y[i], y[i], squares);
      }
      squares = sum_over_head(squares);
      if (is_query || is_key) {
        const float scale = 1.0F / sqrtf(squares + kNormEps);
#pragma unroll
        for (int i = 0; i < kFeaturesPerLane; ++i) y[i] *= scale;
      }
      bool overflowed = false;
      if (!idle) {
        store8(out + token * out_stride, y, overflowed);
        if (overflowed && args.overflow != nullptr) args.overflow[sequence] = 1;
      }
    }
  }
}

template <int kRun>
void launch(const ShortConvArgs& args, cudaStream_t stream) {
  const int heads = 2 * args.key_heads + args.value_heads;
  const dim3 grid(static_cast<unsigned>((heads + kHeadsPerBlock - 1) / kHeadsPerBlock),
                  static_cast<unsigned>((args.tokens + kRun - 1) / kRun));
  short_conv_kernel<kRun><<<grid, kThreads, 0, stream>>>(args);
}

}  // namespace

cudaError_t launch_short_conv(const ShortConvArgs& args, cudaStream_t stream) {
  if (args.tokens == 0) return cudaSuccess;
  if (args.x_stride % kFeaturesPerLane != 0) return cudaErrorInvalidValue;
  if (args.tokens <= 2048) {
    launch<kStep>(args, stream);
  } else {
    launch<4 * kStep>(args, stream);
  }
  return cudaGetLastError();
}

}  // namespace clef::cuda
