// The server over real sockets: what it answers, whom it waits for, and what it lets go.
#include "server/server.h"

#include <gtest/gtest.h>

#include <set>

#include "server_fixture.h"
#include "support/scratch.h"

namespace clef::server {
namespace {

using std::chrono::milliseconds;
using test::http_request;
using test::HttpAnswer;
using test::HttpClient;

TEST(Server, AnswersARequest) {
  TestServer server;
  const HttpAnswer answer = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(
      answer.body,
      R"({"model":"clef","answers":{"a":{"type":"noul","noul":0.5}},"usage":{"input_tokens":11,"output_tokens":0}})");
  EXPECT_EQ(answer.field("content-type"), "application/json");
  EXPECT_EQ(answer.field("x-typesafe-request-id").substr(0, 4), "req_");
}

TEST(Server, GivesEachRequestAnIdOfItsOwn) {
  TestServer server;
  HttpClient client = server.connect();
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.insert(client.ask(http_request("GET", "/health")).field("x-typesafe-request-id"));
  EXPECT_EQ(ids.size(), 20U);
}

TEST(Server, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(http_request("POST", "/v1/systemone", kAsk) + http_request("GET", "/version") +
              http_request("POST", "/v1/systemone", "{") + http_request("GET", "/health"));
  EXPECT_NE(client.read()->body.find("\"answers\""), std::string::npos);
  EXPECT_NE(client.read()->body.find("1.2.3"), std::string::npos);
  EXPECT_EQ(client.read()->status, 400);
  EXPECT_NE(client.read()->body.find("\"ok\""), std::string::npos);
}

TEST(Server, ReadsABodyInChunks) {
  TestServer server;
  std::string request = "POST /v1/systemone HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char c : kAsk) request += std::string("1\r\n") + c + "\r\n";
  EXPECT_EQ(server.ask(request + "0\r\n\r\n").status, 200);
}

TEST(Server, SaysToGoOnOnlyToBodiesThatItWants) {
  TestServer server;
  HttpClient client = server.connect();
  const std::string request = http_request("POST", "/v1/systemone", kAsk, {"Expect: 100-continue"});
  const std::size_t head = request.find("\r\n\r\n") + 4;
  client.send(request.substr(0, head));
  // The body goes out without waiting: what counts is that the word came before the answer.
  client.send(request.substr(head));
  EXPECT_EQ(client.read()->status, 200);
  HttpClient refused = server.connect();
  refused.send("POST /nothing HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(refused.read()->status, 404);
  EXPECT_EQ(refused.num_continues(), 0);
  EXPECT_TRUE(refused.is_closed_by_server());
  HttpClient waits = server.connect();
  waits.send(request.substr(0, head));
  waits.send(request.substr(head, 5));
  waits.send(request.substr(head + 5));
  EXPECT_EQ(waits.read()->status, 200);
  EXPECT_EQ(server.post("/v1/systemone", kAsk, {"Expect: miracles"}).status, 417);
  EXPECT_EQ(server.ask("GET /health HTTP/1.0\r\nExpect: miracles\r\n\r\n").status, 200);  // RFC 9110, 10.1.1
}

TEST(Server, AnswersHeadWithoutABody) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(http_request("HEAD", "/health"));
  const auto head = client.read_head_only();
  EXPECT_EQ(head->status, 200);
  EXPECT_GT(std::stoi(head->field("content-length")), 0);
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
}

TEST(Server, NamesTheMethodsOfARoute) {
  TestServer server;
  EXPECT_EQ(server.get("/v1/systemone").status, 405);
  EXPECT_EQ(server.get("/v1/systemone").field("allow"), "POST, OPTIONS");
  EXPECT_EQ(server.post("/health", "").field("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(server.ask(http_request("OPTIONS", "/v1/models")).status, 204);
  EXPECT_EQ(server.ask(http_request("OPTIONS", "*")).status, 204);
  EXPECT_EQ(server.get("/nothing").status, 404);
  EXPECT_EQ(server.get("/v1/systemone/").status, 404);
}

TEST(Server, ClosesAfterWhatItCannotRead) {
  TestServer server;
  HttpClient client = server.connect();
  client.send(
      "POST /v1/systemone HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n");
  const auto answer = client.read();
  EXPECT_EQ(answer->status, 400);
  EXPECT_EQ(answer->field("connection"), "close");
  EXPECT_EQ(client.read_all(), "");  // the rest is no request
}

TEST(Server, SpeaksHttp10) {
  TestServer server;
  HttpClient client = server.connect();
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read()->field("connection"), "close");
  EXPECT_TRUE(client.is_closed_by_server());
  HttpClient keeps = server.connect();
  keeps.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(keeps.read()->field("connection"), "keep-alive");
}

TEST(Server, RefusesABodyOverTheLimitBeforeItIsRead) {
  FixtureOptions options = fixture_options();
  options.service.max_body_bytes = 1000;
  TestServer server(options);
  HttpClient declared = server.connect();
  declared.send("POST /v1/systemone HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
  EXPECT_EQ(declared.read()->status, 413);
  EXPECT_TRUE(declared.is_closed_by_server());
  HttpClient chunked = server.connect();
  chunked.send("POST /v1/systemone HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 200 && chunked.send("100\r\n" + std::string(256, ' ') + "\r\n"); ++i) {
  }
  EXPECT_EQ(chunked.read()->status, 413);
}

TEST(Server, KeepsAConnectionWhoseRefusedBodyIsShort) {
  TestServer server;
  HttpClient client = server.connect();
  EXPECT_EQ(client.ask(http_request("POST", "/nothing", "{}")).status, 404);
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
}

TEST(Server, LosesPatienceWithSlowClients) {
  FixtureOptions options = fixture_options();
  options.server.head_timeout = milliseconds(50);
  TestServer server(options);
  // The patience may end before the first byte is there: then nothing is answered.
  std::optional<HttpAnswer> answer;
  while (!answer) {
    HttpClient head = server.connect();
    head.send("POST /v1/systemone HTT");
    answer = head.read();
    EXPECT_TRUE(head.is_closed_by_server());
  }
  EXPECT_EQ(answer->status, 408);
  HttpClient silent = server.connect();
  EXPECT_TRUE(silent.is_closed_by_server());

  options.server.head_timeout = milliseconds(10'000);
  options.server.body_timeout = milliseconds(1);
  TestServer other(options);
  HttpClient body = other.connect();
  body.send("POST /v1/systemone HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(body.read()->status, 408);

  options.server.idle_timeout = milliseconds(1);
  TestServer third(options);
  HttpClient idle = third.connect();
  EXPECT_EQ(idle.ask(http_request("GET", "/health")).status, 200);
  EXPECT_TRUE(idle.is_closed_by_server());
}

TEST(Server, DropsAClientThatDoesNotReadItsAnswer) {
  FixtureOptions options = fixture_options();
  options.server.write_timeout = milliseconds(1);
  TestServer server(options);
  HttpClient client = server.connect();
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
  // Far more answers than the sockets' buffers hold.
  std::string many;
  for (int i = 0; i < 500; ++i) many += http_request("GET", "/openapi.json");
  client.send(many);
  server.wait_until([&] { return server.server().num_connections() == 0; });
}

TEST(Server, AnswersADeadlineThatPasses) {
  FixtureOptions options = fixture_options();
  options.service.request_timeout = milliseconds(1);
  TestServer server(options);
  server.gate().hold();
  EXPECT_EQ(server.post("/v1/systemone", kAsk).status, 504);
  server.gate().open();
}

TEST(Server, DropsTheWorkOfAClientThatHangsUp) {
  TestServer server;
  server.gate().hold();
  HttpClient busy = server.connect();
  busy.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  std::vector<HttpClient> gone;
  for (int i = 0; i < 10; ++i) {
    gone.push_back(server.connect());
    gone.back().send(http_request("POST", "/v1/systemone", kAsk));
  }
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 10; });
  for (std::size_t i = 0; i < gone.size(); ++i) {
    if (i % 2 == 0) {
      gone[i].reset();
    } else {
      gone[i].close();
    }
  }
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 0; });
  server.gate().open();
  EXPECT_EQ(busy.read()->status, 200);
  EXPECT_EQ(server.gate().passes().size(), 1U);  // nothing ran for those who left
  EXPECT_NE(server.get("/metrics").body.find("clef_clients_gone_total 10"), std::string::npos);
}

// It is not told from one that has gone: a process that dies leaves the same mark.
TEST(Server, DropsTheWorkOfAClientThatEndsItsSide) {
  TestServer server;
  server.gate().hold();
  HttpClient busy = server.connect(), half = server.connect();
  busy.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  half.send(http_request("POST", "/v1/systemone", kAsk));
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 1; });
  half.end_sending();
  EXPECT_FALSE(half.read());
  server.wait_until([&] { return server.scheduler().load().waiting_requests == 0; });
  server.gate().open();
  EXPECT_EQ(busy.read()->status, 200);
  // An answer that is on its way when the end comes arrives whole.
  HttpClient last = server.connect();
  last.send(http_request("GET", "/openapi.json"));
  last.end_sending();
  const auto answer = last.read();
  EXPECT_TRUE(!answer || answer->is_complete);
}

TEST(Server, RefusesWhatDoesNotFitInTheQueue) {
  FixtureOptions options = fixture_options();
  options.scheduler.max_queue_tokens = 25;
  TestServer server(options);
  server.gate().hold();
  HttpClient running = server.connect(), waiting = server.connect();
  running.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  waiting.send(http_request("POST", "/v1/systemone", kAsk));
  server.wait_until([&] { return server.scheduler().load().waiting_tokens == 11; });
  const HttpAnswer refused = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(refused.status, 429);
  EXPECT_GT(std::stoi(refused.field("retry-after-ms")), 0);
  EXPECT_GT(std::stoi(refused.field("retry-after")), 0);
  server.gate().open();
  EXPECT_EQ(running.read()->status, 200);
  EXPECT_EQ(waiting.read()->status, 200);
}

TEST(Server, AnswersAllItAcceptedWhenItDrains) {
  TestServer server;
  server.gate().hold();
  std::vector<HttpClient> clients;
  for (int i = 0; i < 20; ++i) {
    clients.push_back(server.connect());
    clients.back().send(http_request("POST", "/v1/systemone", kAsk));
  }
  HttpClient half = server.connect();  // its body is on the way when draining begins
  const std::string request = http_request("POST", "/v1/systemone", kAsk);
  half.send(request.substr(0, request.size() - 5));
  server.wait_until([&] {
    const auto load = server.scheduler().load();
    return load.waiting_requests + load.running_requests == 20 && server.server().num_connections() == 21;
  });
  server.on_server([&] { server.server().drain(); });
  half.send(request.substr(request.size() - 5));
  server.gate().open();
  for (HttpClient& client : clients) {
    const auto answer = client.read();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_TRUE(client.is_closed_by_server());
  }
  EXPECT_EQ(half.read()->status, 200);
  EXPECT_TRUE(half.is_closed_by_server());
  server.join();
  EXPECT_EQ(server.server().num_cut_off(), 0);
}

TEST(Server, TurnsUnreadyBeforeItStopsListening) {
  FixtureOptions options = fixture_options();
  options.server.drain_delay = milliseconds(3'600'000);
  TestServer server(options);
  EXPECT_EQ(server.get("/ready").status, 200);
  server.on_server([&] { server.server().drain(); });
  const HttpAnswer ready = server.get("/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_NE(ready.body.find("draining"), std::string::npos);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.post("/v1/systemone", kAsk).status, 200);
}

TEST(Server, CountsWhatItCutsOff) {
  FixtureOptions options = fixture_options();
  options.server.drain_timeout = milliseconds(0);
  TestServer server(options);
  server.gate().hold();
  HttpClient client = server.connect();
  client.send(http_request("POST", "/v1/systemone", kAsk));
  server.gate().wait_for_passes(1);
  server.on_server([&] { server.server().drain(); });
  server.join();
  EXPECT_EQ(server.server().num_cut_off(), 1);
}

TEST(Server, SaysThatItIsLoading) {
  FixtureOptions options = fixture_options();
  options.starts = false;
  TestServer server(options);
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.get("/ready").status, 503);
  const HttpAnswer answer = server.post("/v1/systemone", kAsk);
  EXPECT_EQ(answer.status, 503);
  EXPECT_NE(answer.field("retry-after"), "");
}

TEST(Server, TurnsRedWhenTheDeviceKeepsFailing) {
  FixtureOptions options = fixture_options();
  options.run = [](std::span<const EncodedRecord* const> records) {
    return std::vector<Result<Decisions>>(records.size(), Error{Errc::device, "lost"});
  };
  TestServer server(options);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server.get("/health").status, 200);
    EXPECT_EQ(server.post("/v1/systemone", kAsk).status, 500);
  }
  EXPECT_EQ(server.get("/health").status, 503);
  EXPECT_EQ(server.get("/ready").status, 503);
}

TEST(Server, MakesRoomByClosingWhoWaitsLongest) {
  FixtureOptions options = fixture_options();
  options.server.max_connections = 4;
  TestServer server(options);
  HttpClient first = server.connect(), second = server.connect();
  EXPECT_EQ(first.ask(http_request("GET", "/health")).status, 200);
  EXPECT_EQ(second.ask(http_request("GET", "/health")).status, 200);
  HttpClient third = server.connect(), fourth = server.connect();
  third.send("GET /slow");  // in the middle of its head
  fourth.send("GET /slower");
  server.wait_until([&] { return server.server().num_connections() == 4; });
  HttpClient fifth = server.connect();
  EXPECT_EQ(fifth.ask(http_request("GET", "/health")).status, 200);
  EXPECT_TRUE(first.is_closed_by_server());  // the idle one that waited longest
}

TEST(Server, TurnsAwayWhenEveryConnectionIsAtWork) {
  FixtureOptions options = fixture_options();
  options.server.max_connections = 2;
  TestServer server(options);
  server.gate().hold();
  HttpClient first = server.connect(), second = server.connect();
  first.send(http_request("POST", "/v1/systemone", kAsk));
  second.send(http_request("POST", "/v1/systemone", kAsk));
  server.wait_until([&] {
    const auto load = server.scheduler().load();
    return load.waiting_requests + load.running_requests == 2;
  });
  HttpClient third = server.connect();
  const auto refused = third.read();
  EXPECT_EQ(refused->status, 503);
  EXPECT_TRUE(third.is_closed_by_server());
  server.gate().open();
  EXPECT_EQ(first.read()->status, 200);
  EXPECT_EQ(second.read()->status, 200);
}

TEST(Server, CapsEachClientAlone) {
  FixtureOptions options = fixture_options();
  options.server.max_client_connections = 2;
  TestServer server(options);
  HttpClient a = server.connect("127.0.0.2"), b = server.connect("127.0.0.2"), other = server.connect("127.0.0.3");
  for (HttpClient* client : {&a, &b, &other}) EXPECT_EQ(client->ask(http_request("GET", "/health")).status, 200);
  HttpClient c = server.connect("127.0.0.2");
  EXPECT_EQ(c.ask(http_request("GET", "/health")).status, 200);
  EXPECT_TRUE(a.is_closed_by_server());
  EXPECT_EQ(other.ask(http_request("GET", "/health")).status, 200);
}

TEST(Server, ListensOnAUnixSocket) {
  const test::ScratchFolder folder;
  FixtureOptions options = fixture_options();
  options.server.unix_socket = folder.path() / "clef.sock";
  {
    TestServer server(options);
    HttpClient client(options.server.unix_socket.string());
    EXPECT_EQ(client.ask(http_request("POST", "/v1/systemone", kAsk)).status, 200);
    Service service(options.service);
    EXPECT_FALSE(Server::listen(options.server, service));  // another server is there
  }
  EXPECT_FALSE(std::filesystem::exists(options.server.unix_socket));
}

TEST(Server, RefusesAddressesThatItCannotHave) {
  Service service(fixture_options().service);
  ServerOptions options;
  options.host = "example.org";
  EXPECT_EQ(Server::listen(options, service).error().code, Errc::bad_request);
  TestServer server;
  options.host = "127.0.0.1";
  options.port = server.server().port();
  EXPECT_EQ(Server::listen(options, service).error().code, Errc::io);
}

TEST(Server, KnowsLoopback) {
  EXPECT_TRUE(is_loopback("127.0.0.1"));
  EXPECT_TRUE(is_loopback("127.9.9.9"));
  EXPECT_TRUE(is_loopback("::1"));
  EXPECT_FALSE(is_loopback("0.0.0.0"));
  EXPECT_FALSE(is_loopback("::"));
  EXPECT_FALSE(is_loopback("192.168.0.1"));
}

}  // namespace
}  // namespace clef::server
