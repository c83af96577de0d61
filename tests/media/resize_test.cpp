// The resampler against its text, each set of kernels against the scalar one.
#include "media/resize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "media/patchify.h"

namespace clef {
namespace {

std::vector<const media::PixelKernels*> all_kernels() {
  std::vector<const media::PixelKernels*> kernels;
  for (const char* name : {"plain", "avx2"}) {
    if (const auto* found = media::find_pixel_kernels(name)) {
      kernels.push_back(found);
    } else {
      std::printf("skipped: this machine or build has no pixel kernels called %s\n", name);
    }
  }
  return kernels;
}

std::vector<int> weights_of(const media::Axis& axis, std::int64_t output) {
  const auto at = axis.weights.begin() + output * axis.taps;
  return {at, at + axis.count[static_cast<std::size_t>(output)]};
}

// Weights computed twice, from the specification and by the reference's library.
TEST(ResizeAxis, GivesPublishedWeights) {
  const media::Axis down(10, 4);
  EXPECT_EQ(down.precision, 16);
  EXPECT_EQ(down.first, (std::vector<std::int32_t>{0, 0, 1, 4}));
  EXPECT_EQ(weights_of(down, 0), (std::vector<int>{23056, 27608, 15903, 1937, -2078, -891}));
  EXPECT_EQ(weights_of(down, 1), (std::vector<int>{-1903, 1773, 14562, 25280, 21112, 7495, -1048, -1618, -116}));
  const media::Axis up(3, 8);
  EXPECT_EQ(up.precision, 14);
  EXPECT_EQ(weights_of(up, 0), (std::vector<int>{18047, -1663}));
  EXPECT_EQ(weights_of(up, 1), (std::vector<int>{15796, 617, -29}));
  EXPECT_EQ(weights_of(up, 2), (std::vector<int>{9916, 7293, -825}));
  EXPECT_EQ(weights_of(up, 3), (std::vector<int>{2490, 14893, -1000}));
  EXPECT_EQ((std::vector(up.first.begin(), up.first.begin() + 5)), (std::vector<std::int32_t>{0, 0, 0, 0, 0}));
}

enum class Content { noise, saturated, smooth };

Image picture(std::int64_t width, std::int64_t height, Content content, std::mt19937& random) {
  Image image = Image::allocate(width, height);
  for (std::size_t i = 0; i < image.size_bytes(); ++i) {
    const auto noise = static_cast<std::uint8_t>(random() & 255);
    image.rgb[i] = content == Content::noise       ? noise
                   : content == Content::saturated ? (noise & 1 ? std::uint8_t{255} : std::uint8_t{0})
                                                   : static_cast<std::uint8_t>(i * 7 / 31);
  }
  return image;
}

Image copy_of(const Image& image) {
  Image copy = Image::allocate(image.width, image.height);
  std::memcpy(copy.rgb.get(), image.rgb.get(), image.size_bytes());
  return copy;
}

// One pass, stated once more: for each place along the axis, a rounded and clamped sum of its inputs.
Image pass(const Image& in, std::int64_t out_width, std::int64_t out_height) {
  const bool along_rows = out_width != in.width;
  if (!along_rows && out_height == in.height) return copy_of(in);
  const media::Axis axis(along_rows ? in.width : in.height, along_rows ? out_width : out_height);
  Image out = Image::allocate(along_rows ? out_width : in.width, along_rows ? in.height : out_height);
  for (std::int64_t y = 0; y < out.height; ++y) {
    for (std::int64_t x = 0; x < out.width; ++x) {
      const std::int64_t output = along_rows ? x : y;
      const auto first = axis.first[static_cast<std::size_t>(output)];
      const std::vector<int> weights = weights_of(axis, output);
      for (int channel = 0; channel < 3; ++channel) {
        std::int64_t sum = std::int64_t{1} << (axis.precision - 1);
        for (std::size_t j = 0; j < weights.size(); ++j) {
          const std::int64_t input = first + static_cast<std::int64_t>(j);
          sum += weights[j] * (along_rows ? in.row(y)[3 * input + channel] : in.row(input)[3 * x + channel]);
        }
        out.row(y)[3 * x + channel] =
            static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> axis.precision, 0, 255));
      }
    }
  }
  return out;
}

TEST(Resize, EqualsItsTextWithEveryKernel) {
  std::mt19937 random(7);
  const auto side = [&](unsigned most) { return static_cast<std::int64_t>(1 + random() % most); };
  for (int i = 0; i < 150; ++i) {
    const auto content = static_cast<Content>(i % 3);
    const std::int64_t width = side(i % 10 == 0 ? 600 : 70), height = side(i % 10 == 1 ? 600 : 70);
    const std::int64_t out_width = i % 7 == 2 ? width : side(100), out_height = i % 7 == 3 ? height : side(100);
    const Image image = picture(width, height, content, random);
    const Image rows = pass(image, out_width, image.height);
    const Image expected = pass(rows, rows.width, out_height);
    for (const media::PixelKernels* kernels : all_kernels()) {
      const Image resized = resize(copy_of(image), out_height, out_width, *kernels);
      ASSERT_EQ(resized.width, out_width);
      ASSERT_EQ(resized.height, out_height);
      EXPECT_TRUE(std::equal(resized.bytes().begin(), resized.bytes().end(), expected.bytes().begin()))
          << kernels->name << ": " << width << "x" << height << " to " << out_width << "x" << out_height;
    }
  }
}

TEST(Patchify, PutsEachLevelInItsPlaceWithEveryKernel) {
  std::mt19937 random(8);
  const std::int64_t height = 64, width = 96;
  const Image first = picture(width, height, Content::noise, random),
              second = picture(width, height, Content::noise, random);
  for (const media::PixelKernels* kernels : all_kernels()) {
    std::vector<std::uint8_t> pair(static_cast<std::size_t>(patches_bytes(height, width))), still(pair.size());
    patchify(first, second, pair.data(), *kernels);
    patchify(first, first, still.data(), *kernels);
    // Row = ((bh * (gw / 2) + bw) * 2 + ih) * 2 + iw; place in it = ((channel * 2 + frame) * 16 + y) * 16 + x.
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t row = ((y / 32 * (width / 32) + x / 32) * 2 + y / 16 % 2) * 2 + x / 16 % 2;
        for (std::int64_t channel = 0; channel < 3; ++channel) {
          for (std::int64_t frame = 0; frame < 2; ++frame) {
            const auto place =
                static_cast<std::size_t>(row * 1536 + ((channel * 2 + frame) * 16 + y % 16) * 16 + x % 16);
            ASSERT_EQ(pair[place], (frame == 0 ? first : second).row(y)[3 * x + channel]) << kernels->name;
            ASSERT_EQ(still[place], first.row(y)[3 * x + channel]) << kernels->name;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace clef
