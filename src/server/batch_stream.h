// POST /v1/systemone/batch: a request a line in, an answer a line out, as they finish, each with its line's index.
// Without sockets. What it holds is bounded: the lines at work, one line being read, and answers not taken yet.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "server/service.h"

namespace clef::server {

// Runs its argument on the I/O thread.
using Post = std::function<void(std::function<void()>)>;

class BatchStream : public std::enable_shared_from_this<BatchStream> {
 public:
  // `changed` is called on the I/O thread when there is output or room for input, never from inside a member.
  BatchStream(Service& service, std::shared_ptr<Exchange> exchange, Post post, std::function<void()> changed);

  // More of the body. Only when wants_input(): what it cannot start yet waits here.
  void feed(std::string_view bytes);
  void end_input();
  bool wants_input() const;

  // Lines, each with its end; empty when none are ready.
  std::string take_output();
  bool is_over() const;  // every line is answered, and no more come
  bool is_waiting_for_room() const { return is_paused_; }
  bool is_reading_a_line() const { return !has_input_ended_ && !is_skipping_ && !input_.empty(); }
  std::size_t held_bytes() const { return input_.size(); }
  std::int64_t num_lines() const { return next_index_; }  // begun or refused

  // Tries again what found no room before.
  void retry();
  // Takes no more lines. Those at work are answered, and a last line says where the batch ended.
  void stop(Failure failure);
  // Refuses the line that is being read, and skips the rest of it.
  void drop_line(const Failure& failure);
  // Drops the lines at work; nothing is answered any more.
  void cancel();

 private:
  void start_lines();
  bool start_line(std::string_view line);
  void refuse(const Failure& failure);
  void on_answer(std::int64_t index, Answered answered);

  Service& service_;
  std::shared_ptr<Exchange> exchange_;
  Post post_;
  std::function<void()> changed_;
  std::string input_;         // lines not started
  std::size_t scanned_ = 0;   // of input_, up to where no line ends
  bool is_skipping_ = false;  // the rest of a line that was too long
  bool has_input_ended_ = false;
  bool is_paused_ = false;  // the next line found no room
  std::int64_t next_index_ = 0;
  std::map<std::int64_t, Scheduler::Ticket> at_work_;
  std::string output_;
};

}  // namespace clef::server
