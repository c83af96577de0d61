// A device that computes nothing, answers zeros, and fails when a test says so.
#pragma once

#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "ops/device.h"

namespace clef::test {

class FailingDevice final : public Device {
 public:
  std::string name() const override { return "failing:0"; }

  Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) override {
    if (bytes > most_bytes) return Error{Errc::out_of_memory, "failing:0: no room"};
    return std::unique_ptr<Buffer>(std::make_unique<Buffer>(nullptr, bytes));
  }
  Result<Tensor> adopt(std::span<const std::byte> /*mapped*/, const Tensor& shape) override {
    Tensor tensor = shape;
    tensor.buffer = &nothing_;
    tensor.stride = shape.cols;
    return tensor;
  }
  Status upload(const Tensor& /*to*/, std::span<const std::byte> /*bytes*/) override { return {}; }
  Status download(std::span<std::byte> bytes, const Tensor& /*from*/) override {
    std::memset(bytes.data(), 0, bytes.size());
    return {};
  }
  std::unique_ptr<Pass> begin() override {
    ++passes;
    std::optional<Error> failure;
    if (!failures.empty()) {
      failure = std::move(failures.front());
      failures.pop_front();
    }
    if (failure && failure->code == Errc::device_lost) is_lost_ = true;
    return std::make_unique<ScriptedPass>(std::move(failure));
  }
  bool is_lost() override { return is_lost_; }

  std::deque<std::optional<Error>> failures;                         // of the next passes, in order; then none
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();  // of one allocation
  int passes = 0;

 private:
  class ScriptedPass final : public Pass {
   public:
    explicit ScriptedPass(std::optional<Error> failure) : failure_(std::move(failure)) {}
    Status finish() override { return failure_ ? Status(*failure_) : Status(); }

   private:
    void encode(const Op& /*op*/) override {}
    std::optional<Error> failure_;
  };
  Buffer nothing_{nullptr, 0};
  bool is_lost_ = false;
};

}  // namespace clef::test
