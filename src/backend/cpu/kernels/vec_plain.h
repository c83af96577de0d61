// Sixteen floats in plain C++; the words of vec_avx512.h, the same results to the bit. For machines without a header of
// their own: the compiler may turn the loops into whatever vectors it has, but must not contract or reorder.
#pragma once

#include <cstdint>

namespace clef::cpu {
namespace {

constexpr int kVecsPerPanel = 1;
constexpr int kMaxTileRows = 4;

struct F32x16 {
  float v[16];
};

template <typename Lane>
inline F32x16 lanes(Lane lane) {
  F32x16 r;
  for (int i = 0; i < 16; ++i) r.v[i] = lane(i);
  return r;
}

inline F32x16 broadcast(float x) {
  return lanes([=](int) { return x; });
}
inline F32x16 zero() { return broadcast(0.0F); }
inline F32x16 load(const float* p) {
  return lanes([=](int i) { return p[i]; });
}
inline void store(float* p, F32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = a.v[i];
}
inline F32x16 load_first(const float* p, int n) {
  return lanes([=](int i) { return i < n ? p[i] : 0.0F; });
}
inline void store_first(float* p, F32x16 a, int n) {
  for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
inline float from_bits(std::uint32_t bits) {
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}
inline F32x16 load(const std::uint16_t* bf16) {
  return lanes([=](int i) { return from_bits(static_cast<std::uint32_t>(bf16[i]) << 16); });
}
inline F32x16 load_f16(const std::uint16_t* f16) {
  return lanes([=](int i) {
    const std::uint32_t sign = static_cast<std::uint32_t>(f16[i] & 0x8000U) << 16;
    const std::uint32_t exponent = (f16[i] >> 10) & 0x1fU, fraction = f16[i] & 0x3ffU;
    if (exponent == 0x1f) return from_bits(sign | 0x7f800000U | (fraction << 13) | (fraction != 0 ? 0x400000U : 0U));
    if (exponent != 0) return from_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  });
}

inline F32x16 add(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] + b.v[i]; });
}
inline F32x16 sub(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] - b.v[i]; });
}
inline F32x16 mul(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] * b.v[i]; });
}
inline F32x16 div(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] / b.v[i]; });
}
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return lanes([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline F32x16 max(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 min(F32x16 a, F32x16 b) {
  return lanes([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline F32x16 select_less(F32x16 a, F32x16 b, F32x16 x, F32x16 y) {
  return lanes([&](int i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
inline F32x16 keep_nan(F32x16 x, F32x16 y) {
  return lanes([&](int i) { return x.v[i] != x.v[i] ? x.v[i] : y.v[i]; });
}
inline F32x16 round_to_even(F32x16 a) {
  return lanes([&](int i) { return __builtin_rintf(a.v[i]); });
}
inline F32x16 pow2(F32x16 a) {
  return lanes([&](int i) {
    if (a.v[i] != a.v[i]) return 1.0F;  // whoever calls keeps the NaN
    return from_bits(static_cast<std::uint32_t>(static_cast<std::int32_t>(a.v[i]) + 127) << 23);
  });
}
inline float sum(F32x16 a) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] + a.v[i + half];
  }
  return a.v[0];
}
inline float largest(F32x16 a) {
  for (int half = 8; half >= 1; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}
inline void transpose(F32x16 (&r)[16]) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < i; ++j) {
      const float t = r[i].v[j];
      r[i].v[j] = r[j].v[i];
      r[j].v[i] = t;
    }
  }
}

}  // namespace
}  // namespace clef::cpu
