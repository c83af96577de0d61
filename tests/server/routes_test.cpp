// The routes and their rules over HTTP: keys, origins, encodings, shapes of errors, batches.
#include "server/routes.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "server_fixture.h"
#include "text/json.h"

namespace clef::server {
namespace {

using test::http_request;
using test::HttpAnswer;
using test::HttpClient;

Json json(const HttpAnswer& answer) {
  auto parsed = parse_json(answer.body);
  EXPECT_TRUE(parsed) << answer.body;
  return parsed ? std::move(parsed).value() : Json();
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(compressBound(text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(Routes, AreFoundByTheirPath) {
  EXPECT_EQ(find_route("/v1/systemone").route->id, RouteId::systemone);
  EXPECT_EQ(find_route("/v1/systemone/batch").route->id, RouteId::batch);
  const Match match = find_route("/client/v4/accounts/abc/ai/run/@cf/cloudflare/clef-flash");
  EXPECT_EQ(match.route->id, RouteId::workers);
  EXPECT_EQ(match.model, "clef-flash");
  EXPECT_NE(find_route("/client/v4/accounts/abc/ai/run/%40cf/cloudflare/clef").route, nullptr);
  for (const char* path :
       {"", "/", "/v1", "/v1/systemone/", "//v1/systemone", "/V1/systemone",
        "/client/v4/accounts//ai/run/@cf/cloudflare/clef", "/client/v4/accounts/a/b/ai/run/@cf/cloudflare/clef"}) {
    EXPECT_EQ(find_route(path).route, nullptr) << path;
  }
}

TEST(Routes, TellErrorsInTypeSafesShapeAndOneSentence) {
  TestServer server;
  const HttpAnswer answer = server.post(
      "/v1/systemone", R"({"model":"clef","state":1,"questions":{"a":{"type":"choice","criteria":{"x":1}}}})");
  EXPECT_EQ(answer.status, 422);
  EXPECT_EQ(answer.body,
            R"({"detail":[{"loc":["body","questions","a","criteria"],"msg":"need 2 to 255 options, got 1",)"
            R"("type":"too_short"}],"message":"questions.a.criteria: need 2 to 255 options, got 1"})");
  const HttpAnswer malformed = server.post("/v1/systemone", "{");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(*json(malformed).find("detail")->find("error_type")->if_string(), "bad_request_error");
  EXPECT_EQ(*json(malformed).find("message"), *json(malformed).find("detail")->find("message"));
}

TEST(Routes, ServeOnlyTheirModelAndItsAliases) {
  TestServer server;
  const auto status = [&](const std::string& model) {
    return server.post("/v1/systemone", R"({"model":")" + model + R"(","state":1,"questions":{"a":{"type":"noul"}}})")
        .status;
  };
  EXPECT_EQ(status("clef"), 200);
  EXPECT_EQ(status("jev-latest"), 200);
  EXPECT_EQ(status("jev-1.13.0"), 404);
  FixtureOptions options = fixture_options();
  options.service.any_model = true;
  TestServer open(options);
  EXPECT_EQ(open.post("/v1/systemone", R"({"model":"x","state":1,"questions":{"a":{"type":"noul"}}})").status, 200);
}

TEST(Routes, ListModelsForBothKindsOfClients) {
  TestServer server;
  const Json body = json(server.get("/v1/models"));
  EXPECT_EQ(*(*body.find("models")->if_array())[0].find("name")->if_string(), "clef");
  EXPECT_EQ(*(*body.find("models")->if_array())[1].find("name")->if_string(), "jev-latest");
  EXPECT_EQ(*(*body.find("data")->if_array())[0].find("id")->if_string(), "clef");
  EXPECT_EQ(*body.find("object")->if_string(), "list");
}

TEST(Routes, ReadBodiesThatAreGzip) {
  TestServer server;
  EXPECT_EQ(server.post("/v1/systemone", gzip(kAsk), {"Content-Encoding: gzip"}).status, 200);
  EXPECT_EQ(server.post("/v1/systemone", gzip(kAsk).substr(0, 20), {"Content-Encoding: gzip"}).status, 400);
  EXPECT_EQ(server.post("/v1/systemone", gzip(kAsk) + "x", {"Content-Encoding: gzip"}).status, 400);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Content-Encoding: gzip"}).status, 400);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Content-Encoding: br"}).status, 415);
  EXPECT_EQ(server.post("/v1/systemone", gzip(kAsk), {"Content-Encoding: gzip", "Content-Encoding: gzip"}).status, 415);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Content-Encoding: identity", "Content-Encoding: gzip"}).status, 415);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Content-Encoding: Identity"}).status, 200);
  EXPECT_EQ(server.post("/v1/systemone/batch", gzip(kAsk), {"Content-Encoding: gzip"}).status, 415);
}

TEST(Routes, RefuseABodyThatGrowsTooLarge) {
  FixtureOptions options = fixture_options();
  options.service.max_body_bytes = 1 << 20;
  TestServer server(options);
  const std::string bomb = gzip(std::string(64 << 20, ' '));
  ASSERT_LT(bomb.size(), options.service.max_body_bytes);
  EXPECT_EQ(server.post("/v1/systemone", bomb, {"Content-Encoding: gzip"}).status, 413);
}

TEST(Routes, ChooseTheMeaningOfConfidence) {
  TestServer server;
  const std::string body = R"({"model":"clef","state":1,"questions":{"a":{"type":"choice","criteria":{"x":1,"y":2}}}})";
  const auto confidence = [&](const std::string& query) {
    return *json(server.post("/v1/systemone" + query, body))
                .find("answers")
                ->find("a")
                ->find("confidence")
                ->if_double();
  };
  EXPECT_EQ(confidence(""), 0.5);
  EXPECT_EQ(confidence("?confidence=max"), 0.5);
  EXPECT_EQ(confidence("?confidence=typesafe"), 0);
  EXPECT_EQ(confidence("?x=1&confidence=purity"), 0);
  EXPECT_EQ(confidence("?confidence=%65ntropy"), 0);
  const HttpAnswer wrong = server.post("/v1/systemone?confidence=sure", body);
  EXPECT_EQ(wrong.status, 422);
  EXPECT_NE(wrong.body.find(R"(["query","confidence"])"), std::string::npos);
}

TEST(Routes, PutExtrasOutsideAnswers) {
  TestServer server;
  const Json body = json(server.post("/v1/systemone?logits=true", kAsk));
  EXPECT_EQ(to_compact_json(*body.find("x_logits")), R"({"a":{"true":0.0,"false":0.0}})");
  EXPECT_EQ(server.post("/v1/systemone?logits=1", kAsk).status, 422);
}

TEST(Routes, CheckTheCacheKey) {
  TestServer server;
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"X-Clef-Prefix-Cache: tenant-1.a_B"}).status, 200);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"X-Clef-Prefix-Cache: a b"}).status, 400);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"X-Clef-Prefix-Cache: " + std::string(65, 'a')}).status, 400);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"X-Clef-Prefix-Cache: a", "X-Clef-Prefix-Cache: a"}).status, 400);
}

TEST(Routes, AskForAKey) {
  FixtureOptions options = fixture_options();
  options.keys = "team-a secret-key-a\nteam-b secret-key-b\n";
  TestServer server(options);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Authorization: Bearer secret-key-a"}).status, 200);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"authorization: bearer secret-key-b"}).status, 200);
  const HttpAnswer missing = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(missing.status, 401);
  EXPECT_EQ(missing.field("www-authenticate"), "Bearer");
  for (const char* field : {"Authorization: Bearer secret-key-c", "Authorization: secret-key-a",
                            "Authorization: Bearer ", "Authorization: Basic secret-key-a",
                            "Authorization: Bearer secret-key-a "
                            "secret-key-b"}) {
    EXPECT_EQ(server.post("/v1/systemone", kAsk, {field}).status, 401) << field;
  }
  EXPECT_EQ(server.get("/v1/models").status, 401);
  EXPECT_EQ(server.get("/metrics").status, 401);
  for (const char* path : {"/health", "/ready", "/version", "/openapi.json"}) EXPECT_EQ(server.get(path).status, 200);
  const HttpAnswer metrics = server.get("/metrics", {"Authorization: Bearer secret-key-a"});
  EXPECT_NE(metrics.body.find(R"(clef_http_requests_total{key="team-a",route="systemone",status="200"} 1)"),
            std::string::npos);
  EXPECT_EQ(metrics.body.find("secret"), std::string::npos);
}

TEST(Routes, ReadKeysAgain) {
  FixtureOptions options = fixture_options();
  options.keys = "a first-key\n";
  TestServer server(options);
  HttpClient client = server.connect();
  const auto status = [&](const std::string& key) {
    return client.ask(http_request("POST", "/v1/systemone", kAsk, {"Authorization: Bearer " + key})).status;
  };
  EXPECT_EQ(status("first-key"), 200);
  server.on_server([&] { server.service().keys().set(parse_keys("a second-key\n").value()); });
  EXPECT_EQ(status("first-key"), 401);
  EXPECT_EQ(status("second-key"), 200);
}

TEST(Routes, LimitAKeysRateAndConcurrency) {
  FixtureOptions options = fixture_options();
  options.keys = "slow slow-key-1 rate=1 burst=2\nnarrow narrow-key concurrency=1\n";
  TestServer server(options);
  const std::string slow = http_request("POST", "/v1/systemone", kAsk, {"Authorization: Bearer slow-key-1"});
  HttpClient client = server.connect();
  EXPECT_EQ(client.ask(slow).status, 200);
  EXPECT_EQ(client.ask(slow).status, 200);
  const HttpAnswer limited = client.ask(slow);
  EXPECT_EQ(limited.status, 429);
  EXPECT_LE(std::stoi(limited.field("retry-after-ms")), 1000);
  EXPECT_EQ(limited.field("retry-after"), "1");
  EXPECT_EQ(*json(limited).find("detail")->find("error_type")->if_string(), "rate_limit_error");

  const std::string narrow = http_request("POST", "/v1/systemone", kAsk, {"Authorization: Bearer narrow-key"});
  server.gate().hold();
  HttpClient first = server.connect();
  first.send(narrow);
  server.gate().wait_for_passes(3);
  EXPECT_EQ(server.ask(narrow).status, 429);
  server.gate().open();
  EXPECT_EQ(first.read()->status, 200);
  EXPECT_EQ(server.ask(narrow).status, 200);
}

TEST(Routes, KeepPagesOfOtherOriginsOut) {
  TestServer server;
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Origin: https://evil.example"}).status, 403);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Origin: null"}).status, 403);
  EXPECT_EQ(server.post("/v1/systemone", kAsk).field("access-control-allow-origin"), "");
}

TEST(Routes, LetThePagesInThatAreListed) {
  FixtureOptions options = fixture_options();
  options.service.cors_origins = {"https://app.example"};
  TestServer server(options);
  const HttpAnswer answer = server.post("/v1/systemone", kAsk, {"Origin: https://app.example"});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(answer.field("vary"), "Origin");
  EXPECT_NE(answer.field("access-control-expose-headers").find("x-typesafe-request-id"), std::string::npos);
  const HttpAnswer preflight =
      server.ask(http_request("OPTIONS", "/v1/systemone", {},
                              {"Origin: https://app.example", "Access-Control-Request-Method: POST",
                               "Access-Control-Request-Headers: authorization,content-type,x-typesafe-sdk"}));
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.field("access-control-allow-methods"), "POST, OPTIONS");
  EXPECT_EQ(preflight.field("access-control-allow-headers"), "authorization,content-type,x-typesafe-sdk");
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Origin: https://other.example"}).status, 403);
  // Errors carry the fields, too, or the page could not read them.
  EXPECT_EQ(server.post("/v1/systemone", "{", {"Origin: https://app.example"}).field("access-control-allow-origin"),
            "https://app.example");
}

TEST(Routes, AnswerInWorkersEnvelope) {
  TestServer server;
  const std::string path = "/client/v4/accounts/abc/ai/run/@cf/cloudflare/clef-flash";
  const HttpAnswer answer =
      server.post(path, R"({"state":"x","questions":{"a":{"type":"noul","instructions":"Is it?"}}})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"result":{"model":"clef-flash","answers":{"a":{"type":"noul","noul":0.5}},)"
                         R"("usage":{"input_tokens":11,"output_tokens":0}},"success":true,"errors":[],"messages":[]})");
  EXPECT_NE(answer.field("cf-ai-req-id"), "");
  const auto refusal = [&](const std::string& target, const std::string& body) {
    const HttpAnswer refused = server.post(target, body);
    const Json parsed = json(refused);
    EXPECT_EQ(parsed.find("success")->if_bool() != nullptr && *parsed.find("success")->if_bool(), false);
    return std::pair(refused.status, (*parsed.find("errors")->if_array())[0].find("code")->if_integer()->digits);
  };
  using Expected = std::pair<int, std::string>;
  const std::string ok = R"("instructions":"i","type":"noul")";
  EXPECT_EQ(refusal(path, "{"), Expected(400, "6003"));
  EXPECT_EQ(refusal(path, R"({"state":1})"), Expected(400, "5006"));
  EXPECT_EQ(refusal(path, R"({"state":1,"questions":{"a":{"type":"maybe","instructions":"i"}}})"),
            Expected(400, "5006"));
  EXPECT_EQ(refusal(path, R"({"state":1,"questions":{"a":{"type":"noul"}}})"), Expected(422, "5012"));
  EXPECT_EQ(refusal(path, R"({"state":1,"more":1,"questions":{"a":{)" + ok + "}}}"), Expected(422, "5012"));
  EXPECT_EQ(refusal(path, R"({"state":1,"questions":{"a b":{)" + ok + "}}}"), Expected(422, "5012"));
  EXPECT_EQ(refusal(path, R"({"state":1,"questions":{")" + std::string(101, 'a') + R"(":{)" + ok + "}}}"),
            Expected(422, "5012"));
  std::string many;
  for (int i = 0; i < 65; ++i) many += (i ? "," : "") + std::string("\"q") + std::to_string(i) + "\":{" + ok + "}";
  EXPECT_EQ(refusal(path, R"({"state":1,"questions":{)" + many + "}}"), Expected(422, "5012"));
  EXPECT_EQ(refusal("/client/v4/accounts/abc/ai/run/@cf/cloudflare/llama", "{}"), Expected(400, "7000"));
  EXPECT_EQ(refusal("/client/v4/nothing", "{}"), Expected(400, "7000"));
}

TEST(Routes, AnswerInOpenAisShape) {
  TestServer server;
  const HttpAnswer answer = server.post("/v1/decisions", R"({"model":"clef","input":"x","questions":[
    {"type":"predicate","instructions":"Is it?"},
    {"type":"choice","name":"c","instructions":"Which?","choices":[{"value":true},{"value":"no","description":"d"}]},
    {"type":"score","instructions":"How?","levels":[{"label":"low"},{"label":"high","description":"very"}]}]})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body,
            R"({"model":"clef","answers":[{"type":"predicate","name":null,"probability":0.5},)"
            R"({"type":"choice","name":"c","choice":true,"confidence":0.5,"probabilities":[)"
            R"({"value":true,"probability":0.5},{"value":"no","probability":0.5}]},)"
            R"({"type":"score","name":null,"score":0.5,"confidence":0.5,"probabilities":[)"
            R"({"value":0,"label":"low","probability":0.5},{"value":1,"label":"high","probability":0.5}]}],)"
            R"("usage":{"input_tokens":11,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},)"
            R"("output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":11}})");
  const HttpAnswer refused = server.post(
      "/v1/decisions", R"({"model":"clef","input":"x","questions":[{"type":"choice","choices":[{"value":1}]}]})");
  EXPECT_EQ(refused.status, 422);
  EXPECT_EQ(*json(refused).find("error")->find("param")->if_string(), "questions.0.choices.0.value");
}

std::vector<Json> lines_of(const HttpAnswer& answer) {
  std::vector<Json> lines;
  std::string_view rest = answer.body;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    auto parsed = parse_json(line);
    EXPECT_TRUE(parsed) << line;
    if (parsed) lines.push_back(std::move(parsed).value());
  }
  return lines;
}

int index_of(const Json& line) { return std::stoi(line.find("index")->if_integer()->digits); }

TEST(Batch, AnswersEachLineWithItsIndex) {
  TestServer server;
  std::string body;
  for (int i = 0; i < 100; ++i) body += (i == 50 ? "nonsense" : kAsk) + (i % 3 == 0 ? "\n\n" : "\r\n");
  const HttpAnswer answer = server.post("/v1/systemone/batch", body);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.is_complete);
  EXPECT_EQ(answer.field("content-type"), "application/x-ndjson");
  std::vector<int> seen(100);
  for (const Json& line : lines_of(answer)) {
    ++seen.at(static_cast<std::size_t>(index_of(line)));
    EXPECT_EQ(line.find("answers") == nullptr, index_of(line) == 50);
    if (index_of(line) == 50) {
      EXPECT_EQ(line.find("error")->find("status")->if_integer()->digits, "400");
    }
  }
  EXPECT_EQ(seen, std::vector<int>(100, 1));
}

TEST(Batch, AnswersWhileItsBodyStillComes) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("POST /v1/systemone/batch HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string line = kAsk + "\n";
  char size[16];
  std::snprintf(size, sizeof size, "%zx\r\n", line.size());
  client.send(size + line + "\r\n");
  server.gate().wait_for_passes(1);  // the first line is at work before the second is sent
  client.send(size + line + "\r\n0\r\n\r\n");
  const auto answer = client.read();
  EXPECT_EQ(lines_of(*answer).size(), 2U);
  EXPECT_TRUE(answer->is_complete);
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
}

TEST(Batch, HoldsNoMoreLinesThanItsWindow) {
  FixtureOptions options = fixture_options();
  options.service.max_batch_window = 3;
  TestServer server(options);
  server.gate().hold();
  HttpClient client = server.connect();
  std::string body;
  for (int i = 0; i < 50; ++i) body += kAsk + "\n";
  client.send(http_request("POST", "/v1/systemone/batch", body));
  server.wait_until([&] {
    const auto load = server.scheduler().load();
    return load.running_requests + load.waiting_requests == 3;
  });
  server.gate().open();
  EXPECT_EQ(lines_of(*client.read()).size(), 50U);
}

TEST(Batch, WaitsForRoomInTheQueue) {
  FixtureOptions options = fixture_options();
  options.scheduler.max_queue_tokens = 30;
  options.service.max_batch_window = 50;
  TestServer server(options);
  std::string body;
  for (int i = 0; i < 50; ++i) body += kAsk + "\n";
  int refused = 0;
  for (const Json& line : lines_of(server.post("/v1/systemone/batch", body))) {
    if (line.find("answers") == nullptr) ++refused;
  }
  // A line that was let in may still find that it has more tokens than its bytes promised.
  EXPECT_LT(refused, 50);
}

TEST(Batch, RefusesALineThatIsTooLongAndGoesOn) {
  FixtureOptions options = fixture_options();
  options.service.max_body_bytes = 200;
  TestServer server(options);
  const auto lines =
      lines_of(server.post("/v1/systemone/batch", kAsk + "\n" + std::string(100'000, 'x') + "\n" + kAsk));
  ASSERT_EQ(lines.size(), 3U);
  for (const Json& line : lines) EXPECT_EQ(line.find("answers") == nullptr, index_of(line) == 1);
}

TEST(Batch, SaysWhereItEndedWhenTheServerDrains) {
  FixtureOptions options = fixture_options();
  options.service.max_batch_window = 1;
  TestServer server(options);
  server.gate().hold();
  HttpClient client = server.connect();
  client.send(http_request("POST", "/v1/systemone/batch", kAsk + "\n" + kAsk + "\n" + kAsk + "\n"));
  server.gate().wait_for_passes(1);
  server.on_server([&] { server.server().drain(); });
  server.gate().open();
  const auto answer = client.read();
  const auto lines = lines_of(*answer);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_TRUE(answer->is_complete);
  for (const Json& line : lines) {
    if (index_of(line) == 1) {
      EXPECT_EQ(line.find("error")->find("status")->if_integer()->digits, "503");
    }
  }
  server.join();
}

TEST(Batch, DropsItsLinesWhenTheClientHangsUp) {
  TestServer server;
  server.gate().hold();
  HttpClient client = server.connect();
  client.send(http_request("POST", "/v1/systemone/batch", kAsk + "\n" + kAsk + "\n" + kAsk + "\n"));
  server.wait_until([&] {
    const auto load = server.scheduler().load();
    return load.running_requests + load.waiting_requests == 3;
  });
  client.reset();
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 0; });
  server.gate().open();
}

TEST(Batch, NeedsHttp11) {
  TestServer server;
  EXPECT_EQ(server.ask("POST /v1/systemone/batch HTTP/1.0\r\nContent-Length: 0\r\n\r\n").status, 505);
}

}  // namespace
}  // namespace clef::server
