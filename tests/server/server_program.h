// The program clef-server, for as long as a test needs it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/http_client.h"

namespace clef::server {

class ServerProgram {
 public:
  // Returns when the server listens; `until` is a later line of its messages to wait for.
  explicit ServerProgram(std::vector<std::string> arguments, const std::string& until = ": ready: ") {
    arguments.insert(arguments.begin(), CLEF_SERVER_PROGRAM);
    arguments.insert(arguments.end(), {"--port", "0", "--access-log", "off", "--drain-delay", "0"});
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      ::execv(raw[0], raw.data());
      std::_Exit(127);
    }
    ::close(ends[1]);
    messages_ = ::fdopen(ends[0], "r");
    char line[1024];
    while (std::fgets(line, sizeof line, messages_) != nullptr) {
      log_ += line;
      const std::size_t colon = log_.find("listening on http://127.0.0.1:");
      if (colon != std::string::npos) port_ = static_cast<std::uint16_t>(std::atoi(log_.c_str() + colon + 30));
      if (port_ != 0 && log_.find(until) != std::string::npos) return;
    }
    ADD_FAILURE() << "clef-server ended early: " << log_;
  }
  ~ServerProgram() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
    std::fclose(messages_);
  }
  ServerProgram(const ServerProgram&) = delete;
  ServerProgram& operator=(const ServerProgram&) = delete;

  test::HttpClient connect() const { return test::HttpClient(port_); }
  void signal(int number) const { ::kill(process_, number); }
  // Waits for the end; the exit code, or the number of the signal that ended it, negative.
  int wait() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    char rest[1024];
    while (std::fgets(rest, sizeof rest, messages_) != nullptr) log_ += rest;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& log() const { return log_; }

 private:
  pid_t process_ = -1;
  std::FILE* messages_ = nullptr;
  std::string log_;
  std::uint16_t port_ = 0;
};

}  // namespace clef::server
