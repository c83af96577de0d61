// HTTP/1.1 messages as the routes see them: no sockets, no parsing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clef::server {

using Field = std::pair<std::string, std::string>;

// A request's first line and fields, checked by RequestParser.
struct RequestHead {
  std::string method;         // as sent: methods are case-sensitive
  std::string path;           // "/v1/systemone"; percent escapes stay
  std::string query;          // after the '?', which may be missing
  int version = 11;           // 10 or 11
  std::vector<Field> fields;  // names in lower case, in order
  std::optional<std::uint64_t> content_length;
  bool is_chunked = false;
  bool keeps_alive = true;  // what the client asks for
  bool expects_continue = false;

  // The first field of that name (in lower case); null pointer when there is none.
  const std::string* field(std::string_view name) const;
  std::size_t count(std::string_view name) const;
  bool has_body() const { return is_chunked || content_length.value_or(0) > 0; }
};

// The value of `name` in a query string, percent escapes decoded; none when it is missing. The first of several counts.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<Field> fields;  // beside Content-Type, Content-Length, Connection and Date
  std::string body;
  bool closes = false;  // the connection, whatever the client asks for
};

std::string_view reason_phrase(int status);

struct WireOptions {
  bool closes = false;        // say "Connection: close"
  bool is_http10 = false;     // the client's version: keeping alive has to be said
  bool without_body = false;  // the answer to HEAD
  bool is_chunked = false;    // the body follows in chunks; `body` is not sent
};

// The bytes of the status line, all fields, and the body.
std::string to_wire(const Response& response, const WireOptions& options);

// One chunk of a chunked body. `bytes` must not be empty: an empty chunk is the last.
std::string to_chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

bool is_token(std::string_view text);  // RFC 9110, 5.6.2

}  // namespace clef::server
