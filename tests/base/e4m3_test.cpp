#include "base/e4m3.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace clef {
namespace {

TEST(E4m3, EveryCodeIsWhatItsBitsSay) {
  for (int bits = 0; bits < 256; ++bits) {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float value = e4m3_to_f32(static_cast<std::uint8_t>(bits));
    EXPECT_EQ(std::signbit(value), bits >= 128) << bits;
    if (exponent == 15 && fraction == 7) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_EQ(f32_to_e4m3(value), bits);
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(1 + static_cast<double>(fraction) / 8, exponent - 7);
    EXPECT_EQ(static_cast<double>(std::abs(value)), magnitude) << bits;
    EXPECT_EQ(f32_to_e4m3(value), bits);
  }
}

// Between any two neighbours: the half goes to the even one, what is beside it to the nearer.
TEST(E4m3, RoundsToNearestEven) {
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = e4m3_to_f32(static_cast<std::uint8_t>(bits)),
                high = e4m3_to_f32(static_cast<std::uint8_t>(bits + 1));
    const float half = (low + high) / 2, even = static_cast<float>(bits % 2 == 0 ? bits : bits + 1);
    for (const float sign : {1.0F, -1.0F}) {
      const int of_sign = sign < 0 ? 128 : 0;
      EXPECT_EQ(f32_to_e4m3(sign * half), of_sign + static_cast<int>(even)) << bits;
      EXPECT_EQ(f32_to_e4m3(sign * std::nextafter(half, low)), of_sign + bits);
      EXPECT_EQ(f32_to_e4m3(sign * std::nextafter(half, high)), of_sign + bits + 1);
    }
  }
}

TEST(E4m3, Saturates) {
  for (const float value : {448.0F, 449.0F, 464.0F, 480.0F, 1e30F, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(f32_to_e4m3(value), 0x7e);
    EXPECT_EQ(f32_to_e4m3(-value), 0xfe);
  }
  EXPECT_EQ(f32_to_e4m3(1e-30F), 0);
  EXPECT_EQ(f32_to_e4m3(-1e-30F), 0x80);
}

}  // namespace
}  // namespace clef
