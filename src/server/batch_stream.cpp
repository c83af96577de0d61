#include "server/batch_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace clef::server {
namespace {

constexpr std::size_t kMaxWaitingOutput = 256 * 1024;  // bytes not taken; more, and no line is started

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::string error_line(std::int64_t index, const Failure& failure, Wire wire) {
  Json body = error_body(failure, wire);
  Json::Object& members = *body.if_object();
  members.insert(members.begin(), {"status", status_of(failure.kind)});
  return to_compact_json(Json::Object{{"index", index}, {"error", std::move(body)}}) + "\n";
}

}  // namespace

BatchStream::BatchStream(Service& service, std::shared_ptr<Exchange> exchange, Post post, std::function<void()> changed)
    : service_(service), exchange_(std::move(exchange)), post_(std::move(post)), changed_(std::move(changed)) {}

void BatchStream::feed(std::string_view bytes) {
  if (has_input_ended_) return;
  input_ += bytes;
  start_lines();
}

void BatchStream::end_input() {
  if (has_input_ended_) return;
  has_input_ended_ = true;
  start_lines();
}

bool BatchStream::wants_input() const {
  return !has_input_ended_ && !is_paused_ && output_.size() < kMaxWaitingOutput &&
         std::ssize(at_work_) < service_.options().max_batch_window;
}

std::string BatchStream::take_output() { return std::exchange(output_, {}); }

bool BatchStream::is_over() const { return has_input_ended_ && input_.empty() && at_work_.empty() && output_.empty(); }

void BatchStream::retry() {
  is_paused_ = false;
  start_lines();
}

void BatchStream::stop(Failure failure) {
  if (has_input_ended_ && input_.empty()) return;
  has_input_ended_ = true;
  is_paused_ = false;
  input_ = {};
  failure.message += "; this line and all after it were not read";
  refuse(failure);
}

void BatchStream::drop_line(const Failure& failure) {
  if (!is_reading_a_line() || input_.find('\n') != std::string::npos) return;
  refuse(failure);
  is_skipping_ = true;
  input_ = {};
  scanned_ = 0;
}

void BatchStream::cancel() {
  for (auto& [index, ticket] : at_work_) ticket.cancel();
  at_work_.clear();
  input_.clear();
  output_.clear();
  has_input_ended_ = true;
}

void BatchStream::start_lines() {
  if (!input_.empty() && !service_.is_still_known(*exchange_)) {
    return stop({.kind = Kind::unauthorized, .message = "this API key is not known any more"});
  }
  const std::size_t most = service_.options().max_body_bytes;
  std::size_t begin = 0;
  while (!is_paused_ && output_.size() < kMaxWaitingOutput &&
         std::ssize(at_work_) < service_.options().max_batch_window) {
    const std::size_t end = input_.find('\n', std::max(begin, scanned_));
    const bool is_last = end == std::string::npos;
    const std::string_view line = std::string_view(input_).substr(begin, is_last ? std::string::npos : end - begin);
    if (is_last) scanned_ = input_.size();
    if (is_last && !has_input_ended_ && !is_skipping_ && line.size() <= most) break;
    if (is_skipping_) {
      // Its refusal is written already.
    } else if (line.size() > most) {
      refuse({.kind = Kind::too_large, .message = fmt::format("the line has more than {} bytes", most)});
    } else if (!is_blank(line) && !start_line(line)) {
      break;
    }
    is_skipping_ = is_last && !has_input_ended_;  // only a line that is too long comes here without its end
    begin = is_last ? input_.size() : end + 1;
    if (is_last) break;
  }
  input_.erase(0, begin);
  scanned_ -= std::min(scanned_, begin);
}

// False when the line has to wait: then it stays where it is.
bool BatchStream::start_line(std::string_view line) {
  if (!service_.has_room(line.size()) || exchange_->key->take(Exchange::Clock::now())) {
    is_paused_ = true;
    return false;
  }
  const std::int64_t index = next_index_;
  auto reply = [self = weak_from_this(), post = post_, index](Answered answered) {
    post([self, index, answered = std::move(answered)]() mutable {
      if (const auto stream = self.lock()) stream->on_answer(index, std::move(answered));
    });
  };
  auto submitted = service_.submit(*exchange_, std::string(line), std::move(reply), index);
  if (const auto* failure = std::get_if<Failure>(&submitted)) {
    if (failure->kind == Kind::queue_full) {  // between the question and the attempt
      exchange_->key->put_back();
      is_paused_ = true;
      return false;
    }
    refuse(*failure);
    return true;
  }
  at_work_.emplace(index, std::get<Scheduler::Ticket>(std::move(submitted)));
  ++next_index_;
  ++exchange_->line.lines;
  return true;
}

void BatchStream::refuse(const Failure& failure) {
  output_ += error_line(next_index_++, failure, exchange_->wire);
  ++exchange_->line.lines;
}

void BatchStream::on_answer(std::int64_t index, Answered answered) {
  if (at_work_.erase(index) == 0) return;  // cancelled meanwhile
  AccessLine& line = exchange_->line;
  line.input_tokens += answered.stats.input_tokens;
  line.questions += answered.stats.questions;
  output_ += answered.failure ? error_line(index, *answered.failure, exchange_->wire) : answered.text + "\n";
  is_paused_ = false;
  start_lines();
  changed_();
}

}  // namespace clef::server
