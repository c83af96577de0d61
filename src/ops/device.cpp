#include "ops/device.h"

namespace clef {

namespace {

class IdlePass final : public Pass {
 public:
  Status finish() override { return {}; }

 private:
  void encode(const Op& /*op*/) override {}
};

}  // namespace

std::unique_ptr<Pass> Device::rehearse(std::size_t& /*bytes*/) { return std::make_unique<IdlePass>(); }

}  // namespace clef
