#include "media/resize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace clef {
namespace {

constexpr double kMaxAspectRatio = 200;
constexpr double kFactor = static_cast<double>(kSideFactor);

std::int64_t multiple(double count) { return static_cast<std::int64_t>(count) * kSideFactor; }

struct Frames {
  std::int64_t compared = 1;  // against the bounds
  std::int64_t scaled = 1;    // in the factor that brings the picture within them; the reference tells the two apart
};

// The order of operations is the reference's: floor and ceil turn on the last bit.
TargetSize fit(std::int64_t height, std::int64_t width, Frames frames, const PixelBounds& bounds) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  TargetSize size{.height = multiple(std::nearbyint(h / kFactor)), .width = multiple(std::nearbyint(w / kFactor))};
  const std::int64_t total = frames.compared * size.height * size.width;
  const auto source = static_cast<double>(frames.scaled * height * width);
  if (total > bounds.max_pixels) {
    const double shrink = std::sqrt(source / static_cast<double>(bounds.max_pixels));
    size.height = std::max(kSideFactor, multiple(std::floor(h / shrink / kFactor)));
    size.width = std::max(kSideFactor, multiple(std::floor(w / shrink / kFactor)));
  } else if (total < bounds.min_pixels) {
    const double grow = std::sqrt(static_cast<double>(bounds.min_pixels) / source);
    size.height = multiple(std::ceil(h * grow / kFactor));
    size.width = multiple(std::ceil(w * grow / kFactor));
  }
  return size;
}

Status check_aspect_ratio(std::int64_t height, std::int64_t width) {
  CHECK(height > 0 && width > 0);
  const double ratio = static_cast<double>(std::max(height, width)) / static_cast<double>(std::min(height, width));
  if (ratio <= kMaxAspectRatio) return {};
  return Error{Errc::bad_request,
               fmt::format("{}x{}: absolute aspect ratio must be smaller than 200, got {:.1f}", width, height, ratio)};
}

// Keys' cubic with a = -0.5.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA;
  return 0;
}

// The most fractional bits at which the largest weight still fits an int16.
int weight_precision(double largest) {
  constexpr int kMaxPrecision = 22;
  int precision = 0;
  const auto fits = [&](int bits) { return 0.5 + largest * std::ldexp(1, bits) < 32768; };
  while (precision < kMaxPrecision && fits(precision + 1)) ++precision;
  return precision;
}

}  // namespace

Result<TargetSize> smart_resize(std::int64_t height, std::int64_t width, const PixelBounds& bounds) {
  TRY(check_aspect_ratio(height, width));
  return fit(height, width, {}, bounds);
}

Result<TargetSize> smart_resize_video(std::int64_t num_frames, std::int64_t height, std::int64_t width,
                                      const PixelBounds& bounds) {
  if (num_frames < 2) {
    return Error{Errc::bad_request, fmt::format("a video needs at least 2 sampled frames, got {}", num_frames)};
  }
  CHECK(height > 0 && width > 0);
  if (height < kSideFactor || width < kSideFactor) {
    const auto h = static_cast<double>(height), w = static_cast<double>(width);
    const double grow = std::max(kFactor / h, kFactor / w);
    height = static_cast<std::int64_t>(h * grow);
    width = static_cast<std::int64_t>(w * grow);
  }
  TRY(check_aspect_ratio(height, width));
  const auto pairs = static_cast<std::int64_t>(std::nearbyint(static_cast<double>(num_frames) / 2));  // half to even
  return fit(height, width, {.compared = 2 * pairs, .scaled = num_frames}, bounds);
}

namespace media {

Axis::Axis(std::int64_t in, std::int64_t out) : size(out) {
  const double scale = static_cast<double>(in) / static_cast<double>(out), spread = std::max(scale, 1.0);
  const double support = 2 * spread;
  std::vector<double> exact;  // weights of all outputs, one after the other
  double largest = 0;
  for (std::int64_t i = 0; i < out; ++i) {
    const double centre = scale * (static_cast<double>(i) + 0.5);
    // Cut off, not rounded, as the library does it: below zero the two differ.
    const double from_low = centre - support + 0.5, from_high = centre + support + 0.5;
    const auto low = std::max<std::int64_t>(static_cast<std::int64_t>(from_low), 0);
    const auto high = std::min<std::int64_t>(static_cast<std::int64_t>(from_high), in);
    const std::size_t start = exact.size();
    double sum = 0;
    for (std::int64_t j = low; j < high; ++j) {
      exact.push_back(cubic((static_cast<double>(j) - centre + 0.5) / spread));
      sum += exact.back();
    }
    for (std::size_t j = start; j < exact.size(); ++j) {
      exact[j] /= sum;
      largest = std::max(largest, exact[j]);
    }
    first.push_back(static_cast<std::int32_t>(low));
    count.push_back(static_cast<std::int32_t>(high - low));
    taps = std::max(taps, high - low);
  }
  taps = (taps + kTapStep - 1) / kTapStep * kTapStep;
  precision = weight_precision(largest);
  weights.resize(static_cast<std::size_t>(size * taps));
  auto from = exact.begin();
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < count[static_cast<std::size_t>(i)]; ++j, ++from) {
      const double scaled = *from * std::ldexp(1, precision);
      weights[static_cast<std::size_t>(i * taps + j)] =
          static_cast<std::int16_t>(scaled + (scaled < 0 ? -0.5 : 0.5));  // half away from zero
    }
  }
}

AxisView Axis::view() const {
  return {.size = size, .taps = taps, .precision = precision, .first = first.data(), .weights = weights.data()};
}

namespace {

// The rows of a picture after the pass along them, each made once, when it is first asked for, and kept for as long as
// the pass down the columns can need it.
class ResizedRows {
 public:
  ResizedRows(const Image& image, std::int64_t width, std::int64_t kept, const PixelKernels& kernels)
      : image_(image), kernels_(kernels), row_bytes_(width * 3), kept_(std::min(kept, image.height)) {
    if (width == image.width) return;  // the picture's own rows will do
    axis_.emplace(image.width, width);
    view_ = axis_->view();
    rows_.reset(new std::uint8_t[static_cast<std::size_t>(kept_ * row_bytes_)]);
    padded_.resize(static_cast<std::size_t>((image.width + view_.taps) * 3 + kRowSlackBytes));
  }

  // Rows are asked for in rising order, but for those among the last `kept`.
  const std::uint8_t* row(std::int64_t y) {
    if (!axis_) return image_.row(y);
    for (; made_ <= y; ++made_) {
      // Kernels read a little past a row's end, which would leave the picture at its last rows.
      std::memcpy(padded_.data(), image_.row(made_), static_cast<std::size_t>(image_.width * 3));
      kernels_.resize_row(padded_.data(), view_, slot(made_));
    }
    return slot(y);
  }

 private:
  std::uint8_t* slot(std::int64_t y) { return rows_.get() + y % kept_ * row_bytes_; }

  const Image& image_;
  const PixelKernels& kernels_;
  const std::int64_t row_bytes_, kept_;
  std::optional<Axis> axis_;
  AxisView view_;
  std::unique_ptr<std::uint8_t[]> rows_;
  std::vector<std::uint8_t> padded_;
  std::int64_t made_ = 0;
};

}  // namespace
}  // namespace media

Image resize(Image image, std::int64_t height, std::int64_t width, const media::PixelKernels& kernels) {
  if (height == image.height && width == image.width) return image;
  Image out = Image::allocate(width, height);
  if (height == image.height) {
    media::ResizedRows rows(image, width, 1, kernels);
    for (std::int64_t y = 0; y < height; ++y) std::memcpy(out.row(y), rows.row(y), static_cast<std::size_t>(width * 3));
    return out;
  }
  const media::Axis axis(image.height, height);
  media::ResizedRows rows(image, width, axis.taps, kernels);
  std::vector<const std::uint8_t*> inputs(static_cast<std::size_t>(axis.taps));
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t first = axis.first[static_cast<std::size_t>(y)], count = axis.count[static_cast<std::size_t>(y)];
    // Where the weights are padding, any row will do.
    for (std::int64_t j = 0; j < axis.taps; ++j) {
      inputs[static_cast<std::size_t>(j)] = rows.row(first + std::min(j, count - 1));
    }
    const std::int16_t* weights = axis.weights.data() + y * axis.taps;
    kernels.blend_rows(inputs.data(), weights, (count + 1) / 2 * 2, axis.precision, width * 3, out.row(y));
  }
  return out;
}

}  // namespace clef
