// One client's connection: reads requests, one at a time, has them answered, and keeps every deadline.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "server/batch_stream.h"
#include "server/request_parser.h"
#include "server/server.h"
#include "server/service.h"

namespace clef::server {

class Connection;

// What connections share. Belongs to the I/O thread.
struct Hub {
  const ServerOptions& options;
  Service& service;
  Post post;
  std::function<void(Connection&)> closed;
  std::vector<char> read_buffer = std::vector<char>(65536);
  std::size_t body_bytes = 0;  // of all bodies that are being read
  bool is_draining = false;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;
  using Socket = boost::asio::generic::stream_protocol::socket;

  // `client` groups connections for their cap; empty: it has none.
  Connection(Hub& hub, Socket socket, std::string remote, std::string client);

  void start();
  // Keeps the deadlines: called again and again.
  void check(Clock::time_point now);
  // Nothing more will be read after what is in progress.
  void drain();
  // Answers 503 and closes, before anything is read.
  void turn_away(const std::string& reason);
  // At once; a request at work is dropped.
  void close();

  const std::string& client() const { return client_; }
  // Whether it only waits for its client to say something: then it can make room for another.
  bool is_waiting() const { return state_ == State::idle || state_ == State::head; }
  bool is_idle() const { return state_ == State::idle; }
  bool is_working() const { return state_ == State::working || state_ == State::batch || state_ == State::writing; }
  Clock::time_point since() const { return since_; }

 private:
  enum class State : std::uint8_t {
    idle,       // between requests
    head,       // a request has begun
    body,       // its head is read
    working,    // it is being answered
    batch,      // its body and its answer both flow
    writing,    // the answer goes out
    lingering,  // the answer is out and the connection half closed: a reset would take the answer from the client
    closed,
  };

  template <typename Function>
  void guard(Function function);
  void keep_deadlines(Clock::time_point now);
  void enter(State state, std::chrono::milliseconds timeout);
  bool wants_input() const;
  void wait_readable();
  void on_readable();
  void on_end_of_input();
  void take_input();
  bool take_head();
  bool take_batch_body();
  bool take_body();
  bool count_body(std::size_t bytes);
  void on_head();
  void on_malformed();
  void start_work();
  void start_batch();
  void pump_batch();
  void on_answer(std::uint64_t serial, Answered answered);
  void send(Response response);
  void write(std::string bytes, void (Connection::*then)());
  void on_answer_written();
  void on_batch_written();
  void on_batch_end_written();
  void next_request();
  void linger();
  void drop_request(int status);

  Hub& hub_;
  Socket socket_;
  std::string remote_, client_;
  State state_ = State::idle;
  Clock::time_point since_;     // of the state
  Clock::time_point deadline_;  // of the state
  bool is_waiting_for_input_ = false;
  bool is_writing_ = false;
  bool closes_ = false;  // after the answer
  bool has_input_ended_ = false;

  RequestParser parser_;
  std::string input_;  // not consumed
  std::string body_;
  std::size_t counted_body_bytes_ = 0;  // of hub_.body_bytes
  std::string output_;
  std::shared_ptr<Exchange> exchange_;
  std::optional<Response> early_answer_;  // decided by the head; sent when the body is read
  std::uint64_t serial_ = 0;              // of the request
  int status_ = 0;                        // of the answer being written
  std::size_t lingered_bytes_ = 0;
  Scheduler::Ticket ticket_;
  std::shared_ptr<BatchStream> batch_;
  std::int64_t batch_lines_ = 0;  // when the deadline was set
};

}  // namespace clef::server
