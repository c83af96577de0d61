// Measures what each op of a forward pass takes. Only for machines that run an op at once.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "ops/pass.h"

namespace clef {

struct OpTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0;
};
using OpTimes = std::map<std::string_view, OpTime>;  // by the op's name

class TimedPass final : public Pass {
 public:
  TimedPass(std::unique_ptr<Pass> pass, OpTimes& times);
  Status finish() override;

 private:
  void encode(const Op& op) override;
  std::unique_ptr<Pass> pass_;
  OpTimes& times_;
};

}  // namespace clef
