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
  Status upload(const Tensor& /*to*/, std::span<const std::byte> /*bytes*/) override {
    ++uploads;
    return status_of(next(upload_failures));
  }
  Status download(std::span<std::byte> bytes, const Tensor& /*from*/) override {
    std::memset(bytes.data(), 0, bytes.size());
    return status_of(next(download_failures));
  }
  std::unique_ptr<Pass> begin() override {
    ++passes;
    std::optional<Error> failure = next(failures);
    if (failure && failure->code == Errc::device_lost) is_lost_ = true;
    return std::make_unique<ScriptedPass>(std::move(failure));
  }
  bool is_lost() override { return is_lost_; }

  std::deque<std::optional<Error>> failures;                            // of the next passes, in order; then none
  std::deque<std::optional<Error>> upload_failures, download_failures;  // likewise
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();     // of one allocation
  int passes = 0, uploads = 0;

 private:
  static std::optional<Error> next(std::deque<std::optional<Error>>& list) {
    if (list.empty()) return std::nullopt;
    std::optional<Error> failure = std::move(list.front());
    list.pop_front();
    return failure;
  }
  static Status status_of(std::optional<Error> failure) { return failure ? Status(std::move(*failure)) : Status(); }

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
