// E4M3, the 8-bit float of a sign, four bits of exponent and three of fraction, <-> float32. It has no infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace clef {

// Exact: every E4M3 value, subnormals included, is a float32 value.
inline float e4m3_to_f32(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24, magnitude = bits & 0x7fU;
  if (magnitude == 0x7f) return std::bit_cast<float>(sign | 0x7fc00000U);
  if (magnitude < 8) {
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 20) + (120U << 23)));
}

// To the nearest, ties to even; past 448, infinity too, to 448. A NaN stays one.
inline std::uint8_t f32_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 24 & 0x80U, magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
  if (magnitude >= 0x43e00000U) return static_cast<std::uint8_t>(sign | 0x7eU);
  if (magnitude < 0x3c800000U) {
    // Below 2^-6 the step is 2^-9: adding 2^14, whose own step that is, rounds as the machine does.
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffU + (magnitude >> 20 & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded - (120U << 23)) >> 20));
}

}  // namespace clef
