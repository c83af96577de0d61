// Hands weights to a device, in the forms the model's parts keep them.
#pragma once

#include <initializer_list>

#include "base/result.h"
#include "model/arena.h"
#include "model/weights.h"
#include "ops/device.h"

namespace clef {

struct DeviceLinear {
  Tensor weight;  // [out, in]
  Tensor bias;    // [1, out] f32, or none
};
struct DeviceNorm {
  Tensor gain, bias;  // [1, n] f32
};

class WeightLoader {
 public:
  explicit WeightLoader(Device& device) : device_(device), tables_(device) {}
  const Device& device() const { return device_; }
  Result<Tensor> matrix(const MappedMatrix& matrix) {
    return device_.adopt(matrix.bytes, Tensor{.rows = matrix.rows, .cols = matrix.cols, .dtype = matrix.dtype});
  }
  // These will meet inputs with a low part; in the order in which they were made.
  Status low(std::initializer_list<Tensor> matrices) {
    for (const Tensor& matrix : matrices) TRY(device_.adopt_low(matrix));
    return {};
  }
  Result<Tensor> vector(const std::vector<float>& values) {
    return tables_.floats(values, static_cast<std::int64_t>(values.size()));
  }
  Result<Tensor> table(const std::vector<float>& values, std::int64_t cols) { return tables_.floats(values, cols); }
  Result<DeviceLinear> linear(const LinearWeights& weights) {
    DeviceLinear linear;
    linear.weight = TRY(matrix(weights.weight));
    if (!weights.bias.empty()) linear.bias = TRY(vector(weights.bias));
    return linear;
  }
  Result<DeviceNorm> norm(const NormWeights& weights) {
    DeviceNorm norm;
    norm.gain = TRY(vector(weights.gain));
    norm.bias = TRY(vector(weights.bias));
    return norm;
  }

 private:
  Device& device_;
  DeviceTables tables_;
};

}  // namespace clef
