// A server on a port of its own, over a device that tests can hold: every option of every question is equally likely.
#pragma once

#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/scheduler.h"
#include "even_device.h"
#include "server/server.h"
#include "server/service.h"
#include "support/http_client.h"

namespace clef::server {

// Lets passes begin, one by one or all.
class Gate {
 public:
  void hold() {
    const std::lock_guard lock(mutex_);
    is_held_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_held_ = false;
    changed_.notify_all();
  }
  // In the device thread, at the start of a pass.
  void pass(std::size_t requests) {
    std::unique_lock lock(mutex_);
    passes_.push_back(requests);
    changed_.notify_all();
    changed_.wait(lock, [&] { return !is_held_; });
  }
  void wait_for_passes(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return passes_.size() >= count; });
  }
  std::vector<std::size_t> passes() {
    const std::lock_guard lock(mutex_);
    return passes_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_held_ = false;
  std::vector<std::size_t> passes_;
};

struct FixtureOptions {
  ServerOptions server;
  ServiceOptions service;
  SchedulerOptions scheduler;
  std::string keys;    // a keys file's text
  bool starts = true;  // else it stays loading
  std::function<Result<Engine::Prepared>(Json)> prepare = prepare_evenly;
  Scheduler::Run run = decide_evenly;
};

inline FixtureOptions fixture_options() {
  FixtureOptions options;
  options.server.port = 0;
  options.server.drain_delay = std::chrono::milliseconds(0);
  options.service.model_name = "clef";
  options.service.version = "1.2.3";
  options.service.request_timeout =
      std::chrono::hours(1);  // a busy machine is no failure; tests of deadlines set theirs
  options.scheduler.host_threads = 2;
  return options;
}

class TestServer {
 public:
  explicit TestServer(FixtureOptions options = fixture_options()) : service_(options.service) {
    if (!options.keys.empty()) service_.keys().set(parse_keys(options.keys).value());
    server_ = Server::listen(options.server, service_).value();
    options.scheduler.observe = [this](const PassReport& pass) { service_.observe(pass); };
    scheduler_ = std::make_unique<Scheduler>(
        [this, run = options.run](std::span<const EncodedRecord* const> records) {
          gate_.pass(records.size());
          return run(records);
        },
        options.scheduler);
    if (options.starts)
      service_.start({.prepare = options.prepare, .scheduler = scheduler_.get(), .device_name = "test"});
    thread_ = std::thread([this] { server_->run(); });
  }
  ~TestServer() {
    gate_.open();
    server_->post([this] { server_->stop(); });
    join();
    scheduler_.reset();
  }

  test::HttpClient connect(const char* from = nullptr) const { return test::HttpClient(server_->port(), from); }
  test::HttpAnswer ask(std::string_view request) const { return connect().ask(request); }
  test::HttpAnswer post(std::string_view target, std::string_view body,
                        const std::vector<std::string>& fields = {}) const {
    return ask(test::http_request("POST", target, body, fields));
  }
  test::HttpAnswer get(std::string_view target, const std::vector<std::string>& fields = {}) const {
    return ask(test::http_request("GET", target, {}, fields));
  }

  Gate& gate() { return gate_; }
  Server& server() { return *server_; }
  Service& service() { return service_; }
  const Scheduler& scheduler() const { return *scheduler_; }

  // Runs on the I/O thread and waits for it.
  template <typename Function>
  auto on_server(Function function) {
    std::packaged_task<decltype(function())()> task(function);
    auto result = task.get_future();
    server_->post([&task] { task(); });
    return result.get();
  }
  // Looks again whenever the server's threads had a turn.
  void wait_until(const std::function<bool()>& holds) {
    while (!on_server(holds)) std::this_thread::yield();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  Gate gate_;
  Service service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Scheduler> scheduler_;
  std::thread thread_;
};

inline const std::string kAsk = R"({"model":"clef","state":"x","questions":{"a":{"type":"noul"}}})";

}  // namespace clef::server
