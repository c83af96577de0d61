// Golden requests over HTTP: the bytes are those of the program clef, and what is no request is refused with its path.
#include <gtest/gtest.h>

#include "backend/open.h"
#include "server_fixture.h"
#include "support/golden.h"

namespace clef::server {
namespace {

using test::golden_lines;
using test::http_request;
using test::HttpAnswer;
using test::HttpClient;

class GoldenHttp : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto device = open_device({.device = "cpu", .num_threads = 2});
    engine = Engine::open(test::test_data_path("clef-tiny"), std::move(device).value(), EngineOptions()).value();
    for (const Json& golden : golden_lines("text.jsonl")) requests.push_back(*golden.find("request_text")->if_string());
    for (const auto& answer : engine->answer_batch(requests)) expected.push_back(to_compact_json(answer->response));
    FixtureOptions options = fixture_options();
    options.prepare = [](Json body) { return engine->prepare(std::move(body)); };
    options.run = [](std::span<const EncodedRecord* const> records) { return engine->run(records); };
    server = std::make_unique<TestServer>(options);
  }
  static void TearDownTestSuite() {
    server.reset();
    engine.reset();
  }
  static std::shared_ptr<Engine> engine;
  static std::unique_ptr<TestServer> server;
  static std::vector<std::string> requests, expected;  // what the program prints
};

std::shared_ptr<Engine> GoldenHttp::engine;
std::unique_ptr<TestServer> GoldenHttp::server;
std::vector<std::string> GoldenHttp::requests, GoldenHttp::expected;

TEST_F(GoldenHttp, AnswersHaveTheBytesOfTheProgram) {
  ASSERT_EQ(requests.size(), 34U);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(server->post("/v1/systemone", requests[i]).body, expected[i]);
  }
}

// Several lines share a pass, and come back as they finish.
TEST_F(GoldenHttp, TheBatchHasTheSameBytesBehindItsIndex) {
  std::string body;
  for (const std::string& request : requests) body += request + "\n";
  const HttpAnswer answer = server->post("/v1/systemone/batch", body);
  std::size_t lines = 0;
  for (std::size_t at = 0; at < answer.body.size(); ++lines) {
    const std::size_t end = answer.body.find('\n', at);
    const std::string line = answer.body.substr(at, end - at);
    at = end + 1;
    ASSERT_EQ(line.rfind("{\"index\":", 0), 0U) << line;
    const std::size_t index = std::stoul(line.substr(9));
    EXPECT_EQ("{" + line.substr(line.find(',') + 1), expected.at(index));
  }
  EXPECT_EQ(lines, requests.size());
}

// The path that each line of invalid.jsonl has to name.
const char* const kPaths[] = {
    R"(["body","model"])",                     // {}
    R"(["body","state"])",                     // no state
    R"(["body","questions"])",                 // no questions
    R"(["body","model"])",                     // a number
    R"(["body","questions"])",                 // {}
    R"(["body","questions"])",                 // []
    R"(["body","questions","a","type"])",      // bool
    R"(["body","questions","a","type"])",      // none
    R"(["body","questions","a","criteria"])",  // none
    R"(["body","questions","a","criteria"])",  // {}
    R"(["body","questions","a","criteria"])",  // []
    R"(["body","questions","b","criteria"])",  // null
    R"(["body","state"])",                     // no state
    R"(["body","model"])",                     // null
    R"(["body","questions","a"])",             // a string
    R"(["body","questions","a","criteria"])",  // a list of choices
    R"(["body","questions","a","criteria"])",  // an object of levels
    R"(["body","questions","a","type"])",      // a list
    R"(["body","questions","a","criteria"])",  // a noul's list
    R"(["body","questions","a","criteria"])",
    R"(["body","questions","a","criteria"])",
    R"(["body","questions","a","criteria"])",  // a score's string
    R"(["body","questions","a","criteria"])",  // one choice
};

TEST_F(GoldenHttp, WhatIsNoRequestIsRefusedWithItsPath) {
  const auto lines = golden_lines("invalid.jsonl");
  ASSERT_EQ(lines.size(), std::size(kPaths));
  HttpClient client = server->connect();
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string request = to_compact_json(*lines[i].find("request"));
    const HttpAnswer answer = client.ask(http_request("POST", "/v1/systemone", request));
    EXPECT_EQ(answer.status, 422) << request;
    EXPECT_NE(answer.body.find(std::string("\"loc\":") + kPaths[i]), std::string::npos) << request << answer.body;
  }
}

TEST_F(GoldenHttp, WhatIsTooLongIsRefusedWithBothCounts) {
  std::string state;
  for (int i = 0; i < 20'000; ++i) state += "word ";
  const HttpAnswer answer =
      server->post("/v1/systemone", R"({"model":"clef","state":")" + state + R"(","questions":{"a":{"type":"noul"}}})");
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("only"), std::string::npos) << answer.body;
  EXPECT_NE(answer.body.find("max 16384"), std::string::npos) << answer.body;
}

}  // namespace
}  // namespace clef::server
