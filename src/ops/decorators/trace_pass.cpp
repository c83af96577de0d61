#include "ops/decorators/trace_pass.h"

#include <utility>

namespace clef {

TracePass::TracePass(std::unique_ptr<Pass> pass, Device& device, std::vector<TracedTensor>& stages)
    : pass_(std::move(pass)), device_(device), stages_(stages) {}

void TracePass::encode(const Op& op) { pass_->run(op); }

void TracePass::mark(std::string_view prefix, std::string_view name, const Tensor& tensor) {
  if (!status_) return;
  CHECK(tensor.dtype == DType::f32);
  TracedTensor& stage = stages_.emplace_back();
  stage.name = name.empty() ? std::string(prefix) : fmt::format("{}.{}", prefix, name);
  stage.rows = tensor.rows;
  stage.cols = tensor.cols;
  stage.values.resize(static_cast<std::size_t>(tensor.rows * tensor.cols));
  status_ = device_.download(std::as_writable_bytes(std::span(stage.values)), tensor);
}

Status TracePass::finish() {
  TRY(pass_->finish());
  return status_;
}

}  // namespace clef
