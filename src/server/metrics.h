// What operators watch, in Prometheus' text format. Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/scheduler.h"

namespace clef::server {

struct RequestCount {
  std::string route;  // its name, not its path: the number of labels must stay small
  int status = 200;   // 499: the client went away first
  std::string key;    // the key's id
  double seconds = 0;
  std::int64_t input_tokens = 0;
};

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  void count_request(const RequestCount& request);
  void count_pass(const PassReport& pass);
  void count_connection();          // accepted
  void count_refused_connection();  // for want of room
  void set_open_connections(std::int64_t count);
  void count_client_gone();    // work dropped because its client went away
  void count_lost_log_line();  // the access log took no more

  // The text, with the gauges of this moment.
  std::string text(const Scheduler::Load& load, bool is_ready);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clef::server
