// Elementary functions of sixteen floats, from the words of vec_*.h alone, so the same bits on every machine.
// Included after one of the vec_*.h headers.
#pragma once

namespace clef::cpu {
namespace {

// e^x; relative error below 2e-7. Below -87.3 it is 0, above 88.3 it stays at e^88.3; NaN stays NaN.
inline F32x16 exp(F32x16 x) {
  constexpr float kLog2e = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;  // n * kLn2High is exact for |n| < 2^13
  constexpr float kLowest = -87.3F, kHighest = 88.3F;                  // 2^n stays a normal number
  const F32x16 clamped = min(broadcast(kHighest), max(broadcast(kLowest), x));
  const F32x16 n = round_to_even(mul(clamped, broadcast(kLog2e)));
  const F32x16 r = fma(n, broadcast(-kLn2Low), fma(n, broadcast(-kLn2High), clamped));
  // Taylor: |r| <= ln 2 / 2, so the term r^8 / 8! is below 5.3e-9.
  F32x16 p = broadcast(1.0F / 5040.0F);
  p = fma(p, r, broadcast(1.0F / 720.0F));
  p = fma(p, r, broadcast(1.0F / 120.0F));
  p = fma(p, r, broadcast(1.0F / 24.0F));
  p = fma(p, r, broadcast(1.0F / 6.0F));
  p = fma(p, r, broadcast(0.5F));
  p = fma(p, r, broadcast(1.0F));
  p = fma(p, r, broadcast(1.0F));
  return keep_nan(x, select_less(x, broadcast(kLowest), zero(), mul(p, pow2(n))));
}

inline F32x16 sigmoid(F32x16 x) { return div(broadcast(1.0F), add(broadcast(1.0F), exp(sub(zero(), x)))); }

inline F32x16 silu(F32x16 x) { return div(x, add(broadcast(1.0F), exp(sub(zero(), x)))); }

// x/2 (1 + erf(x / sqrt 2)); the library's erff, lane by lane.
inline F32x16 gelu_erf(F32x16 x) {
  alignas(64) float lanes[16];
  store(lanes, mul(x, broadcast(0.70710678118654752F)));
  for (float& lane : lanes) lane = __builtin_erff(lane);
  return mul(mul(broadcast(0.5F), x), add(broadcast(1.0F), load(lanes)));
}

// x/2 (1 + tanh u) with u = sqrt(2/pi) (x + 0.044715 x^3), which is x * sigmoid(2 u).
inline F32x16 gelu_tanh(F32x16 x) {
  const F32x16 cubic = mul(mul(x, x), x);
  const F32x16 u = mul(broadcast(0.79788456080286536F), fma(broadcast(0.044715F), cubic, x));
  return mul(x, sigmoid(add(u, u)));
}

}  // namespace
}  // namespace clef::cpu
