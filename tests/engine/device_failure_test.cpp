// What a device cannot do is told to whom it concerns, and to nobody else.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "support/failing_device.h"
#include "support/golden.h"

namespace clef {
namespace {

std::string request(const std::string& state) {
  return R"({"model":"clef","state":")" + state + R"(","questions":{"a":{"type":"noul"}}})";
}

class DeviceFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    auto owned = std::make_unique<test::FailingDevice>();
    device = owned.get();
    auto opened = Engine::open(test::test_data_path("clef-tiny"), std::move(owned), {});
    ASSERT_TRUE(opened) << opened.error().message;
    engine = std::move(opened).value();
  }

  // Errc of each request of one batch; none: it was answered.
  std::vector<std::optional<Errc>> ask(const std::vector<std::string>& requests) {
    std::vector<std::optional<Errc>> codes;
    for (const auto& answer : engine->answer_batch(requests)) {
      codes.push_back(answer ? std::nullopt : std::optional(answer.error().code));
    }
    return codes;
  }

  test::FailingDevice* device = nullptr;
  std::unique_ptr<Engine> engine;
};

using Codes = std::vector<std::optional<Errc>>;

TEST_F(DeviceFailure, ABatchThatDoesNotFitIsTriedOneByOne) {
  device->failures = {Error{Errc::out_of_memory, "no room"}};
  EXPECT_EQ(ask({request("x"), request("y"), request("z")}), (Codes{{}, {}, {}}));
  EXPECT_EQ(device->passes, 4);
}

TEST_F(DeviceFailure, ARequestThatDoesNotFitLeavesTheOthersAndTheNextAlone) {
  const std::string longer = request(std::string(20000, 'x'));
  ASSERT_EQ(ask({longer}), (Codes{{}}));
  auto small = std::make_unique<test::FailingDevice>();
  small->most_bytes = 6'000'000;
  auto opened = Engine::open(test::test_data_path("clef-tiny"), std::move(small), {});
  ASSERT_TRUE(opened) << opened.error().message;
  engine = std::move(opened).value();
  EXPECT_EQ(ask({request("x"), longer, request("y")}), (Codes{{}, Errc::out_of_memory, {}}));
  EXPECT_EQ(ask({longer}), (Codes{Errc::out_of_memory}));
  EXPECT_EQ(ask({request("x")}), (Codes{{}}));
}

TEST_F(DeviceFailure, APassThatFailedOnceIsNoLostDevice) {
  device->failures = {Error{Errc::device, "a launch failed"}};
  EXPECT_EQ(ask({request("x")}), (Codes{Errc::device}));
  EXPECT_EQ(ask({request("x")}), (Codes{{}}));
}

// Logits are asked for before a pass is waited for: what they say when it failed is of no interest.
TEST_F(DeviceFailure, LogitsThatDoNotComeAreToldUnlessThePassFailed) {
  device->download_failures = {Error{Errc::device, "a copy failed"}};
  const auto alone = engine->answer(request("x"));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().message, "a copy failed");
  device->download_failures = {Error{Errc::device, "a copy failed"}};
  device->failures = {Error{Errc::device, "a launch failed"}};
  const auto both = engine->answer(request("x"));
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().message, "a launch failed");
  EXPECT_EQ(ask({request("x")}), (Codes{{}}));
}

// What packing keeps from request to request counts as there only once it is.
TEST_F(DeviceFailure, TablesThatDidNotArriveAreSentAgain) {
  ASSERT_EQ(ask({request("x")}), (Codes{{}}));
  const int before = device->uploads;
  ASSERT_EQ(ask({request("x")}), (Codes{{}}));
  EXPECT_EQ(device->uploads, before + 1) << "all in one piece";
  device->upload_failures = {Error{Errc::device, "a copy failed"}};
  EXPECT_EQ(ask({request("x")}), (Codes{Errc::device}));
  EXPECT_EQ(ask({request("x")}), (Codes{{}}));
}

TEST_F(DeviceFailure, ALostDeviceIsAskedNothingMore) {
  device->failures = {Error{Errc::device_lost, "illegal address"}};
  const std::vector<std::string> requests = {request("x"), request("y")};
  const auto answers = engine->answer_batch(requests);
  for (const auto& answer : answers) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::device_lost);
    EXPECT_EQ(answer.error().message, "failing:0 was lost: illegal address");
  }
  EXPECT_EQ(device->passes, 1);
  EXPECT_EQ(ask({request("z")}), (Codes{Errc::device_lost}));
  EXPECT_EQ(device->passes, 1);
}

TEST_F(DeviceFailure, ADeviceLostOnTheSecondTryIsTold) {
  device->failures = {Error{Errc::out_of_memory, "no room"}, std::nullopt, Error{Errc::device_lost, "gone"}};
  EXPECT_EQ(ask({request("x"), request("y"), request("z")}), (Codes{{}, Errc::device_lost, Errc::device_lost}));
  EXPECT_EQ(device->passes, 3);
}

TEST_F(DeviceFailure, ARequestLongerThanWhatIsInFlightIsRefused) {
  auto opened = Engine::open(test::test_data_path("clef-tiny"), std::make_unique<test::FailingDevice>(),
                             {.max_tokens_in_flight = 300});
  ASSERT_TRUE(opened) << opened.error().message;
  engine = std::move(opened).value();
  EXPECT_EQ(ask({request("x"), request(std::string(20000, 'x'))}), (Codes{{}, Errc::too_large}));
}

}  // namespace
}  // namespace clef
