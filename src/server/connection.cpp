#include "server/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <new>
#include <utility>
#include <variant>

namespace clef::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr std::size_t kMaxPipelinedBytes = 65536;  // read ahead while a request is being answered
constexpr std::size_t kMaxDiscardedBytes = 65536;  // of a body that nobody wants; a longer one costs the connection
constexpr std::size_t kSmallBodyBytes = 65536;
constexpr std::size_t kMaxLingeredBytes = 1 << 20;
constexpr milliseconds kLingerTimeout{1'000};
constexpr milliseconds kDrainIdleTimeout{250};  // for a request that was on its way when draining began
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr milliseconds kComeBackSoon{1'000};
constexpr int kClientGone = 499;  // in logs: nobody is there to read a status

Kind kind_of_status(int status) {
  switch (status) {
    case 431:
      return Kind::head_too_large;
    case 501:
      return Kind::not_implemented;
    default:
      return Kind::malformed;
  }
}

Failure shutting_down() { return {.kind = Kind::unavailable, .message = "the server is shutting down"}; }

// Of all that is being read, not of one body alone.
Failure no_room_for_bodies() {
  return {.kind = Kind::queue_full, .message = "too many bodies are being read at once", .retry_after = kComeBackSoon};
}

}  // namespace

Connection::Connection(Hub& hub, Socket socket, std::string remote, std::string client)
    : hub_(hub),
      socket_(std::move(socket)),
      remote_(std::move(remote)),
      client_(std::move(client)),
      parser_(hub.options.parser) {}

void Connection::start() {
  enter(State::idle, hub_.options.head_timeout);
  wait_readable();
}

void Connection::enter(State state, milliseconds timeout) {
  state_ = state;
  since_ = Clock::now();
  deadline_ = since_ + timeout;
}

// The host out of memory is the end of this connection, not of the server.
template <typename Function>
void Connection::guard(Function function) {
  try {
    function();
  } catch (const std::bad_alloc&) {
    close();
  }
}

void Connection::check(Clock::time_point now) {
  guard([&] { keep_deadlines(now); });
}

void Connection::keep_deadlines(Clock::time_point now) {
  if (batch_ != nullptr && batch_->is_waiting_for_room()) {
    batch_->retry();
    pump_batch();
  }
  if (now < deadline_) return;
  switch (state_) {
    case State::head:
    case State::body:
      if (exchange_ == nullptr) exchange_ = hub_.service.open_malformed(remote_);
      closes_ = true;
      send(hub_.service.refuse(*exchange_,
                               {.kind = Kind::slow_client,
                                .message = state_ == State::head ? "the request's head did not arrive in time"
                                                                 : "the request's body did not arrive in time"}));
      break;
    case State::working:
      ticket_.cancel();
      send(hub_.service.refuse(*exchange_, {.kind = Kind::deadline, .message = "the answer was not ready in time"}));
      break;
    case State::idle:
    case State::batch:
    case State::writing:
    case State::lingering:
      close();
      break;
    case State::closed:
      break;
  }
}

void Connection::drain() {
  closes_ = closes_ || state_ != State::idle;
  if (state_ == State::idle) deadline_ = std::min(deadline_, Clock::now() + kDrainIdleTimeout);
  if (batch_ != nullptr) {
    batch_->stop(shutting_down());
    pump_batch();
  }
}

void Connection::turn_away(const std::string& reason) {
  exchange_ = hub_.service.open_malformed(remote_);
  closes_ = true;
  send(hub_.service.refuse(*exchange_,
                           {.kind = Kind::unavailable, .message = reason, .retry_after = milliseconds(1000)}));
}

void Connection::close() {
  if (state_ == State::closed) return;
  const auto self = shared_from_this();
  drop_request(kClientGone);
  state_ = State::closed;
  error_code ignored;
  socket_.close(ignored);
  hub_.closed(*this);
}

// What a request holds, wherever it is.
void Connection::drop_request(int status) {
  ticket_.cancel();
  ticket_ = {};
  count_body(0);
  if (batch_ != nullptr) batch_->cancel();
  batch_ = nullptr;
  if (exchange_ != nullptr) hub_.service.close(*exchange_, status);
  exchange_ = nullptr;
}

// Reading

bool Connection::wants_input() const {
  switch (state_) {
    case State::idle:
    case State::head:
    case State::body:
    case State::lingering:
      return true;
    case State::working:
    case State::writing:
      return input_.size() < kMaxPipelinedBytes && !has_input_ended_;
    case State::batch:
      // After the body's end, only to notice that the client goes away.
      return batch_ != nullptr && !has_input_ended_ &&
             (parser_.stage() == RequestParser::Stage::complete ? input_.size() < kMaxPipelinedBytes
                                                                : batch_->wants_input());
    case State::closed:
      return false;
  }
  return false;
}

// Waits for the socket before it takes memory to read into: an idle connection has no buffer.
void Connection::wait_readable() {
  if (is_waiting_for_input_ || !wants_input()) return;
  is_waiting_for_input_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](error_code error) {
    self->is_waiting_for_input_ = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->guard([&] { self->on_readable(); });
  });
}

void Connection::on_readable() {
  error_code error;
  const std::size_t count = socket_.read_some(asio::buffer(hub_.read_buffer), error);
  if (error == asio::error::would_block || error == asio::error::try_again || error == asio::error::interrupted) {
    return wait_readable();
  }
  if (error == asio::error::eof) return on_end_of_input();
  if (error) return close();
  if (state_ == State::lingering) {
    lingered_bytes_ += count;
    if (lingered_bytes_ > kMaxLingeredBytes) return close();
  } else {
    input_.append(hub_.read_buffer.data(), count);
    take_input();
  }
  wait_readable();
}

// A client that has ended its side has gone: it is not told from one that only stopped sending.
void Connection::on_end_of_input() {
  has_input_ended_ = true;
  if (state_ == State::writing) {
    closes_ = true;  // the answer is on its way; it may still be read
    return;
  }
  close();
}

void Connection::take_input() {
  while (true) {
    switch (state_) {
      case State::idle:
      case State::head:
        if (!take_head()) return;
        break;
      case State::body:
      case State::batch:
        if (!take_body()) return;
        break;
      case State::working:
      case State::writing:
      case State::lingering:
      case State::closed:
        return;
    }
  }
}

// Both return whether there may be more to take.
bool Connection::take_head() {
  const std::size_t taken = parser_.feed(input_);
  input_.erase(0, taken);
  switch (parser_.stage()) {
    case RequestParser::Stage::head:
      if (state_ == State::idle && parser_.has_begun()) enter(State::head, hub_.options.head_timeout);
      return taken > 0;
    case RequestParser::Stage::failed:
      on_malformed();
      return false;
    case RequestParser::Stage::body:
    case RequestParser::Stage::complete:
      on_head();
      return true;
  }
  return false;
}

bool Connection::take_body() {
  if (state_ == State::batch) return take_batch_body();
  const std::size_t taken = parser_.feed(input_);
  input_.erase(0, taken);
  if (parser_.stage() == RequestParser::Stage::failed) {
    on_malformed();
    return false;
  }
  const bool is_complete = parser_.stage() == RequestParser::Stage::complete;
  body_ += parser_.take_body();
  const std::size_t limit = early_answer_ ? kMaxDiscardedBytes : hub_.service.options().max_body_bytes;
  if (body_.size() > limit) {
    closes_ = true;
    send(early_answer_
             ? *std::move(early_answer_)
             : hub_.service.refuse(*exchange_, {.kind = Kind::too_large,
                                                .message = fmt::format("the body has more than {} bytes", limit)}));
    return false;
  }
  if (!count_body(body_.size())) {
    closes_ = closes_ || !is_complete;
    send(early_answer_ ? *std::move(early_answer_) : hub_.service.refuse(*exchange_, no_room_for_bodies()));
    return false;
  }
  if (!is_complete) return taken > 0;
  if (early_answer_) {
    send(*std::move(early_answer_));
  } else {
    start_work();
  }
  return false;
}

bool Connection::take_batch_body() {
  if (!batch_->wants_input() || parser_.stage() == RequestParser::Stage::complete) return false;
  const std::size_t taken = parser_.feed(input_);
  input_.erase(0, taken);
  if (parser_.stage() == RequestParser::Stage::failed) {
    close();  // the head of the answer is out: only an early end can tell
    return false;
  }
  const std::string bytes = parser_.take_body();
  exchange_->line.bytes_in += bytes.size();
  batch_->feed(bytes);
  const bool is_complete = parser_.stage() == RequestParser::Stage::complete;
  if (is_complete) batch_->end_input();
  if (!count_body(batch_->held_bytes())) {
    batch_->drop_line(no_room_for_bodies());
    count_body(batch_->held_bytes());
  }
  // A line has its time, as a body has: bytes alone do not prolong it. Nor do lines prolong what is being written.
  const bool has_new_lines = batch_lines_ != batch_->num_lines();
  batch_lines_ = batch_->num_lines();
  if (has_new_lines && !is_writing_) deadline_ = Clock::now() + hub_.options.body_timeout;
  pump_batch();
  return !is_complete && taken > 0;
}

// This connection's share of what all bodies together may take. False when that is too much, and the share not small:
// who asks little is not turned away for what others hold.
bool Connection::count_body(std::size_t bytes) {
  hub_.body_bytes += bytes - std::exchange(counted_body_bytes_, bytes);
  return bytes <= kSmallBodyBytes || hub_.body_bytes <= hub_.options.max_body_memory;
}

void Connection::on_malformed() {
  exchange_ = exchange_ == nullptr ? hub_.service.open_malformed(remote_) : exchange_;
  closes_ = true;
  const RequestParser::Failure& failure = parser_.failure();
  send(hub_.service.refuse(*exchange_, {.kind = kind_of_status(failure.status), .message = failure.message}));
}

void Connection::on_head() {
  exchange_ = hub_.service.open(parser_.head(), remote_, client_);
  closes_ = !parser_.head().keeps_alive || hub_.is_draining;
  early_answer_ = hub_.service.admit(*exchange_);
  const bool is_complete = parser_.stage() == RequestParser::Stage::complete;
  if (early_answer_) {
    closes_ = closes_ || early_answer_->closes;
    const bool is_worth_reading =
        !exchange_->head.expects_continue && exchange_->head.content_length.value_or(0) <= kMaxDiscardedBytes;
    if (is_complete || closes_ || !is_worth_reading) {
      closes_ = closes_ || !is_complete;
      return send(*std::move(early_answer_));
    }
  }
  enter(State::body, hub_.options.body_timeout);
  if (!early_answer_ && exchange_->route->id == RouteId::batch) return start_batch();
  if (!early_answer_ && exchange_->head.expects_continue && !is_complete) {
    // Small, and the socket's buffer is empty: what does not fit was not going to be waited for.
    error_code ignored;
    socket_.write_some(asio::buffer(kContinue), ignored);
  }
}

// Working

void Connection::start_work() {
  exchange_->line.bytes_in = body_.size();
  count_body(0);
  auto reply = [self = weak_from_this(), post = hub_.post, serial = serial_](Answered answered) {
    post([self, serial, answered = std::move(answered)]() mutable {
      if (const auto connection = self.lock()) {
        connection->guard([&] { connection->on_answer(serial, std::move(answered)); });
      }
    });
  };
  auto submitted = hub_.service.submit(*exchange_, std::exchange(body_, {}), std::move(reply));
  if (const auto* failure = std::get_if<Failure>(&submitted)) return send(hub_.service.refuse(*exchange_, *failure));
  ticket_ = std::get<Scheduler::Ticket>(std::move(submitted));
  enter(State::working, hub_.service.options().request_timeout);
  deadline_ = exchange_->deadline;
}

void Connection::on_answer(std::uint64_t serial, Answered answered) {
  if (state_ != State::working || serial != serial_) return;  // it came too late
  send(hub_.service.respond(*exchange_, std::move(answered)));
}

void Connection::start_batch() {
  enter(State::batch, hub_.options.body_timeout);
  closes_ = closes_ || exchange_->head.expects_continue;
  batch_ = std::make_shared<BatchStream>(hub_.service, exchange_, hub_.post, [self = weak_from_this()] {
    if (const auto connection = self.lock()) connection->guard([&] { connection->pump_batch(); });
  });
  Response response;
  response.content_type = "application/x-ndjson";
  hub_.service.decorate(*exchange_, response);
  status_ = response.status;
  std::string head(exchange_->head.expects_continue ? kContinue : "");
  head += to_wire(response, {.closes = closes_, .is_chunked = true});
  if (parser_.stage() == RequestParser::Stage::complete) batch_->end_input();  // an empty body
  write(std::move(head), &Connection::on_batch_written);
}

void Connection::pump_batch() {
  if (state_ != State::batch) return;
  if (hub_.is_draining) batch_->stop(shutting_down());
  count_body(batch_->held_bytes());
  if (!is_writing_) {
    const std::string lines = batch_->take_output();
    if (!lines.empty()) {
      write(to_chunk(lines), &Connection::on_batch_written);
    } else if (batch_->is_over()) {
      closes_ = closes_ || parser_.stage() != RequestParser::Stage::complete;
      enter(State::writing, hub_.options.write_timeout);
      write(std::string(kLastChunk), &Connection::on_batch_end_written);
    }
  }
  // With the body read and lines at work, it is for their own deadlines to end the wait.
  if (state_ == State::batch && !is_writing_ && !batch_->wants_input()) {
    deadline_ = Clock::now() + hub_.service.options().request_timeout + hub_.options.body_timeout;
  }
  wait_readable();
}

void Connection::on_batch_written() {
  if (state_ != State::batch) return;
  deadline_ = Clock::now() + hub_.options.body_timeout;
  take_input();
  pump_batch();
}

void Connection::on_batch_end_written() { on_answer_written(); }

// Writing

void Connection::send(Response response) {
  ticket_ = {};
  early_answer_.reset();
  body_ = {};
  count_body(0);
  hub_.service.decorate(*exchange_, response);
  closes_ = closes_ || response.closes || hub_.is_draining;
  status_ = response.status;
  enter(State::writing, hub_.options.write_timeout);
  const RequestHead& head = exchange_->head;
  write(to_wire(response, {.closes = closes_, .is_http10 = head.version == 10, .without_body = head.method == "HEAD"}),
        &Connection::on_answer_written);
}

void Connection::write(std::string bytes, void (Connection::*then)()) {
  output_ = std::move(bytes);
  is_writing_ = true;
  if (state_ == State::batch) deadline_ = Clock::now() + hub_.options.write_timeout;
  if (exchange_ != nullptr) exchange_->line.bytes_out += output_.size();
  asio::async_write(socket_, asio::buffer(output_), [self = shared_from_this(), then](error_code error, std::size_t) {
    self->is_writing_ = false;
    if (self->state_ == State::closed) return;
    if (error) return self->close();
    self->output_ = {};  // an idle connection keeps no buffer
    self->guard([&] { (self.get()->*then)(); });
  });
}

void Connection::on_answer_written() {
  drop_request(status_);
  if (closes_ || has_input_ended_) return linger();
  next_request();
}

void Connection::next_request() {
  ++serial_;
  parser_ = RequestParser(hub_.options.parser);
  enter(State::idle, hub_.is_draining ? kDrainIdleTimeout : hub_.options.idle_timeout);
  if (input_.empty()) input_ = {};  // an idle connection keeps no buffer
  take_input();
  wait_readable();
}

// Unread bytes at close would make the system reset the connection, and the client lose the answer.
void Connection::linger() {
  if (has_input_ended_) return close();
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return close();
  input_ = {};
  enter(State::lingering, kLingerTimeout);
  wait_readable();
}

}  // namespace clef::server
