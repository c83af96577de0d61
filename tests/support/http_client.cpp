#include "support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace clef::test {
namespace {

constexpr timeval kPatience = {120, 0};  // a test that waits longer hangs

void limit_waiting(int socket) {
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
}

[[noreturn]] void fail(const char* what) { throw std::runtime_error(std::string(what) + ": " + std::strerror(errno)); }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

}  // namespace

std::string HttpAnswer::field(std::string_view name) const {
  for (const auto& [known, value] : fields) {
    if (known == name) return value;
  }
  return "";
}

std::string http_request(std::string_view method, std::string_view target, std::string_view body,
                         const std::vector<std::string>& fields) {
  std::string request = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: test\r\n";
  for (const std::string& field : fields) request += field + "\r\n";
  if (!body.empty() || method == "POST") request += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return request + "\r\n" + std::string(body);
}

HttpClient::HttpClient(std::uint16_t port, const char* from) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  if (socket_ < 0) fail("socket");
  limit_waiting(socket_);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (from != nullptr) {
    ::inet_pton(AF_INET, from, &address.sin_addr);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  }
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
}

HttpClient::HttpClient(const std::string& unix_path) : socket_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
  if (socket_ < 0) fail("socket");
  limit_waiting(socket_);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
  if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
}

HttpClient::HttpClient(HttpClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      input_(std::move(other.input_)),
      num_continues_(other.num_continues_) {}

HttpClient::~HttpClient() { close(); }

void HttpClient::end_sending() { ::shutdown(socket_, SHUT_WR); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::reset() {
  const linger now = {1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

bool HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

bool HttpClient::fill() {
  char buffer[65536];
  const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
  if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("no answer in time");
  if (count <= 0) return false;
  input_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

std::optional<HttpAnswer> HttpClient::read() { return read(true); }
std::optional<HttpAnswer> HttpClient::read_head_only() { return read(false); }

std::optional<HttpAnswer> HttpClient::read(bool has_body) {
  std::size_t end = 0;
  while ((end = input_.find("\r\n\r\n")) == std::string::npos) {
    if (!fill()) return std::nullopt;
  }
  HttpAnswer answer;
  std::string head = input_.substr(0, end + 2);
  input_.erase(0, end + 4);
  answer.status = std::atoi(head.substr(head.find(' ') + 1).c_str());
  head.erase(0, head.find("\r\n") + 2);
  while (!head.empty()) {
    const std::string line = head.substr(0, head.find("\r\n"));
    head.erase(0, line.size() + 2);
    const std::size_t colon = line.find(": ");
    answer.fields.emplace_back(lower(line.substr(0, colon)), line.substr(colon + 2));
  }
  if (answer.status / 100 == 1) {
    ++num_continues_;
    return read(has_body);
  }
  answer.is_complete = true;
  if (!has_body || answer.status == 204) return answer;
  if (answer.field("transfer-encoding") != "chunked") {
    const std::size_t length = std::strtoul(answer.field("content-length").c_str(), nullptr, 10);
    while (input_.size() < length && fill()) {
    }
    answer.is_complete = input_.size() >= length;
    answer.body = input_.substr(0, length);
    input_.erase(0, length);
    return answer;
  }
  while (true) {
    std::size_t line = 0;
    while ((line = input_.find("\r\n")) == std::string::npos && fill()) {
    }
    if (line == std::string::npos) break;
    const std::size_t length = std::strtoul(input_.c_str(), nullptr, 16);
    while (input_.size() < line + 2 + length + 2 && fill()) {
    }
    if (input_.size() < line + 2 + length + 2) break;
    answer.body += input_.substr(line + 2, length);
    input_.erase(0, line + 2 + length + 2);
    if (length == 0) return answer;
  }
  answer.is_complete = false;
  return answer;
}

std::string HttpClient::read_all() {
  while (fill()) {
  }
  return std::exchange(input_, {});
}

bool HttpClient::is_closed_by_server() {
  while (fill()) {
  }
  return true;
}

HttpAnswer HttpClient::ask(std::string_view request) {
  send(request);
  auto answer = read();
  if (!answer) throw std::runtime_error("the server closed without an answer");
  return *std::move(answer);
}

}  // namespace clef::test
