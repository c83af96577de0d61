// A blocking HTTP client for tests: it sends exactly the bytes it is given.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clef::test {

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;                                         // without chunk framing
  bool is_complete = false;                                 // to the last byte that the head promised

  std::string field(std::string_view name) const;  // "" when it is missing
};

// The bytes of a request with a Host field and, when `body` is not empty or the method is POST, its length.
std::string http_request(std::string_view method, std::string_view target, std::string_view body = {},
                         const std::vector<std::string>& fields = {});

class HttpClient {
 public:
  explicit HttpClient(std::uint16_t port, const char* from = nullptr);  // `from`: an address to connect from
  explicit HttpClient(const std::string& unix_path);
  ~HttpClient();
  HttpClient(HttpClient&& other) noexcept;
  HttpClient& operator=(HttpClient&&) = delete;

  // False once the server has closed.
  bool send(std::string_view bytes);
  // The next answer; none when the connection ends before one begins. 1xx answers are skipped and counted.
  std::optional<HttpAnswer> read();
  std::optional<HttpAnswer> read_head_only();  // the answer to HEAD
  // Whatever still comes, until the server closes.
  std::string read_all();
  // Blocks until the server closes; true when it did, in order or with a reset.
  bool is_closed_by_server();
  HttpAnswer ask(std::string_view request);  // send and read; throws when there is no answer
  void end_sending();                        // half a close: no more will come, answers are still read
  void close();                              // in order
  void reset();                              // as when the process dies with unread data
  int num_continues() const { return num_continues_; }

 private:
  bool fill();
  std::optional<HttpAnswer> read(bool has_body);
  int socket_ = -1;
  std::string input_;
  int num_continues_ = 0;
};

}  // namespace clef::test
