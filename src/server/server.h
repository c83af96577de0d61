// The listener and its connections: all on one thread, the one that calls run(). A connection costs no thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/request_parser.h"
#include "server/service.h"

namespace clef::server {

struct ServerOptions {
  std::string host = "127.0.0.1";     // an IPv4 or IPv6 address
  std::uint16_t port = 8080;          // 0: any that is free
  std::filesystem::path unix_socket;  // instead of host and port
  std::int64_t max_connections = 1024;
  std::int64_t max_client_connections = 256;        // of one address (IPv6: of one /64); 0: any
  std::size_t max_body_memory = 512 << 20;          // bytes of all bodies that are being read
  std::chrono::milliseconds head_timeout{10'000};   // from a request's first byte, and from the connection's start
  std::chrono::milliseconds body_timeout{30'000};   // from the head's end; for each line of a batch
  std::chrono::milliseconds idle_timeout{60'000};   // between requests
  std::chrono::milliseconds write_timeout{30'000};  // of one answer, or one piece of a batch's
  std::chrono::milliseconds drain_delay{1'000};     // unready, but serving
  std::chrono::milliseconds drain_timeout{30'000};  // then, to finish what was accepted
  ParserLimits parser;
};

// "127.0.0.1", "::1" and the like: what only this machine reaches.
bool is_loopback(const std::string& host);

class Server {
 public:
  // Errc::io when the address cannot be had, bad_request when it is none. The service must outlive the server.
  static Result<std::unique_ptr<Server>> listen(const ServerOptions& options, Service& service);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const;   // that it listens on
  std::string address() const;  // for people: "http://127.0.0.1:8080", "unix:/run/clef.sock"

  // Serves until it is drained or stopped.
  void run();

  // Runs `work` on the I/O thread. From any thread.
  void post(std::function<void()> work);
  // On the I/O thread, again and again, until the server stops.
  void every(std::chrono::milliseconds interval, std::function<void()> work);
  // SIGTERM, SIGINT and SIGHUP, on the I/O thread.
  void on_signal(std::function<void(int)> handler);

  // Stops listening after the delay, answers what was accepted, then lets run() return. From the I/O thread.
  void drain();
  // At once. From the I/O thread.
  void stop();

  std::int64_t num_connections() const;  // from the I/O thread
  std::size_t body_bytes() const;        // of all bodies that are being read; from the I/O thread
  // Requests that were cut off because draining took too long. After run().
  std::int64_t num_cut_off() const;

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace clef::server
