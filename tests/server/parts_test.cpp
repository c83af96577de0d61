// The server's smaller parts, each alone.
#include <gtest/gtest.h>

#include <cmath>

#include "server/access_log.h"
#include "server/confidence.h"
#include "server/failure.h"
#include "server/http_message.h"
#include "server/keys.h"
#include "server/process.h"
#include "server/request_check.h"
#include "support/golden.h"
#include "support/scratch.h"
#include "text/json.h"

namespace clef::server {
namespace {

using std::chrono::milliseconds;

double of(Confidence confidence, QuestionType type, const std::vector<double>& p) {
  return confidence_of(confidence, type, p);
}

TEST(Confidence, IsTheLargestProbability) {
  EXPECT_EQ(of(Confidence::max, QuestionType::choice, {0.2, 0.5, 0.3}), 0.5);
}

TEST(Confidence, OfTypeSafeIsHowFarAboveChance) {
  EXPECT_DOUBLE_EQ(of(Confidence::typesafe, QuestionType::choice, {0.2, 0.5, 0.3}), (0.5 - 1.0 / 3) / (2.0 / 3));
  // D = (|0-1| + |1-1| + |2-1|) / 3 = 2/3; distance to the likeliest level 1: 0.2 + 0.3.
  EXPECT_DOUBLE_EQ(of(Confidence::typesafe, QuestionType::score, {0.2, 0.5, 0.3}), 1 - 0.5 / (2.0 / 3));
  EXPECT_EQ(of(Confidence::typesafe, QuestionType::score, {0.5, 0.0, 0.5}), 0);  // spread past uniform
}

TEST(Confidence, OfPurityAndEntropyRunFromUniformToCertain) {
  for (const Confidence kind : {Confidence::purity, Confidence::entropy}) {
    EXPECT_NEAR(of(kind, QuestionType::choice, {0.25, 0.25, 0.25, 0.25}), 0, 1e-12);
    EXPECT_NEAR(of(kind, QuestionType::choice, {0, 1, 0}), 1, 1e-12);
    EXPECT_EQ(of(kind, QuestionType::choice, {1}), 1);
  }
  EXPECT_DOUBLE_EQ(of(Confidence::purity, QuestionType::choice, {0.75, 0.25}), 2 * (0.5625 + 0.0625) - 1);
  EXPECT_DOUBLE_EQ(of(Confidence::entropy, QuestionType::choice, {0.75, 0.25}),
                   1 + (0.75 * std::log(0.75) + 0.25 * std::log(0.25)) / std::log(2.0));
}

TEST(Confidence, HasNames) {
  for (const char* name : {"max", "typesafe", "purity", "entropy"}) EXPECT_EQ(name_of(*confidence_named(name)), name);
  EXPECT_FALSE(confidence_named("Max"));
}

TEST(Keys, AreReadFromLines) {
  const auto keys =
      parse_keys("# people\n\n a  12345678 rate=5\tburst=7 concurrency=2\r\nb sha256:" + std::string(64, 'f'));
  ASSERT_TRUE(keys) << keys.error().message;
  ASSERT_EQ(keys->size(), 2U);
  EXPECT_EQ((*keys)[0].id, "a");
  EXPECT_EQ((*keys)[0].limits.rate, 5);
  EXPECT_EQ((*keys)[0].limits.burst, 7);
  EXPECT_EQ((*keys)[0].limits.concurrency, 2);
  Digest all_ones;
  all_ones.fill(0xff);
  EXPECT_EQ((*keys)[1].digest, all_ones);
}

TEST(Keys, AreRefusedWithTheirLineAndWithoutTheKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n", "line 1: expected ID KEY"},
      {"# x\na secretsecret rate=0\n", "line 2: rate: expected a whole number"},
      {"a secretsecret rate=1.5\n", "line 1: rate: expected"},
      {"a secretsecret speed=1\n", "line 1: expected rate=N"},
      {"a secretss\n", nullptr},
      {"a secretss\nb short\n", "line 2: a key has 8 to 512 characters"},
      {"a sha256:12\n", "line 1: expected 64 hexadecimal digits"},
      {"a! secretsecret\n", "line 1: an id has"},
      {"a secretsecret\na othersecret\n", "line 2: the id 'a' has a key already"},
  };
  for (const auto& [text, message] : cases) {
    const auto keys = parse_keys(text);
    EXPECT_EQ(keys.has_value(), message == nullptr) << text;
    if (keys || message == nullptr) continue;
    EXPECT_EQ(keys.error().message.rfind(message, 0), 0U) << keys.error().message;
    EXPECT_EQ(keys.error().message.find("secretsecret"), std::string::npos) << keys.error().message;
  }
}

TEST(Keys, AreFoundByKeyOrDigest) {
  KeyRing ring;
  EXPECT_TRUE(ring.is_open());
  // printf %s correct-horse | sha256sum
  ring.set(parse_keys("plain battery-staple\n"
                      "hashed sha256:9dca666eb54730714630d1519264a7bf1eeaad00b8f2edc90d3ecbfad928d163\n")
               .value());
  EXPECT_FALSE(ring.is_open());
  EXPECT_EQ(ring.find("battery-staple")->id(), "plain");
  EXPECT_EQ(ring.find("correct-horse")->id(), "hashed");
  EXPECT_EQ(ring.find("battery-stapl"), nullptr);
  EXPECT_EQ(ring.find(""), nullptr);
  EXPECT_EQ(ring.find(std::string(100'000, 'a')), nullptr);
}

TEST(Keys, AFileWithoutOneIsAnError) {
  const test::ScratchFolder folder;
  EXPECT_EQ(read_keys(folder.write("keys", "# none\n")).error().code, Errc::bad_request);
  EXPECT_EQ(read_keys(folder.path() / "missing").error().code, Errc::io);
  EXPECT_EQ(read_keys("/dev/zero").error().code, Errc::bad_request);  // without end
  EXPECT_FALSE(read_keys(folder.path()));
}

TEST(Keys, KeepWhatTheyHaveUsedWhenTheFileIsReadAgain) {
  KeyRing ring;
  const auto read = [&](const char* text) { ring.set(parse_keys(text).value()); };
  read("a secret-key rate=1 burst=2\n");
  const auto use = ring.find("secret-key");
  const auto now = KeyUse::Clock::now();
  EXPECT_FALSE(use->take(now));
  EXPECT_FALSE(use->take(now));
  read("a secret-key rate=1 burst=2\nb another-key\n");
  EXPECT_EQ(ring.find("secret-key"), use);
  EXPECT_TRUE(use->take(now));  // the same limits: no new burst
  use->put_back();
  EXPECT_FALSE(use->take(now));
  read("a secret-key rate=1 burst=3\n");
  EXPECT_FALSE(use->take(KeyUse::Clock::now()));
}

TEST(Keys, RefillWithTime) {
  KeyUse use("a");
  use.set_limits({.rate = 10, .burst = 2});
  const auto start = KeyUse::Clock::now() + std::chrono::hours(1);
  EXPECT_FALSE(use.take(start));
  EXPECT_FALSE(use.take(start));
  EXPECT_EQ(use.take(start), milliseconds(100));
  EXPECT_EQ(use.take(start + milliseconds(40)), milliseconds(60));
  EXPECT_FALSE(use.take(start + milliseconds(101)));
  EXPECT_TRUE(use.take(start + milliseconds(102)));
}

TEST(Shape, CollectsWhatIsWrong) {
  const Json body = parse_json(R"({"state":NaN,"questions":{"a":{"type":"choice","criteria":{"x":1}},
    "b":{"type":"score","criteria":["x",1e999]},"":{"type":"noul"},"d":[]}})")
                        .value();
  std::string told;
  for (const Violation& violation : check_shape(body, {})) told += invalid({violation}).message + "\n";
  EXPECT_EQ(told,
            "model: field required\n"
            "questions.a.criteria: need 2 to 255 options, got 1\n"
            "questions..instructions: a question with an empty id needs instructions\n"
            "questions.d: expected an object, got list\n"
            "state: a number that is not finite\n"
            "questions.b.criteria.1: a number that is not finite\n");
}

TEST(Shape, StaysShortWhateverIsWrong) {
  std::string body = R"({"model":"m","state":1,"questions":{)";
  for (int i = 0; i < 200; ++i) body += (i ? ",\"" : "\"") + std::string(5000, 'x') + std::to_string(i) + "\":1";
  const auto violations = check_shape(parse_json(body + "}}").value(), {});
  EXPECT_EQ(violations.size(), kMaxViolations);
  EXPECT_LT(invalid(violations).message.size(), 5000U);
}

TEST(Failures, FollowTheCodeOfTheError) {
  const auto status = [](Errc code) { return status_of(failure_of({code, "m"}).kind); };
  EXPECT_EQ(status(Errc::bad_request), 422);
  EXPECT_EQ(status(Errc::unsupported), 422);
  EXPECT_EQ(status(Errc::too_large), 413);
  EXPECT_EQ(status(Errc::busy), 429);
  EXPECT_EQ(status(Errc::unavailable), 503);
  EXPECT_EQ(status(Errc::device_lost), 503);
  EXPECT_EQ(status(Errc::timeout), 504);
  for (const Errc code : {Errc::io, Errc::out_of_memory, Errc::device, Errc::non_finite, Errc::internal}) {
    EXPECT_EQ(status(code), 500);
  }
  EXPECT_EQ(status_of(failure_of({Errc::bad_request, "json: unexpected character at byte 0"}).kind), 400);
}

TEST(Failures, FindThePictureThatAMessageNames) {
  const auto body = [](const char* message) {
    return to_compact_json(*error_body(failure_of({Errc::bad_request, message}), Wire::systemone).find("detail"));
  };
  EXPECT_NE(body("images[12]: not a PNG").find(R"("loc":["body","images",12])"), std::string::npos);
  EXPECT_NE(body("videos must be a list").find(R"("loc":["body","videos"])"), std::string::npos);
  EXPECT_NE(body("something else").find(R"("loc":["body"])"), std::string::npos);
  EXPECT_EQ(failure_of({Errc::bad_request, "images[12]: not a PNG"}).message, "images.12: not a PNG");
  EXPECT_EQ(failure_of({Errc::bad_request, "images[99999999999]: x"}).message, "images: images[99999999999]: x");
  EXPECT_EQ(failure_of({Errc::too_large, "too many images: 5, at most 4 per request"}).message,
            "images: too many images: 5, at most 4 per request");
  EXPECT_EQ(status_of(failure_of({Errc::too_large, "images[0]: 9x9 is too much"}).kind), 422);
}

TEST(HttpMessage, FindsQueryValues) {
  EXPECT_EQ(query_value("a=1&b=2&a=3", "a"), "1");
  EXPECT_EQ(query_value("a=x%20y+z%2", "a"), "x y z%2");
  EXPECT_EQ(query_value("a&b", "a"), "");
  EXPECT_EQ(query_value("a=1", "b"), std::nullopt);
  EXPECT_EQ(query_value("", ""), std::nullopt);
}

TEST(HttpMessage, WritesAResponse) {
  Response response{.status = 429, .fields = {{"X", "y"}}, .body = "{}"};
  const std::string wire = to_wire(response, {.closes = true});
  EXPECT_EQ(wire.rfind("HTTP/1.1 429 Too Many Requests\r\nServer: cleffa\r\nDate: ", 0), 0U);
  EXPECT_NE(wire.find("\r\nContent-Length: 2\r\nConnection: close\r\nX: y\r\n\r\n{}"), std::string::npos);
  EXPECT_EQ(to_chunk("hello"), "5\r\nhello\r\n");
}

TEST(AccessLog, WritesALineWithoutContent) {
  AccessLine line{
      .request_id = "req_1", .remote = "127.0.0.1:1", .method = "POST", .path = "/v1/systemone", .key = "a"};
  line.status = 200;
  line.seconds = 0.0123456;
  line.input_tokens = 7;
  line.questions = 1;
  EXPECT_EQ(to_line(line, std::chrono::system_clock::time_point(milliseconds(1'700'000'000'123))),
            R"({"time":"2023-11-14T22:13:20.123Z","request_id":"req_1","remote":"127.0.0.1:1","method":"POST",)"
            R"("path":"/v1/systemone","status":200,"bytes_in":0,"bytes_out":0,"ms":12.3456,"key":"a",)"
            R"("questions":1,"input_tokens":7})");
}

TEST(AccessLog, GoesOnInANewFile) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "access.log";
  AccessLog log;
  ASSERT_TRUE(log.open(path.string()));
  log.write({.request_id = "first"});
  std::filesystem::rename(path, folder.path() / "access.log.1");
  ASSERT_TRUE(log.reopen());
  log.write({.request_id = "second"});
  EXPECT_EQ(test::read_file(path).find("first"), std::string::npos);
  EXPECT_NE(test::read_file(path).find("second"), std::string::npos);
  EXPECT_NE(test::read_file(folder.path() / "access.log.1").find("first"), std::string::npos);
}

}  // namespace
}  // namespace clef::server
