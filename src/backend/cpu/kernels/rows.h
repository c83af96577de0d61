// Kernels of one row, one head or one token: norms, rotary, short convolution, copies.
// Arithmetic: f32; a sum over a row runs in four vectors of 16 partial sums, vector v taking every fourth; then
//             (0 + 1) + (2 + 3), then the lanes as sum() has it.
// Bound:      memory.
#pragma once

namespace clef::cpu {
namespace {

inline F32x16 lane_numbers() {
  constexpr float kNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return load(kNumbers);
}

// The sum of term(vector index, lanes used) over a row of n.
template <typename Term>
inline float row_sum(Index n, Term term) {
  F32x16 sums[4] = {zero(), zero(), zero(), zero()};
  const Index vectors = div_up(n, 16);
  for (Index v = 0; v < vectors; ++v) {
    sums[v % 4] = term(v * 16, static_cast<int>(least(16, n - v * 16)), sums[v % 4]);
  }
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

inline float square_sum(const float* x, Index n) {
  return row_sum(n, [x](Index c, int count, F32x16 total) {
    const F32x16 value = load_first(x + c, count);
    return fma(value, value, total);
  });
}

inline float inverse_rms(const float* x, Index n, float eps) {
  return 1.0F / __builtin_sqrtf(square_sum(x, n) / static_cast<float>(n) + eps);
}

template <typename Lanes>
inline void each_vector(Index n, float* y, Lanes lanes) {
  for (Index c = 0; c < n; c += 16) {
    const int count = static_cast<int>(least(16, n - c));
    store_first(y + c, lanes(c, count), count);
  }
}

void rms_norm_row(const float* x, const float* gain, Index n, float eps, float* y) {
  const F32x16 scale = broadcast(inverse_rms(x, n, eps));
  each_vector(
      n, y, [=](Index c, int count) { return mul(mul(load_first(x + c, count), scale), load_first(gain + c, count)); });
}

void gated_rms_norm_row(const float* x, const float* z, const float* gain, Index n, float eps, float* y) {
  const F32x16 scale = broadcast(inverse_rms(x, n, eps));
  each_vector(n, y, [=](Index c, int count) {
    const F32x16 normed = mul(load_first(gain + c, count), mul(load_first(x + c, count), scale));
    return mul(normed, silu(load_first(z + c, count)));
  });
}

void layer_norm_row(const float* x, const float* gain, const float* bias, Index n, float eps, float* y) {
  const float inverse_n = 1.0F / static_cast<float>(n);
  const float mean =
      row_sum(n, [x](Index c, int count, F32x16 total) { return add(load_first(x + c, count), total); }) * inverse_n;
  const float variance =
      row_sum(n,
              [=](Index c, int count, F32x16 total) {
                // Lanes past the row must not count: there the difference is value - value.
                const F32x16 value = load_first(x + c, count);
                const F32x16 away = sub(
                    value, select_less(lane_numbers(), broadcast(static_cast<float>(count)), broadcast(mean), value));
                return fma(away, away, total);
              }) *
      inverse_n;
  const F32x16 scale = broadcast(1.0F / __builtin_sqrtf(variance + eps));
  each_vector(n, y, [=](Index c, int count) {
    const F32x16 normed = mul(sub(load_first(x + c, count), broadcast(mean)), scale);
    return fma(normed, load_first(gain + c, count), load_first(bias + c, count));
  });
}

void rope_head(float* x, const float* cosines, const float* sines, Index pairs) {
  for (Index i = 0; i < pairs; i += 16) {
    const int count = static_cast<int>(least(16, pairs - i));
    const F32x16 a = load_first(x + i, count), b = load_first(x + pairs + i, count);
    const F32x16 cos = load_first(cosines + i, count), sin = load_first(sines + i, count);
    store_first(x + i, sub(mul(a, cos), mul(b, sin)), count);
    store_first(x + pairs + i, add(mul(b, cos), mul(a, sin)), count);
  }
}

void head_norm_rope(const HeadNormRope& head) {
  rms_norm_row(head.x, head.gain, head.head_dim, head.eps, head.y);
  rope_head(head.y, head.cos, head.sin, head.pairs);
}

void scale_row(float scale, Index n, float* y) {
  each_vector(n, y, [=](Index c, int count) { return mul(load_first(y + c, count), broadcast(scale)); });
}

// y / sqrt(sum of squares + 1e-6), head by head.
inline void unit_heads(float* y, Index width, Index head_dim) {
  for (Index h = 0; h < width; h += head_dim) {
    scale_row(1.0F / __builtin_sqrtf(square_sum(y + h, head_dim) + 1e-6F), head_dim, y + h);
  }
}

void short_conv_token(const ShortConvToken& token) {
  const auto channels = [&token](Index first, Index n, float* y) {
    each_vector(n, y, [&token, first](Index c, int count) {
      F32x16 total = zero();
      for (Index back = token.history; back >= 0; --back) {  // oldest first
        const float* tap = token.weight + (token.taps - 1 - back) * token.channels;
        total = fma(load_first(tap + first + c, count), load_first(token.x - back * token.x_stride + first + c, count),
                    total);
      }
      return silu(total);
    });
  };
  channels(0, token.key_width, token.q);
  channels(token.key_width, token.key_width, token.k);
  channels(2 * token.key_width, token.channels - 2 * token.key_width, token.v);
  unit_heads(token.q, token.key_width, token.head_dim);
  unit_heads(token.k, token.key_width, token.head_dim);
}

inline F32x16 load_any(const void* x, WeightType type, Index c, int count) {
  switch (type) {
    case WeightType::bf16:
      return load_weight_first(static_cast<const std::uint16_t*>(x) + c, count);
    case WeightType::f16:
      return load_weight_first(static_cast<const F16*>(x) + c, count);
    case WeightType::f32:
      break;
  }
  return load_first(static_cast<const float*>(x) + c, count);
}

void widen_row(const void* x, WeightType type, Index n, float* y) {
  each_vector(n, y, [=](Index c, int count) { return load_any(x, type, c, count); });
}

void add_row(const void* x, WeightType type, Index n, float* y) {
  each_vector(n, y, [=](Index c, int count) { return add(load_first(y + c, count), load_any(x, type, c, count)); });
}

void add_scaled_row(const void* x, WeightType type, float scale, Index n, float* y) {
  each_vector(n, y, [=](Index c, int count) {
    return fma(broadcast(scale), load_any(x, type, c, count), load_first(y + c, count));
  });
}

}  // namespace
}  // namespace clef::cpu
