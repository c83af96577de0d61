// Weights by formula: models of any size whose every bit can be made again anywhere, for tests and benchmarks.
//
// For the tensor NAME, element i (row-major, from 0):
//   z    = splitmix64 output of  FNV-1a64(salt + NAME) + (i + 1) * 0x9e3779b97f4a7c15
//   u    = (z >> 40) * 2^-23 - 1          24 bits, uniform in [-1, 1), exact in float32
//   bf16 = offset + scale * u             float32, each step rounded; then rounded to nearest even
// Offset and scale follow from the name and the shape. Head tensors are called "head." + their name in the formula.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef {

struct SyntheticScale {
  float offset = 0, scale = 0;
  bool operator==(const SyntheticScale&) const = default;
};

// A folder's synthetic.json, where there is one.
struct SyntheticOptions {
  std::string salt;                                              // put before the name in the hash
  std::map<std::string, SyntheticScale, std::less<>> overrides;  // by the last part of a name
};

// {"salt": "...", "overrides": {"A_log": [offset, scale], ...}}; both members are optional.
Result<SyntheticOptions> parse_synthetic_options(std::string_view json);

// Offset and scale of a tensor; the first rule that matches counts. Shape is outermost first.
SyntheticScale synthetic_scale(std::string_view name, std::span<const std::int64_t> shape,
                               const SyntheticOptions& options);

// One tensor's values, any stretch of them.
class SyntheticTensor {
 public:
  SyntheticTensor(std::string_view name, std::span<const std::int64_t> shape, const SyntheticOptions& options);
  // Elements first, first + 1, ... as BF16 bits.
  void fill(std::int64_t first, std::span<std::uint16_t> out) const;

 private:
  std::uint64_t hash_;
  SyntheticScale scale_;
};

}  // namespace clef
