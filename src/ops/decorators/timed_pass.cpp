#include "ops/decorators/timed_pass.h"

#include <chrono>
#include <utility>

#include "ops/cost.h"

namespace clef {

TimedPass::TimedPass(std::unique_ptr<Pass> pass, OpTimes& times) : pass_(std::move(pass)), times_(times) {}

void TimedPass::encode(const Op& op) {
  const auto start = std::chrono::steady_clock::now();
  pass_->run(op);
  OpTime& time = times_[name_of(op)];
  time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  time.flops += flops(op);
  ++time.calls;
}

Status TimedPass::finish() { return pass_->finish(); }

}  // namespace clef
