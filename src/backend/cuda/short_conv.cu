// ShortConv: four taps, SiLU, and unit queries and keys.
// Arithmetic: f32; taps ascending, one fma each; a head's squares eight a lane in order, then a butterfly of 16 lanes.
// Schedule:   sixteen lanes a head, each over a run of tokens with the last three kept in registers; runs are shorter
//             when there are few tokens.
// Bound:      memory, 4 bytes a feature, 8 of f32.
#include <type_traits>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/launch.h"

namespace clef::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadsPerBlock = kThreads / kLanesPerHead;
constexpr int kHistory = kShortConvTaps - 1;
constexpr int kStep = 4;  // tokens loaded before the first is used
static_assert(kStep >= kHistory);
constexpr float kNormEps = 1e-6F;

template <typename Args>
using Activation = std::remove_pointer_t<decltype(Args::q)>;

// Whether there were any numbers past FP16's range, now saturated, with flags to say so.
__device__ bool saturated(const ShortConvArgs& args, Bits8<__half>& bits) {
  return args.overflow != nullptr && saturate(bits.words);
}
__device__ void set_flag(const ShortConvArgs& args, int sequence) { args.overflow[sequence] = 1; }
__device__ bool saturated(const ShortConvF32Args& /*args*/, Bits8<float>& /*bits*/) { return false; }
__device__ void set_flag(const ShortConvF32Args& /*args*/, int /*sequence*/) {}

// Where tokens' rows of x lie, asked for in ascending order: among the known or among the new ones. Most runs of tokens
// have theirs one after the other; looking up each by itself makes the whole a sixth slower.
template <bool kHasPrefix, typename Args>
class Rows {
 public:
  using T = Activation<Args>;
  // For tokens from `first` on and before `last`, and those kHistory before them that are of the same sequence, which
  // begins with `start` and ends before `end`.
  __device__ Rows(const Args& args, std::int64_t channel, int sequence, int start, int end, int first, int last)
      : args_(args), channel_(channel), sequence_(sequence), start_(start), end_(end) {
    base_ = args.x + channel;
    stride_ = args.x_stride;
    if constexpr (kHasPrefix) {
      const bool is_known = last - start <= args.prefix_tokens;
      in_a_row_ = last <= end && (is_known || max(first - kHistory, start) - start >= args.prefix_tokens);
      if (is_known) {
        base_ = args.prefix + channel - start * args.prefix_stride;
        stride_ = args.prefix_stride;
      } else {
        base_ -= (sequence + 1) * args.prefix_tokens * args.x_stride;
      }
    }
  }
  __device__ const T* of(int token) {
    if (!kHasPrefix || in_a_row_) return base_ + token * stride_;
    while (token >= end_) {
      ++sequence_;
      start_ = end_;
      end_ = __ldg(args_.cu_seqlens + sequence_ + 1);
    }
    const int place = token - start_;
    if (place < args_.prefix_tokens) return args_.prefix + channel_ + place * args_.prefix_stride;
    return args_.x + channel_ + (std::int64_t{token} - (sequence_ + 1) * args_.prefix_tokens) * args_.x_stride;
  }

 private:
  const Args& args_;
  const std::int64_t channel_;
  int sequence_, start_, end_;
  const T* base_;
  std::int64_t stride_;
  bool in_a_row_ = true;
};

template <int kRun, bool kHasPrefix, typename Args>
__global__ void __launch_bounds__(kThreads) short_conv_kernel(const Args args) {
  let_next_start();
  using T = Activation<Args>;
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
  T* const out = (is_query ? args.q
                  : is_key ? args.k
                           : args.v) +
                 std::int64_t{head - first_head} * kDeltaNetHeadDim + lane_feature;

  // Nothing writes the weights, so they are read while the kernel ahead still runs.
  float weight[kShortConvTaps][kFeaturesPerLane];
#pragma unroll
  for (int tap = 0; tap < kShortConvTaps; ++tap) {
    unpack8(load_bits(args.weight + tap * channels + channel), weight[tap]);
  }
  // Nor what was uploaded for the pass.
  const int first = static_cast<int>(blockIdx.y) * kRun, last = min(first + kRun, args.tokens);
  int sequence = sequence_of(args.cu_seqlens, args.sequences, first);
  int start = __ldg(args.cu_seqlens + sequence), end = __ldg(args.cu_seqlens + sequence + 1);
  wait_for_inputs();

  // A window of rows: kHistory from before the step's tokens, then theirs. Rows of another sequence are zeroed.
  Rows<kHasPrefix, Args> x(args, channel, sequence, start, end, first, last);
  Bits8<T> rows[kHistory + kStep];
#pragma unroll
  for (int i = 0; i < kHistory; ++i) rows[i] = load_bits(x.of(max(first - kHistory + i, start)));

  Bits8<T> next[kStep];
  const auto load_next = [&](int group) {
#pragma unroll
    for (int step = 0; step < kStep; ++step) {
      next[step] = load_bits(x.of(min(group + step, last - 1)));
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
        y[i] = silu_for<T>(y[i]);
        squares = __fmaf_rn(y[i], y[i], squares);
      }
      squares = sum_over_head(squares);
      const float scale = is_unit ? rsqrtf(squares + kNormEps) : 1.0F;
#pragma unroll
      for (int i = 0; i < kFeaturesPerLane; ++i) y[i] *= scale;
      Bits8<T> bits;
      pack8(y, bits);
      const bool overflowed = saturated(args, bits);
      if (idle) continue;
      store_bits(out + token * out_stride, bits);
      if (overflowed) set_flag(args, sequence);
    }
#pragma unroll
    for (int i = 0; i < kHistory; ++i) rows[i] = rows[kStep + i];
  }
}

template <int kRun, typename Args>
cudaError_t launch(const Args& args, cudaStream_t stream) {
  const int heads = 2 * args.key_heads + args.value_heads;
  const dim3 grid(static_cast<unsigned>((heads + kHeadsPerBlock - 1) / kHeadsPerBlock),
                  static_cast<unsigned>((args.tokens + kRun - 1) / kRun));
  const Launch launch(grid, kThreads, 0, stream);
  return args.prefix_tokens > 0 ? launch.run(short_conv_kernel<kRun, true, Args>, args)
                                : launch.run(short_conv_kernel<kRun, false, Args>, args);
}

template <typename Args>
cudaError_t launch_any(const Args& args, cudaStream_t stream) {
  constexpr std::int64_t kAligned = 16 / sizeof(Activation<Args>);
  if (args.tokens == 0) return cudaSuccess;
  if (args.x_stride % kAligned != 0 || args.prefix_stride % kAligned != 0) return cudaErrorInvalidValue;
  return args.tokens <= 2048 ? launch<kStep>(args, stream) : launch<4 * kStep>(args, stream);
}

}  // namespace

cudaError_t launch_short_conv(const ShortConvArgs& args, cudaStream_t stream) { return launch_any(args, stream); }
cudaError_t launch_short_conv_f32(const ShortConvF32Args& args, cudaStream_t stream) {
  return launch_any(args, stream);
}

}  // namespace clef::cuda
