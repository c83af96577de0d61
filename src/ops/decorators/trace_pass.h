// Keeps a copy of every stage that a forward pass marks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/device.h"

namespace clef {

struct TracedTensor {
  std::string name;  // "layer.3.q_proj"
  std::int64_t rows = 0, cols = 0;
  std::vector<float> values;
};

class TracePass final : public Pass {
 public:
  // `device` is the one that began `pass`; stages are appended to `stages`.
  TracePass(std::unique_ptr<Pass> pass, Device& device, std::vector<TracedTensor>& stages);
  void mark(std::string_view prefix, std::string_view name, const Tensor& tensor) override;
  Status finish() override;

 private:
  void encode(const Op& op) override;
  std::unique_ptr<Pass> pass_;
  Device& device_;
  std::vector<TracedTensor>& stages_;
  Status status_;  // of the copies
};

}  // namespace clef
