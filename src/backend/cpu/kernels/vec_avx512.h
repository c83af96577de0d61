// Sixteen floats for AVX-512. One of the vec_*.h headers; each gives the same words with the same results to the bit.
// Everything is in an anonymous namespace: the linker must not keep this copy for machines without AVX-512.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace clef::cpu {
namespace {

constexpr int kVecsPerPanel = 2;  // columns of a packed panel / 16
constexpr int kMaxTileRows = 14;  // 14 * 2 sums + 2 loads + 1 broadcast of 32 registers

struct F32x16 {
  __m512 v;
};

inline F32x16 zero() { return {_mm512_setzero_ps()}; }
inline F32x16 broadcast(float x) { return {_mm512_set1_ps(x)}; }
inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1U << n) - 1U); }
// The first n of 16, 0 <= n <= 16; the rest is zero, or is left alone.
inline F32x16 load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps(first_lanes(n), p)}; }
inline void store_first(float* p, F32x16 a, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), a.v); }
inline F32x16 load(const std::uint16_t* bf16) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bf16));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
}
inline F32x16 load_f16(const std::uint16_t* f16) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(f16)))};
}

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a * b + c
// b where either is NaN.
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
// a < b ? x : y, lane by lane.
inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
// x where x is NaN, else y.
inline F32x16 keep_nan(F32x16 x, F32x16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), y.v, x.v)};
}
inline F32x16 round_to_even(F32x16 a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^a for whole a in [-126, 127].
inline F32x16 pow2(F32x16 a) {
  const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23))};
}
// Lanes l and l + 8, then 4, 2, 1 apart.
inline float sum(F32x16 a) {
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  const __m128 pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
  return _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)));
}
inline float largest(F32x16 a) { return _mm512_reduce_max_ps(a.v); }

inline void transpose(F32x16 (&r)[16]) {
  __m512 t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i].v, r[i + 1].v);
    t[i + 1] = _mm512_unpackhi_ps(r[i].v, r[i + 1].v);
  }
  __m512 u[16];
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + 2 + j]);
      u[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      u[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
  }
  // u[4 g + c]: in its 128-bit lane l, column 4 l + c of rows 4 g ... 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x44),
                 high01 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x44),
                 high23 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xee);
    r[c].v = _mm512_shuffle_f32x4(low01, low23, 0x88);
    r[4 + c].v = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    r[8 + c].v = _mm512_shuffle_f32x4(high01, high23, 0x88);
    r[12 + c].v = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
}

}  // namespace
}  // namespace clef::cpu
