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
static_assert(kStep >= kHistory);
constexpr float kNormEps = 1e-6F;

__device__ void load_weight(const float* from, float (&w)[kFeaturesPerLane]) {
  const auto* const pieces = reinterpret_cast<const float4*>(from);
  const float4 low = __ldg(pieces), high = __ldg(pieces + 1);
  w[0] = low.x, w[1] = low.y, w[2] = low.z, w[3] = low.w;
  w[4] = high.x, w[5] = high.y, w[6] = high.z, w[7] = high.w;
}

template <int kRun>
__global__ void __launch_bounds__(kThreads) short_conv_kernel(const ShortConvArgs args) {
  const int heads = 2 * args.key_heads + args.value_heads;
  const int head = static_cast<int>(blockIdx.x) * kHeadsPerBlock + static_cast<int>(threadIdx.x) / kLanesPerHead;
  const int lane_feature = static_cast<int>(threadIdx.x) % kLanesPerHead * kFeaturesPerLane;
  const bool idle = head >= heads;  // stays, for the shuffles
  const std::int64_t channels = std::int64_t{heads} * kDeltaNetHeadDim;
  const std::int64_t channel = std::int64_t{idle ? 0 : head} * kDeltaNetHeadDim + lane_feature;

  const bool is_query = head < args.key_heads, is_key = !is_query && head < 2 * args.key_heads;
  const bool is_unit = is_query || is_key;
  const int first_head = is_query ? 0 : is_key ? args.key_heads : 2 * args.key_heads;
  const std::int64_t out_stride = std::int64_t{is_unit ? args.key_heads : args.value_heads} * kDeltaNetHeadDim;
  __half* const out = (is_query ? args.q
                       : is_key ? args.k
                                : args.v) +
                      std::int64_t{head - first_head} * kDeltaNetHeadDim + lane_feature;

  // A window of rows: kHistory from before the step's tokens, then theirs. Rows of another sequence are zeroed.
  const int first = static_cast<int>(blockIdx.y) * kRun, last = min(first + kRun, args.tokens);
  const __half* const x = args.x + channel;
  uint4 rows[kHistory + kStep];
#pragma unroll
  for (int i = 0; i < kHistory; ++i)
    rows[i] = load_bits(x + std::int64_t{max(first - kHistory + i, 0)} * args.x_stride);
  float weight[kShortConvTaps][kFeaturesPerLane];
#pragma unroll
  for (int tap = 0; tap < kShortConvTaps; ++tap) load_weight(args.weight + tap * channels + channel, weight[tap]);
  int sequence = sequence_of(args.cu_seqlens, args.sequences, first);
  int start = __ldg(args.cu_seqlens + sequence), end = __ldg(args.cu_seqlens + sequence + 1);

  uint4 next[kStep];
  const auto load_next = [&](int group) {
#pragma unroll
    for (int step = 0; step < kStep; ++step) {
      next[step] = load_bits(x + std::int64_t{min(group + step, last - 1)} * args.x_stride);
    }
  };
  load_next(first);
#pragma unroll 1
  for (int group = first; group < last; group += kStep) {
#pragma unroll
    for (int step = 0; step < kStep; ++step) rows[kHistory + step] = next[step];
    if (group + kStep < last) load_next(group + kStep);
#pragma unroll
    for (int step = 0; step < kStep; ++step) {
      const int token = group + step;
      if (token >= last) break;
      if (token == end) {
        while (__ldg(args.cu_seqlens + sequence + 1) <= token) ++sequence;
        start = token;
        end = __ldg(args.cu_seqlens + sequence + 1);
      }
      float y[kFeaturesPerLane] = {}, squares = 0.0F;
#pragma unroll
      for (int tap = 0; tap < kShortConvTaps; ++tap) {
        if (token - kHistory + tap < start) continue;  // nothing was before the sequence
        float row[kFeaturesPerLane];
        unpack8(rows[step + tap], row);
#pragma unroll
        for (int i = 0; i < kFeaturesPerLane; ++i) y[i] = __fmaf_rn(weight[tap][i], row[i], y[i]);
      }
#pragma unroll
      for (int i = 0; i < kFeaturesPerLane; ++i) {
        y[i] = silu_approximate(y[i]);
        squares = __fmaf_rn(y[i], y[i], squares);
      }
      squares = sum_over_head(squares);
      const float scale = is_unit ? rsqrtf(squares + kNormEps) : 1.0F;
#pragma unroll
      for (int i = 0; i < kFeaturesPerLane; ++i) y[i] *= scale;
      uint4 bits = pack8(y);
      const bool overflowed = args.overflow != nullptr && saturate(bits);
      if (idle) continue;
      *reinterpret_cast<uint4*>(out + token * out_stride) = bits;
      if (overflowed) args.overflow[sequence] = 1;
    }
#pragma unroll
    for (int i = 0; i < kHistory; ++i) rows[i] = rows[kStep + i];
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
