// Rotary angles as the reference forms them, in float32.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/config.h"
#include "ops/device.h"

namespace clef {

// 1 / theta^(2i / rotary_dim) for each pair.
std::vector<float> rope_frequencies(const TextConfig& config);

// Cosines and sines of position * frequency, made once for each position that was asked for: a long record has a
// million of them. The product is rounded to float32 as in the reference; its cosine is then taken exactly and rounded
// once.
class AngleTable {
 public:
  explicit AngleTable(std::vector<float> frequencies) : frequencies_(std::move(frequencies)) {}
  std::size_t width() const { return frequencies_.size(); }
  // Positions up to this one, which is not negative, can be asked for.
  void reach(std::int64_t position);
  std::span<const float> cos(std::int64_t position) const { return row(cos_, position); }  // [width]
  std::span<const float> sin(std::int64_t position) const { return row(sin_, position); }
  std::span<const float> all_cos() const { return cos_; }  // [positions, width]
  std::span<const float> all_sin() const { return sin_; }

 private:
  std::span<const float> row(const std::vector<float>& of, std::int64_t position) const {
    return std::span(of).subspan(static_cast<std::size_t>(position) * width(), width());
  }
  std::vector<float> frequencies_, cos_, sin_;
};

// The text layers' angles on a device, kept from batch to batch and made longer when a record is.
class DeviceAngles {
 public:
  DeviceAngles(const TextConfig& config, Device& device)
      : device_(device), angles_(rope_frequencies(config)), memory_(device) {}
  // Positions up to this one, which is not negative, can be asked for. Errc::out_of_memory, and what the device says.
  Status reach(std::int64_t position);
  const Tensor& cos() const { return cos_; }  // [positions, pairs]
  const Tensor& sin() const { return sin_; }

 private:
  Device& device_;
  AngleTable angles_;
  Arena memory_;
  Tensor cos_, sin_;
};

}  // namespace clef
