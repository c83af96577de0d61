// One JSON line a request: who asked, what came of it, how long it took. Never what was asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace clef::server {

struct AccessLine {
  std::string request_id = {}, remote = {}, method = {}, path = {}, key = {};
  int status = 0;                             // 499: the client went away before the answer
  std::uint64_t bytes_in = 0, bytes_out = 0;  // of bodies in, of everything out
  double seconds = 0, queue_seconds = 0, pass_seconds = 0;
  std::int64_t input_tokens = 0, questions = 0, pass_requests = 0;
  std::int64_t lines = 0;  // of a batch
};

// Without its line end. `now` stands in it in UTC, to the millisecond.
std::string to_line(const AccessLine& line, std::chrono::system_clock::time_point now);

class AccessLog {
 public:
  AccessLog() = default;  // writes nothing
  ~AccessLog();
  AccessLog(const AccessLog&) = delete;
  AccessLog& operator=(const AccessLog&) = delete;

  // "-" is standard output, empty is nowhere. Errc::io.
  Status open(const std::string& path);
  // After another program moved the file away: goes on in a new one.
  Status reopen();
  // False when the line is lost: the log takes no more just now.
  bool write(const AccessLine& line);

 private:
  void close();
  std::string path_;
  int descriptor_ = -1;
};

}  // namespace clef::server
