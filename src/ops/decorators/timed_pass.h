// Measures what each op of a forward pass takes. It waits for each, so a machine that would overlap them shows more
// than an untimed pass takes.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "ops/device.h"
#include "ops/pass.h"

namespace clef {

struct OpTime {
  std::int64_t calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};
using OpTimes = std::map<std::string_view, OpTime>;  // by the op's name

class TimedPass final : public Pass {
 public:
  // `device` is the one that began `pass`.
  TimedPass(std::unique_ptr<Pass> pass, Device& device, OpTimes& times);
  Status finish() override;

 private:
  void encode(const Op& op) override;
  std::unique_ptr<Pass> pass_;
  Device& device_;
  OpTimes& times_;
  Status status_;
};

}  // namespace clef
