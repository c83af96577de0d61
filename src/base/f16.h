// IEEE binary16 -> float32.
#pragma once

#include <bit>
#include <cstdint>

namespace clef {

// Exact: every binary16 value, subnormals included, is a float32 value.
inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fU;
  const std::uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // fraction * 2^-24, also for zero
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffU : exponent + 127 - 15;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

}  // namespace clef
