// RmsNorm, LayerNorm and QkNormRope on the GPU; which kernel GatedRmsNorm is given to.
// Arithmetic: f32; strided partial sums a thread, butterfly in the warp, warps in index order.
// Schedule:   one block a row, or one warp where it is narrow; one warp a head (norms of heads); whatever the batch.
// Bound:      memory.
#include <initializer_list>
#include <type_traits>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_common.cuh"
#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/lanes.cuh"
#include "backend/cuda/launch.h"
#include "backend/cuda/low_part.cuh"
#include "backend/cuda/run.h"

namespace clef::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMostHeldWords = 8;  // of four floats a thread: rows up to 8,192 wide are read once

template <typename T>
__device__ void store4(T* to, float a, float b, float c, float d) {
  to[0] = from_float<T>(a);
  to[1] = from_float<T>(b);
  to[2] = from_float<T>(c);
  to[3] = from_float<T>(d);
}
template <>
__device__ void store4<float>(float* to, float a, float b, float c, float d) {
  *reinterpret_cast<float4*>(to) = make_float4(a, b, c, d);
}
template <>
__device__ void store4<__half>(__half* to, float a, float b, float c, float d) {
  __half2 words[2] = {__floats2half2_rn(a, b), __floats2half2_rn(c, d)};
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(words);
}

// A row's gains into what the block's threads hold. They are weights, which no kernel writes, so they are read while
// the kernel ahead still runs.
template <int kHeldWords>
__device__ __forceinline__ void hold_gains(float4 (&held)[kHeldWords], const float* gains, int words) {
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    held[i] = word < words ? __ldg(reinterpret_cast<const float4*>(gains) + word) : make_float4(0, 0, 0, 0);
  }
}

// A row of cols / 4 words, cols a multiple of 4 and at most 4 * kThreads * kHeldWords, into what the block's threads
// hold; 1 over its root mean square.
template <int kHeldWords>
__device__ __forceinline__ float hold_row(float4 (&held)[kHeldWords], const Matrix<const float>& x, float eps) {
  const float4* from = reinterpret_cast<const float4*>(x.row(blockIdx.x));
  const int words = static_cast<int>(x.cols / 4);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    held[i] = word < words ? from[word] : make_float4(0, 0, 0, 0);
    sum += held[i].x * held[i].x + held[i].y * held[i].y + held[i].z * held[i].z + held[i].w * held[i].w;
  }
  return 1.0F / sqrtf(block_sum<kThreads>(sum) / static_cast<float>(x.cols) + eps);
}

template <int kHeldWords, typename T>
__global__ void __launch_bounds__(kThreads) rms_norm(Matrix<T> y, Matrix<const float> x, const float* gain, float eps) {
  let_next_start();
  const int words = static_cast<int>(x.cols / 4);
  float4 held[kHeldWords], gains[kHeldWords];
  hold_gains(gains, gain, words);
  wait_for_inputs();
  const float scale = hold_row(held, x, eps);
  T* to = y.row(blockIdx.x);
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    if (word >= words) continue;
    const float4& g = gains[i];
    store4(to + 4 * word, held[i].x * scale * g.x, held[i].y * scale * g.y, held[i].z * scale * g.z,
           held[i].w * scale * g.w);
  }
}

// The same into f16 and its low part.
template <int kHeldWords>
__global__ void __launch_bounds__(kThreads)
    rms_norm_low(Matrix<__half> y, Matrix<const float> x, const float* gain, float eps, LowRows low) {
  let_next_start();
  const std::int64_t row = blockIdx.x;
  const int words = static_cast<int>(x.cols / 4);
  float4 held[kHeldWords], gains[kHeldWords];
  hold_gains(gains, gain, words);
  wait_for_inputs();
  const float scale = hold_row(held, x, eps);
  const std::int64_t place = low.place_of(row);
  __half* to = y.row(row);
  float most = 0;
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    if (word >= words) continue;
    const float4& g = gains[i];
    float4& v = held[i];
    v = make_float4(v.x * scale * g.x, v.y * scale * g.y, v.z * scale * g.z, v.w * scale * g.w);
    store4(to + 4 * word, v.x, v.y, v.z, v.w);
    if (place < 0) continue;
    v = make_float4(lost_by_half(v.x), lost_by_half(v.y), lost_by_half(v.z), lost_by_half(v.w));
    most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
  }
  if (place < 0) return;
  const LowScale by = low_scale(block_max<kThreads>(most));
  if (threadIdx.x == 0) low.scales[place] = by.scale;
  auto* const low_to = reinterpret_cast<std::uint32_t*>(low.values + place * low.stride);
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    if (word >= words) continue;
    const float4& v = held[i];
    low_to[word] = low_bytes(v.x * by.factor, v.y * by.factor, v.z * by.factor, v.w * by.factor);
  }
}

// A row as y = (x - mean) * scale * gain + bias, four of its columns.
__device__ __forceinline__ float4 normed(const float4& x, float mean, float scale, const float4& g, const float4& b) {
  return make_float4((x.x - mean) * scale * g.x + b.x, (x.y - mean) * scale * g.y + b.y,
                     (x.z - mean) * scale * g.z + b.z, (x.w - mean) * scale * g.w + b.w);
}

template <int kHeldWords, typename T>
__global__ void __launch_bounds__(kThreads)
    layer_norm(Matrix<T> y, Matrix<const float> x, const float* gain, const float* bias, float eps) {
  let_next_start();
  wait_for_inputs();
  const float4* from = reinterpret_cast<const float4*>(x.row(blockIdx.x));
  const int words = static_cast<int>(x.cols / 4);
  const auto n = static_cast<float>(x.cols);
  float4 held[kHeldWords];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    held[i] = word < words ? from[word] : make_float4(0, 0, 0, 0);
    sum += held[i].x + held[i].y + held[i].z + held[i].w;
  }
  const float mean = block_sum<kThreads>(sum) / n;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    if (threadIdx.x + i * kThreads >= words) continue;
    const float4 d = make_float4(held[i].x - mean, held[i].y - mean, held[i].z - mean, held[i].w - mean);
    squares += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
  }
  const float scale = 1.0F / sqrtf(block_sum<kThreads>(squares) / n + eps);
  T* to = y.row(blockIdx.x);
#pragma unroll
  for (int i = 0; i < kHeldWords; ++i) {
    const int word = threadIdx.x + i * kThreads;
    if (word >= words) continue;
    const float4 v = normed(held[i], mean, scale, __ldg(reinterpret_cast<const float4*>(gain) + word),
                            __ldg(reinterpret_cast<const float4*>(bias) + word));
    store4(to + 4 * word, v.x, v.y, v.z, v.w);
  }
}

// A lane: f16 rows, which are a tower's patches and many, have a warp each up to a width of 1,536; few rows, which are
// f32, are sooner done by blocks.
constexpr int kWarpWords = 12;

template <typename T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_of_warps(Matrix<T> y, Matrix<const float> x, const float* gain, const float* bias, float eps) {
  let_next_start();
  wait_for_inputs();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row >= x.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, words = static_cast<int>(x.cols / 4);
  const float4* from = reinterpret_cast<const float4*>(x.row(row));
  const auto n = static_cast<float>(x.cols);
  float4 held[kWarpWords];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kWarpWords; ++i) {
    const int word = lane + i * kWarp;
    held[i] = word < words ? from[word] : make_float4(0, 0, 0, 0);
    sum += held[i].x + held[i].y + held[i].z + held[i].w;
  }
  const float mean = warp_sum(sum) / n;
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kWarpWords; ++i) {
    if (lane + i * kWarp >= words) continue;
    const float4 d = make_float4(held[i].x - mean, held[i].y - mean, held[i].z - mean, held[i].w - mean);
    squares += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
  }
  const float scale = 1.0F / sqrtf(warp_sum(squares) / n + eps);
  T* to = y.row(row);
#pragma unroll
  for (int i = 0; i < kWarpWords; ++i) {
    const int word = lane + i * kWarp;
    if (word >= words) continue;
    const float4 v = normed(held[i], mean, scale, __ldg(reinterpret_cast<const float4*>(gain) + word),
                            __ldg(reinterpret_cast<const float4*>(bias) + word));
    store4(to + 4 * word, v.x, v.y, v.z, v.w);
  }
}

constexpr int kHeldFeatures = 8;  // a lane: heads up to 256 wide

// Where a token's cosines and sines are: of pair i in row position(i). Tables are written by no kernel.
struct Angles {
  Matrix<const float> cos, sin;
  const int* positions;  // [rows, 3]
  int height_pairs, width_pairs;

  __device__ void of(std::int64_t token, int pair, float& to_cos, float& to_sin) const {
    const int turn = pair % 3;  // as rope_axis()
    const int axis = (turn == 1 && pair < 3 * height_pairs) || (turn == 2 && pair < 3 * width_pairs) ? turn : 0;
    const std::int64_t position = __ldg(positions + 3 * token + axis);
    to_cos = __ldg(cos.row(position) + pair);
    to_sin = __ldg(sin.row(position) + pair);
  }
};

template <typename T>
__device__ void norm_rope_head(const T* from, const float* gain, const Angles& angles, std::int64_t token, int head_dim,
                               float eps, T* to) {
  // Lane l holds features l, l + 32, ...: with 32 pairs, both features of a pair.
  const int lane = threadIdx.x % kWarp;
  float c0, s0;
  angles.of(token, lane, c0, s0);
  wait_for_inputs();
  float held[kHeldFeatures];
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kHeldFeatures; ++i) {
    const int c = lane + i * kWarp;
    held[i] = c < head_dim ? to_float(from[c]) : 0.0F;
    sum += held[i] * held[i];
  }
  const float scale = 1.0F / sqrtf(warp_sum(sum) / static_cast<float>(head_dim) + eps);
#pragma unroll
  for (int i = 0; i < kHeldFeatures; ++i) {
    const int c = lane + i * kWarp;
    held[i] = c < head_dim ? held[i] * scale * gain[c] : 0.0F;
  }
  const float first = held[0], second = held[1];
  held[0] = first * c0 - second * s0;
  held[1] = second * c0 + first * s0;
#pragma unroll
  for (int i = 0; i < kHeldFeatures; ++i) {
    const int c = lane + i * kWarp;
    if (c < head_dim) to[c] = from_float<T>(held[i]);
  }
}

// The same of a head of 256 features, 32 pairs of them rotated. Lane l holds features 8 l to 8 l + 7, so that a pair's
// are held by two lanes that are four apart.
template <typename T>
__device__ void norm_rope_whole_head(const T* from, const float* gain, const Angles& angles, std::int64_t token,
                                     float eps, T* to) {
  static_assert(kFeaturesPerLane == 8);
  constexpr int kApart = kWarp / kFeaturesPerLane;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, first = lane * kFeaturesPerLane;
  float held[kFeaturesPerLane], gains[kFeaturesPerLane], cos[kFeaturesPerLane], sin[kFeaturesPerLane];
  unpack8(load_bits(gain + first), gains);
  if (lane < 2 * kApart) {
#pragma unroll
    for (int i = 0; i < kFeaturesPerLane; ++i) angles.of(token, first % kWarp + i, cos[i], sin[i]);
  }
  wait_for_inputs();
  unpack8(load_bits(from + first), held);
  float sum = 0;
#pragma unroll
  for (const float x : held) sum += x * x;
  const float scale = 1.0F / sqrtf(warp_sum(sum) / static_cast<float>(kWarp * kFeaturesPerLane) + eps);
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) held[i] = held[i] * scale * gains[i];
  const bool is_first = lane < kApart;
#pragma unroll
  for (int i = 0; i < kFeaturesPerLane; ++i) {
    const float other = __shfl_xor_sync(kAllLanes, held[i], kApart);
    if (lane >= 2 * kApart) continue;
    const float turned = other * sin[i];
    held[i] = held[i] * cos[i] + (is_first ? -turned : turned);
  }
  Bits8<T> bits;
  pack8(held, bits);
  store_bits(to + first, bits);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    qk_norm_rope(Matrix<T> q, Matrix<T> k, Matrix<const T> q_gate, Matrix<const T> k_raw, const float* q_gain,
                 const float* k_gain, const Angles angles, int head_dim, float eps, bool in_words) {
  let_next_start();
  const std::int64_t q_heads = q.cols / head_dim, heads = q_heads + k.cols / head_dim;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (index >= q.rows * heads) return;
  const std::int64_t row = index / heads, head = index % heads;
  const bool is_query = head < q_heads;
  const std::int64_t column = (is_query ? head : head - q_heads) * head_dim;
  const T* from = is_query ? q_gate.row(row) + 2 * column : k_raw.row(row) + column;
  T* to = is_query ? q.row(row) + column : k.row(row) + column;
  const float* gain = is_query ? q_gain : k_gain;
  if (in_words) {
    norm_rope_whole_head(from, gain, angles, row, eps, to);
  } else {
    norm_rope_head(from, gain, angles, row, head_dim, eps, to);
  }
}

// A head is as norm_rope_whole_head wants it, and its words lie on 16 bytes.
bool in_words(const QkNormRope& op) {
  if (op.q_gain.cols != kWarp * kFeaturesPerLane) return false;
  for (const Tensor& t : std::initializer_list<Tensor>{op.q, op.k, op.q_gate, op.k_raw}) {
    if (t.stride % kFeaturesPerLane != 0 || reinterpret_cast<std::uintptr_t>(t.address()) % 16 != 0) return false;
  }
  return true;
}

// Calls `launch` with as many words, as a constant, as a thread must hold of rows so wide.
template <typename Launch>
void by_held_words(std::int64_t cols, Launch launch) {
  const std::int64_t words = (cols + 4 * kThreads - 1) / (4 * kThreads);
  if (words <= 1) return launch(std::integral_constant<int, 1>());
  if (words <= 4) return launch(std::integral_constant<int, 4>());
  if (words <= 5) return launch(std::integral_constant<int, 5>());
  launch(std::integral_constant<int, kMostHeldWords>());
}

bool fits_words(const Tensor& x, Context& context, const char* what) {
  if (x.cols % 4 == 0 && x.stride % 4 == 0 && x.cols <= 4 * kThreads * kMostHeldWords) return true;
  context.check(Error{Errc::unsupported, fmt::format("cuda: {} of {} columns: expected a multiple of 4 up to {}", what,
                                                     x.cols, 4 * kThreads * kMostHeldWords)});
  return false;
}

}  // namespace

void run(const RmsNorm& op, Context& context) {
  if (op.x.rows == 0 || !fits_words(op.x, context, "rms_norm")) return;
  const Launch launch(static_cast<unsigned>(op.x.rows), kThreads, 0, context.stream);
  const auto x = matrix<const float>(op.x);
  const float* gain = matrix<const float>(op.gain).data;
  by_held_words(op.x.cols, [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    if (op.low) {
      context.check(
          launch.run(rms_norm_low<kHeld>, matrix<__half>(op.y), x, gain, op.eps, low_rows(op.low, op.precise)),
          "rms_norm_low");
      return;
    }
    by_type(op.y.dtype, [&](auto zero) {
      using T = decltype(zero);
      context.check(launch.run(rms_norm<kHeld, T>, matrix<T>(op.y), x, gain, op.eps), "rms_norm");
    });
  });
}

void run(const LayerNorm& op, Context& context) {
  if (op.x.rows == 0 || !fits_words(op.x, context, "layer_norm")) return;
  by_type(op.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel, unsigned grid) {
      context.check(Launch(grid, kThreads, 0, context.stream)
                        .run(kernel, matrix<T>(op.y), matrix<const float>(op.x), matrix<const float>(op.gain).data,
                             matrix<const float>(op.bias).data, op.eps),
                    "layer_norm");
    };
    if (op.y.dtype == DType::f16 && op.x.cols <= 4 * kWarp * kWarpWords) {
      run(layer_norm_of_warps<T>, blocks(op.x.rows, kThreads / kWarp));
    } else {
      by_held_words(op.x.cols,
                    [&](auto held) { run(layer_norm<decltype(held)::value, T>, static_cast<unsigned>(op.x.rows)); });
    }
  });
}

namespace {

void run_gated_rms_norm_low(const GatedRmsNorm& op, Context& context) {
  context.check(launch_gated_rms_norm_low({.y = matrix<__half>(op.y).data,
                                           .x = matrix<const float>(op.x).data,
                                           .z = matrix<const float>(op.z).data,
                                           .z_stride = op.z.stride,
                                           .gain = matrix<const float>(op.gain).data,
                                           .eps = op.eps,
                                           .tokens = static_cast<int>(op.x.rows),
                                           .heads = static_cast<int>(op.x.cols / kDeltaNetHeadDim),
                                           .low = reinterpret_cast<std::uint8_t*>(op.low.values.address()),
                                           .low_stride = op.low.values.stride,
                                           .low_scales = reinterpret_cast<float*>(op.low.scales.address()),
                                           .places = low_rows(op.low, op.precise).places},
                                          context.stream),
                "gated_rms_norm_low");
}

}  // namespace

void run(const GatedRmsNorm& op, Context& context) {
  if (op.gain.cols != kDeltaNetHeadDim) {
    context.check(Error{Errc::unsupported, fmt::format("cuda: gated_rms_norm of heads of {}: expected {}", op.gain.cols,
                                                       kDeltaNetHeadDim)});
    return;
  }
  CHECK(op.x.stride == op.x.cols && op.y.stride == op.y.cols);
  if (op.low) return run_gated_rms_norm_low(op, context);
  const auto with = [&](auto args) {
    args.y = matrix<std::remove_pointer_t<decltype(args.y)>>(op.y).data;
    args.x = matrix<std::remove_pointer_t<decltype(args.x)>>(op.x).data;
    args.z = matrix<std::remove_pointer_t<decltype(args.z)>>(op.z).data;
    args.z_stride = op.z.stride;
    args.gain = matrix<const float>(op.gain).data;
    args.eps = op.eps;
    args.tokens = static_cast<int>(op.x.rows);
    args.heads = static_cast<int>(op.x.cols / kDeltaNetHeadDim);
    return args;
  };
  context.check(op.y.dtype == DType::f16 ? launch_gated_rms_norm(with(GatedRmsNormArgs{}), context.stream)
                                         : launch_gated_rms_norm_f32(with(GatedRmsNormF32Args{}), context.stream),
                "gated_rms_norm");
}

void run(const QkNormRope& op, Context& context) {
  const std::int64_t d = op.q_gain.cols, heads = op.q.rows * ((op.q.cols + op.k.cols) / d);
  if (heads == 0) return;
  if (d > kHeldFeatures * kWarp || op.cos.cols != kWarp) {
    context.check(Error{Errc::unsupported,
                        fmt::format("cuda: heads of {} features, {} pairs of them rotated: expected at most {} and {}",
                                    d, op.cos.cols, kHeldFeatures * kWarp, kWarp)});
    return;
  }
  by_type(op.q.dtype, [&](auto zero) {
    using T = decltype(zero);
    context.check(
        Launch(blocks(heads, kThreads / kWarp), kThreads, 0, context.stream)
            .run(qk_norm_rope<T>, matrix<T>(op.q), matrix<T>(op.k), matrix<const T>(op.q_gate),
                 matrix<const T>(op.k_raw), matrix<const float>(op.q_gain).data, matrix<const float>(op.k_gain).data,
                 Angles{matrix<const float>(op.cos), matrix<const float>(op.sin),
                        reinterpret_cast<const int*>(op.positions.address()), static_cast<int>(op.height_pairs),
                        static_cast<int>(op.width_pairs)},
                 static_cast<int>(d), op.eps, in_words(op)),
        "qk_norm_rope");
  });
}

}  // namespace clef::cuda
