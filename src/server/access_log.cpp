#include "server/access_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "text/json.h"

namespace clef::server {
namespace {

double milliseconds(double seconds) { return round4(seconds * 1000); }

std::string utc_time(std::chrono::system_clock::time_point now) {
  const auto since_epoch = now.time_since_epoch();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const auto rest = std::chrono::floor<std::chrono::milliseconds>(since_epoch - seconds);
  const auto time = static_cast<std::time_t>(seconds.count());
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, rest.count());
}

}  // namespace

std::string to_line(const AccessLine& line, std::chrono::system_clock::time_point now) {
  Json::Object object{{"time", utc_time(now)},
                      {"request_id", line.request_id},
                      {"remote", line.remote},
                      {"method", line.method},
                      {"path", line.path},
                      {"status", line.status},
                      {"bytes_in", static_cast<std::int64_t>(line.bytes_in)},
                      {"bytes_out", static_cast<std::int64_t>(line.bytes_out)},
                      {"ms", milliseconds(line.seconds)}};
  if (!line.key.empty()) object.emplace_back("key", line.key);
  if (line.lines > 0) object.emplace_back("lines", line.lines);
  if (line.input_tokens > 0) {
    object.emplace_back("questions", line.questions);
    object.emplace_back("input_tokens", line.input_tokens);
  }
  if (line.pass_requests > 0) {
    object.emplace_back("queue_ms", milliseconds(line.queue_seconds));
    object.emplace_back("pass_ms", milliseconds(line.pass_seconds));
    object.emplace_back("pass_requests", line.pass_requests);
  }
  return to_compact_json(object);
}

AccessLog::~AccessLog() { close(); }

void AccessLog::close() {
  if (descriptor_ > STDERR_FILENO) ::close(descriptor_);
  descriptor_ = -1;
}

Status AccessLog::open(const std::string& path) {
  int descriptor = -1;
  if (path == "-") {
    descriptor = STDOUT_FILENO;
  } else if (!path.empty()) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (descriptor < 0) return Error{Errc::io, fmt::format("{}: {}", path, std::strerror(errno))};
  }
  close();
  path_ = path;
  descriptor_ = descriptor;
  return {};
}

Status AccessLog::reopen() { return open(path_); }

bool AccessLog::write(const AccessLine& line) {
  if (descriptor_ < 0) return true;
  const std::string text = to_line(line, std::chrono::system_clock::now()) + "\n";
  // A pipe that nobody reads must not stop the answers: one that can be written takes 4,096 bytes (POSIX, PIPE_BUF),
  // which no line has. Files always can. In one piece, so that lines stay whole.
  pollfd log{.fd = descriptor_, .events = POLLOUT, .revents = 0};
  if (::poll(&log, 1, 0) != 1 || (log.revents & POLLOUT) == 0) return false;
  return ::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace clef::server
