// Bytes of a connection through the parser and the routes, without sockets.
//
// The first byte says in which pieces the rest arrives. What the parser makes of it must not depend on that; whatever
// it makes must get an answer with a status that is listed and a body that is JSON, or, of a batch, a line for each
// line.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"
#include "engine/scheduler.h"
#include "server/batch_stream.h"
#include "server/even_device.h"
#include "server/request_parser.h"
#include "server/service.h"
#include "text/json.h"

namespace clef::server {
namespace {

using Stage = RequestParser::Stage;

struct Parsed {
  Stage stage = Stage::head;
  RequestHead head;
  std::string body;
  std::string rest;
  int status = 0;
};

Parsed parse(std::string_view bytes, std::size_t step) {
  RequestParser parser({.max_head_bytes = 2048, .max_fields = 20});
  Parsed parsed;
  std::string input;
  while (true) {
    const std::size_t taken = parser.feed(input);
    CHECK(taken <= input.size());
    input.erase(0, taken);
    if (parser.stage() == Stage::body || parser.stage() == Stage::complete) parsed.body += parser.take_body();
    if (parser.stage() == Stage::complete || parser.stage() == Stage::failed) break;
    if (taken > 0) continue;
    if (bytes.empty()) break;
    input += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  parsed.stage = parser.stage();
  if (parsed.stage == Stage::failed) parsed.status = parser.failure().status;
  if (parsed.stage == Stage::body || parsed.stage == Stage::complete) parsed.head = parser.head();
  parsed.rest = input + std::string(bytes);
  return parsed;
}

void expect_same(const Parsed& whole, const Parsed& pieces) {
  CHECK(whole.stage == pieces.stage);
  CHECK(whole.status == pieces.status);
  if (whole.stage == Stage::failed) return;  // how far each read before it noticed may differ
  CHECK(whole.body == pieces.body);
  CHECK(whole.head.method == pieces.head.method && whole.head.path == pieces.head.path);
  CHECK(whole.head.query == pieces.head.query && whole.head.fields == pieces.head.fields);
  CHECK(whole.head.keeps_alive == pieces.head.keeps_alive);
  if (whole.stage == Stage::complete) CHECK(whole.rest == pieces.rest);
}

// What the scheduler's threads want to be run on this one.
class Posts {
 public:
  Post post() {
    return [this](std::function<void()> work) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(work));
      changed_.notify_all();
    };
  }
  void run_one() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
};

class Routes {
 public:
  Routes() : service_(options()), scheduler_(decide_evenly, {.host_threads = 1}) {
    service_.keys().set(parse_keys("a secret-key rate=1000000 burst=1000000\n").value());
    service_.start({.prepare = prepare_evenly, .scheduler = &scheduler_, .device_name = "none"});
  }

  void answer(const Parsed& parsed, std::size_t step) {
    const auto exchange = service_.open(parsed.head, "fuzz");
    auto response = service_.admit(*exchange);
    const bool is_batch = !response && exchange->route->id == RouteId::batch;
    if (is_batch) {
      batch(exchange, parsed.body, step);
    } else if (!response) {
      response = work(*exchange, parsed.body);
    }
    if (response) check(*exchange, *std::move(response));
    service_.close(*exchange, 200);
  }

 private:
  static ServiceOptions options() {
    ServiceOptions options;
    options.model_name = "clef";
    options.max_body_bytes = 1 << 16;
    options.cors_origins = {"http://a"};
    return options;
  }

  Response work(Exchange& exchange, const std::string& body) {
    std::promise<Answered> promise;
    auto submitted =
        service_.submit(exchange, body, [&](Answered answered) { promise.set_value(std::move(answered)); });
    if (const auto* failure = std::get_if<Failure>(&submitted)) return service_.refuse(exchange, *failure);
    return service_.respond(exchange, promise.get_future().get());
  }

  // In pieces, as room is: every line that is not blank gets one line, with an index of its own.
  void batch(const std::shared_ptr<Exchange>& exchange, std::string_view body, std::size_t step) {
    Posts posts;
    const auto stream = std::make_shared<BatchStream>(service_, exchange, posts.post(), [] {});
    std::string output;
    while (!stream->is_over()) {
      output += stream->take_output();
      if (stream->wants_input()) {
        stream->feed(body.substr(0, step));
        body.remove_prefix(std::min(step, body.size()));
        if (body.empty()) stream->end_input();
      } else if (stream->is_waiting_for_room()) {
        stream->retry();
      } else if (!stream->is_over()) {
        posts.run_one();
      }
    }
    output += stream->take_output();
    std::set<std::string> indexes;
    for (std::string_view rest = output; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(line.size() + 1);
      const auto answer = parse_json(line);
      CHECK(answer && answer->find("index") != nullptr, "{}", line);
      CHECK(answer->find("answers") != nullptr || answer->find("error") != nullptr, "{}", line);
      CHECK(indexes.insert(answer->find("index")->if_integer()->digits).second, "{}", line);
    }
    CHECK(std::ssize(indexes) == stream->num_lines());
  }

  void check(const Exchange& exchange, Response response) {
    service_.decorate(exchange, response);
    CHECK(!reason_phrase(response.status).empty(), "status {}", response.status);
    for (const auto& [name, value] : response.fields) {
      CHECK(is_token(name));
      CHECK(value.find_first_of("\r\n") == std::string::npos, "a field that ends its line: {}", value);
    }
    if (response.content_type == "application/json" && response.status != 204) CHECK(parse_json(response.body));
    CHECK(!to_wire(response, {}).empty());
  }

  Service service_;
  Scheduler scheduler_;
};

}  // namespace
}  // namespace clef::server

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace clef::server;
  static auto& routes = *new Routes();
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (int i = 0; i < 8; ++i) {  // pipelined requests
    const Parsed whole = parse(bytes, bytes.size() + 1);
    expect_same(whole, parse(bytes, std::size_t{1} + data[0]));
    if (whole.stage != RequestParser::Stage::complete) break;
    routes.answer(whole, std::size_t{1} + data[0]);
    if (whole.rest.empty()) break;
    bytes = bytes.substr(bytes.size() - whole.rest.size());
  }
  return 0;
}
