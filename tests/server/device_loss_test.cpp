// A lost device as probes and clients see it.
#include <gtest/gtest.h>

#include "server_fixture.h"
#include "text/json.h"

namespace clef::server {
namespace {

TEST(LostDevice, TurnsHealthAndReadyRedAtOnceAndSaysWhy) {
  FixtureOptions options = fixture_options();
  options.run = [](std::span<const EncodedRecord* const> records) {
    return std::vector<Result<Decisions>>(records.size(), Error{Errc::device_lost, "test was lost: fell off the bus"});
  };
  TestServer server(std::move(options));
  EXPECT_EQ(server.get("/health").status, 200);

  const test::HttpAnswer answer = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.body.find("test was lost: fell off the bus"), std::string::npos) << answer.body;

  const test::HttpAnswer health = server.get("/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.body, R"({"status":"failing","model":"clef","device":"test","device_state":"lost",)"
                         R"("reason":"test was lost: fell off the bus"})");
  const test::HttpAnswer ready = server.get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find(R"("status":"failing")"), std::string::npos) << ready.body;
}

TEST(LostDevice, IsNotWhatAFullOneIs) {
  FixtureOptions options = fixture_options();
  options.run = [](std::span<const EncodedRecord* const> records) {
    return std::vector<Result<Decisions>>(records.size(), Error{Errc::out_of_memory, "test: no room"});
  };
  TestServer server(std::move(options));
  const test::HttpAnswer answer = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(answer.status, 500);
  EXPECT_NE(answer.body.find("test: no room"), std::string::npos) << answer.body;
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/ready").status, 200);
}

}  // namespace
}  // namespace clef::server
