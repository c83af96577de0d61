#include "ops/decorators/trace_pass.h"

#include <algorithm>
#include <utility>

#include "base/f16.h"

namespace clef {

TracePass::TracePass(std::unique_ptr<Pass> pass, Device& device, std::vector<TracedTensor>& stages)
    : pass_(std::move(pass)), device_(device), stages_(stages) {}

void TracePass::encode(const Op& op) { pass_->run(op); }

void TracePass::mark(std::string_view prefix, std::string_view name, const Tensor& tensor) {
  if (!status_) return;
  CHECK(is_activation(tensor.dtype));
  TracedTensor& stage = stages_.emplace_back();
  stage.name = name.empty() ? std::string(prefix) : fmt::format("{}.{}", prefix, name);
  stage.rows = tensor.rows;
  stage.cols = tensor.cols;
  const auto count = static_cast<std::size_t>(tensor.rows * tensor.cols);
  stage.values.resize(count);
  if (tensor.dtype == DType::f32) {
    status_ = device_.download(std::as_writable_bytes(std::span(stage.values)), tensor);
    return;
  }
  std::vector<std::uint16_t> halves(count);
  status_ = device_.download(std::as_writable_bytes(std::span(halves)), tensor);
  std::transform(halves.begin(), halves.end(), stage.values.begin(), f16_to_f32);
}

Status TracePass::finish() {
  TRY(pass_->finish());
  return status_;
}

}  // namespace clef
