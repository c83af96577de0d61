// What the server holds for its clients is bounded, whatever they do.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "server_fixture.h"
#include "support/scratch.h"

namespace clef::server {
namespace {

using std::chrono::milliseconds;
using test::http_request;
using test::HttpAnswer;
using test::HttpClient;

std::string head_of(std::size_t body_bytes, const std::string& path = "/v1/systemone") {
  return "POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body_bytes) + "\r\n\r\n";
}

TEST(Bounds, AreOnAllBodiesTogetherAndSpareTheSmall) {
  FixtureOptions options = fixture_options();
  options.server.max_body_memory = 1 << 20;
  TestServer server(options);
  HttpClient holder = server.connect();
  holder.send(head_of(1'100'000) + std::string(1'000'000, ' '));  // and then nothing
  server.wait_until([&] { return server.server().body_bytes() == 1'000'000; });
  HttpClient second = server.connect();
  second.send(head_of(300'000) + std::string(200'000, ' '));
  const auto refused = second.read();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_NE(refused->field("retry-after-ms"), "");
  EXPECT_EQ(server.post("/v1/systemone", kAsk).status, 200);
  holder.reset();
  // What the holder had is given back.
  const std::string padded = kAsk + std::string(500'000, ' ');
  server.wait_until([&] { return server.server().body_bytes() == 0; });
  EXPECT_EQ(server.post("/v1/systemone", padded).status, 200);
  EXPECT_EQ(server.post("/v1/systemone", padded).status, 200);
}

TEST(Bounds, OnBodiesCountALineOfABatch) {
  FixtureOptions options = fixture_options();
  options.server.max_body_memory = 1 << 20;
  TestServer server(options);
  const std::string body = kAsk + "\n" + kAsk + std::string(2 << 20, ' ') + "\n" + kAsk + "\n";
  const std::string text = server.post("/v1/systemone/batch", body).body;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_NE(text.find(R"({"index":1,"error":{"status":429)"), std::string::npos) << text;
  EXPECT_NE(text.find(R"({"index":2,"model")"), std::string::npos) << text;
}

// Bytes alone do not prolong a batch: each line has the time of a body.
TEST(Bounds, EndABatchWhoseLineNeverEnds) {
  FixtureOptions options = fixture_options();
  options.server.body_timeout = milliseconds(100);
  TestServer server(options);
  HttpClient client = server.connect();
  client.send("POST /v1/systemone/batch HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n");
  while (client.send("1\r\n \r\n")) std::this_thread::yield();
  EXPECT_FALSE(client.read()->is_complete);
  server.wait_until([&] { return server.server().num_connections() == 0; });
}

TEST(Bounds, LeaveABatchItsRateWhenTheQueueIsFull) {
  FixtureOptions options = fixture_options();
  options.scheduler.max_queue_tokens = 20;
  TestServer server(options);
  // One for the batch, four for its lines, and no more for years: a request taken for nothing would be missed.
  auto keys = parse_keys("a secret-key rate=1 burst=5\n").value();
  keys.front().limits.rate = 1e-9;
  int ticks = 0;
  server.on_server([&] {
    server.service().keys().set(keys);
    server.server().every(milliseconds(50), [&ticks] { ++ticks; });
  });
  server.gate().hold();
  HttpClient client = server.connect();
  std::string body;
  for (int i = 0; i < 4; ++i) body += kAsk + "\n";
  client.send(http_request("POST", "/v1/systemone/batch", body, {"Authorization: Bearer secret-key"}));
  server.gate().wait_for_passes(1);
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 1; });
  const int before = server.on_server([&] { return ticks; });
  server.wait_until([&] { return ticks >= before + 10; });  // while the third line is tried again and again
  server.gate().open();
  const std::string text = client.read()->body;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_EQ(text.find("error"), std::string::npos) << text;
}

TEST(Bounds, EndABatchWhoseKeyIsTakenAway) {
  FixtureOptions options = fixture_options();
  options.keys = "a first-key\n";
  TestServer server(options);
  HttpClient client = server.connect();
  const std::string line = kAsk + "\n";
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", line.size(), line);
  client.send(
      "POST /v1/systemone/batch HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer first-key\r\n"
      "Transfer-Encoding: chunked\r\n\r\n" +
      chunk);
  server.gate().wait_for_passes(1);
  server.on_server([&] { server.service().keys().set(parse_keys("a second-key\n").value()); });
  client.send(chunk + chunk);
  const auto answer = client.read();
  EXPECT_TRUE(answer->is_complete);
  EXPECT_NE(answer->body.find(R"({"index":0,"model")"), std::string::npos) << answer->body;
  EXPECT_NE(answer->body.find(R"({"index":1,"error":{"status":401)"), std::string::npos) << answer->body;
  EXPECT_EQ(std::count(answer->body.begin(), answer->body.end(), '\n'), 2);
  EXPECT_TRUE(client.is_closed_by_server());
}

// A picture's bytes are no tokens: a large one must not find a queue full of text that is not there.
TEST(Bounds, TakeALargeBodyWhileOthersWait) {
  FixtureOptions options = fixture_options();
  options.scheduler.max_queue_tokens = 20'000;
  TestServer server(options);
  server.gate().hold();
  HttpClient running = server.connect(), waiting = server.connect(), large = server.connect();
  running.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  waiting.send(http_request("POST", "/v1/systemone", kAsk));
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 1; });
  large.send(http_request("POST", "/v1/systemone", kAsk + std::string(4 << 20, ' ')));
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 2; });
  server.gate().open();
  for (HttpClient* client : {&running, &waiting, &large}) EXPECT_EQ(client->read()->status, 200);
}

TEST(Bounds, ServeClientsInTurnsWhenThereAreNoKeys) {
  FixtureOptions options = fixture_options();
  options.scheduler.max_batch_requests = 1;
  options.scheduler.host_threads = 1;
  std::vector<std::size_t> order;  // by length of state
  options.run = [&order](std::span<const EncodedRecord* const> records) {
    order.push_back(records.front()->input_ids.size() - 10);
    return decide_evenly(records);
  };
  TestServer server(options);
  const auto ask = [](std::size_t length) {
    return http_request(
        "POST", "/v1/systemone",
        R"({"model":"clef","state":")" + std::string(length, 'x') + R"(","questions":{"a":{"type":"noul"}}})");
  };
  server.gate().hold();
  std::vector<HttpClient> clients;
  const auto send = [&](const char* from, std::size_t length, std::size_t waiting) {
    clients.push_back(server.connect(from));
    clients.back().send(ask(length));
    server.wait_until([&] {
      const auto load = server.scheduler().load();
      return load.waiting_requests == static_cast<std::int64_t>(waiting) && load.waiting_bytes == 0;
    });
  };
  clients.push_back(server.connect());
  clients.back().send(ask(1));
  server.gate().wait_for_passes(1);
  for (std::size_t i = 0; i < 3; ++i) send("127.0.0.2", 40 + i, i + 1);
  send("127.0.0.3", 20, 4);
  server.gate().open();
  for (HttpClient& client : clients) EXPECT_EQ(client.read()->status, 200);
  EXPECT_EQ(order, (std::vector<std::size_t>{1, 40, 20, 41, 42}));
}

// Neither is the body read on, nor are lines started, while the client does not read.
TEST(Bounds, StopABatchWhoseAnswersNobodyReads) {
  FixtureOptions options = fixture_options();
  options.server.write_timeout = milliseconds(300);
  TestServer server(options);
  HttpClient client = server.connect();
  // 100 MB of lines whose answers are as large: far more than the sockets' buffers.
  const std::string line =
      R"({"model":"clef","state":"x","questions":{")" + std::string(10'000, 'q') + R"(":{"type":"noul"}}})" + "\n";
  constexpr std::size_t kLines = 10'000;
  client.send(head_of(kLines * line.size(), "/v1/systemone/batch"));
  std::size_t sent = 0;
  while (sent < kLines && client.send(line)) ++sent;
  EXPECT_LT(sent, kLines);
  server.wait_until([&] { return server.server().num_connections() == 0; });
  std::size_t started = 0;
  for (const std::size_t requests : server.gate().passes()) started += requests;
  EXPECT_GT(started, 0U);
  EXPECT_LT(started, kLines / 2);
}

TEST(Bounds, KeepMetricsFewWhateverIsAskedFor) {
  TestServer server;
  HttpClient client = server.connect();
  const auto num_series = [&] {
    const std::string text = client.ask(http_request("GET", "/metrics")).body;
    return std::count(text.begin(), text.end(), '\n');
  };
  client.ask(http_request("GET", "/nothing"));
  client.ask(http_request("PATCH", "/v1/systemone"));
  client.ask(http_request("GET", "/v1/models", {}, {"Authorization: Bearer nobody"}));
  num_series();  // counts itself from now on
  const auto before = num_series();
  for (int i = 0; i < 100; ++i) {
    const std::string n = std::to_string(i);
    client.ask(http_request("GET", "/nothing/" + n));
    client.ask(http_request("M" + n, "/v1/systemone"));
    client.ask(http_request("GET", "/v1/models?" + n, {}, {"Authorization: Bearer key-" + n}));
  }
  EXPECT_EQ(num_series(), before);
}

// The reader of a pipe went to sleep: lines are lost and counted, and the answers go on.
TEST(Bounds, DoNotWaitForTheReaderOfTheLog) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    TestServer server;
    ASSERT_TRUE(server.on_server(
        [&] { return server.service().access_log().open("/dev/fd/" + std::to_string(ends[1])).has_value(); }));
    HttpClient client = server.connect();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(client.ask(http_request("GET", "/health")).status, 200);
    const std::string metrics = client.ask(http_request("GET", "/metrics")).body;
    const std::string name = "\nclef_access_log_lost_total ";
    ASSERT_NE(metrics.find(name), std::string::npos);
    EXPECT_GT(std::stod(metrics.substr(metrics.find(name) + name.size())), 0);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Bounds, ShowTheDeviceByNameAndState) {
  FixtureOptions options = fixture_options();
  options.service.stall_limit = milliseconds(1);
  TestServer server(options);
  const auto health = [&] { return server.get("/health").body; };
  EXPECT_NE(health().find(R"("device":"test","device_state":"idle")"), std::string::npos) << health();
  server.gate().hold();
  HttpClient client = server.connect();
  client.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  server.wait_until([&] { return server.service().trouble().has_value(); });
  EXPECT_NE(health().find(R"("device_state":"stalled","reason":"a pass has been running)"), std::string::npos);
  EXPECT_EQ(server.get("/health").status, 503);
  server.gate().open();
  EXPECT_EQ(client.read()->status, 200);
  EXPECT_NE(health().find(R"("device_state":"idle")"), std::string::npos) << health();
}

}  // namespace
}  // namespace clef::server
