// HTTP/1.1 requests from bytes as they arrive, without sockets. Strict: what two readers could take for different
// requests is refused, since one of them may stand in front of us.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http_message.h"

namespace clef::server {

struct ParserLimits {
  std::size_t max_head_bytes = 16384;  // request line and fields
  std::size_t max_fields = 100;
};

class RequestParser {
 public:
  explicit RequestParser(ParserLimits limits);
  ~RequestParser();
  RequestParser(RequestParser&&) noexcept;
  RequestParser& operator=(RequestParser&&) noexcept;

  enum class Stage {
    head,      // the head is not complete
    body,      // it is, and the body is not
    complete,  // the next byte belongs to the next request
    failed,    // no request; what follows cannot be read either
  };

  // Takes bytes from the front of `input` and returns how many. The caller keeps the rest and gives it again, with more
  // after it. Returns early when the stage changes.
  std::size_t feed(std::string_view input);

  Stage stage() const;
  bool has_begun() const;  // a byte of the request has arrived

  const RequestHead& head() const;  // from the body stage on

  // What arrived of the body since the last call, without its chunk framing. The caller bounds the sum.
  std::string take_body();

  struct Failure {
    int status = 400;  // 400, 431 or 501
    std::string message;
  };
  const Failure& failure() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace clef::server
