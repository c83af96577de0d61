#include "ops/decorators/timed_pass.h"

#include <chrono>
#include <utility>

#include "ops/cost.h"

namespace clef {

TimedPass::TimedPass(std::unique_ptr<Pass> pass, Device& device, OpTimes& times)
    : pass_(std::move(pass)), device_(device), times_(times) {}

void TimedPass::encode(const Op& op) {
  if (!status_) return;
  const auto start = std::chrono::steady_clock::now();
  pass_->run(op);
  status_ = pass_->finish();
  OpTime& time = times_[name_of(op)];
  time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  time.flops += flops(op, device_);
  time.bytes += bytes(op);
  ++time.calls;
}

Status TimedPass::finish() {
  TRY(status_);
  return pass_->finish();
}

}  // namespace clef
