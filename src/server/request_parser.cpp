#include "server/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/whole_number.h"

namespace clef::server {
namespace {

namespace http = boost::beast::http;
using boost::beast::string_view;
using boost::system::error_code;

constexpr std::size_t kMaxFramingBytes = 8192;                     // of one chunk's size line, or of all trailers
constexpr std::int64_t kMaxContentLength = std::int64_t{1} << 50;  // bytes; longer is a mistake or an attack

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Whether one of the comma-separated elements of the fields `name` is `element` (in lower case).
bool lists(const RequestHead& head, std::string_view name, std::string_view element) {
  for (const auto& [field, value] : head.fields) {
    if (field != name) continue;
    std::string_view rest = value;
    while (!rest.empty()) {
      const std::string_view part = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), part.size() + 1));
      if (lower(trimmed(part)) == element) return true;
    }
  }
  return false;
}

// Beast's grammar, filling our own head and body.
class BeastParser : public http::basic_parser<true> {
 public:
  BeastParser() {
    body_limit(boost::none);                                  // the routes differ in it
    header_limit(std::numeric_limits<std::uint32_t>::max());  // HeadGate has counted
  }
  RequestHead head;
  std::string target;
  std::string body;
  bool has_head = false;

 private:
  void on_request_impl(http::verb, string_view method, string_view target_text, int version, error_code&) override {
    head.method = std::string(method);
    target = std::string(target_text);
    head.version = version;
  }
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_field_impl(http::field, string_view name, string_view value, error_code&) override {
    if (has_head) return;  // a trailer: nothing here reads one, and it must not pass for a field
    head.fields.emplace_back(lower({name.data(), name.size()}), std::string(value));
  }
  void on_header_impl(error_code&) override { has_head = true; }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override {
    body.append(bytes.data(), bytes.size());
    return bytes.size();
  }
  void on_finish_impl(error_code&) override {}
};

using Failure = RequestParser::Failure;

// Finds the head's end, and refuses bytes that no head has: Beast unfolds folded fields, for one.
class HeadGate {
 public:
  // Looks at the bytes of `input` that are new since the last call. True once the head is complete.
  bool scan(std::string_view input, const ParserLimits& limits, std::optional<Failure>& failure) {
    for (; scanned_ < input.size(); ++scanned_) {
      if (scanned_ == limits.max_head_bytes) {
        failure = {431, fmt::format("the request's head is longer than {} bytes", limits.max_head_bytes)};
        return false;
      }
      const char c = input[scanned_];
      const char before = scanned_ > 0 ? input[scanned_ - 1] : '\0';
      if ((c == '\n') != (before == '\r')) {
        failure = {400, "malformed request: a line must end in CR LF"};
        return false;
      }
      if (c == '\n') {
        if (line_bytes_ == 1) {
          ++scanned_;
          return true;
        }
        line_bytes_ = 0;
        ++lines_;
        continue;
      }
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t' && c != '\r') || byte == 0x7f) {
        failure = {400, "malformed request: a control character in the head"};
        return false;
      }
      if (line_bytes_ == 0 && lines_ > 0 && (c == ' ' || c == '\t')) {
        failure = {400, "malformed request: a folded field"};
        return false;
      }
      ++line_bytes_;
    }
    return false;
  }
  std::size_t head_bytes() const { return scanned_; }

 private:
  std::size_t scanned_ = 0;
  std::size_t line_bytes_ = 0;  // of the line being scanned, its CR counted
  std::size_t lines_ = 0;
};

std::optional<Failure> read_length(RequestHead& head) {
  const std::size_t lengths = head.count("content-length"), codings = head.count("transfer-encoding");
  if (lengths > 1) return Failure{400, "malformed request: several Content-Length fields"};
  if (lengths + codings > 1 && codings > 0) {
    return Failure{400, "malformed request: Transfer-Encoding beside another length"};
  }
  if (lengths == 1) {
    const auto length = whole_number(*head.field("content-length"), 0, kMaxContentLength);
    if (!length) return Failure{400, "malformed request: Content-Length is no number"};
    head.content_length = static_cast<std::uint64_t>(*length);
  }
  if (codings == 1) {
    if (head.version == 10) return Failure{400, "malformed request: Transfer-Encoding in HTTP/1.0"};
    if (lower(*head.field("transfer-encoding")) != "chunked") {
      return Failure{501, "the only transfer coding known here is chunked"};
    }
    head.is_chunked = true;
  }
  return std::nullopt;
}

// Splits a target in origin form ("/a?b"), absolute form ("http://host/a?b", which proxies send), or "*".
std::optional<Failure> read_target(RequestHead& head, std::string_view target) {
  if (target.substr(0, 7) == "http://" || target.substr(0, 8) == "https://") {
    const std::size_t path = target.find('/', 8);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  const bool is_asterisk = target == "*" && head.method == "OPTIONS";
  if (!is_asterisk && (target.empty() || target.front() != '/')) {
    return Failure{400, "malformed request: the target must be a path"};
  }
  if (target.find('#') != std::string_view::npos) return Failure{400, "malformed request: a fragment in the target"};
  const std::size_t question = std::min(target.find('?'), target.size());
  head.path = std::string(target.substr(0, question));
  head.query = std::string(target.substr(std::min(target.size(), question + 1)));
  return std::nullopt;
}

std::optional<Failure> read_head(RequestHead& head, std::string_view target, const ParserLimits& limits) {
  CHECK(head.version == 10 || head.version == 11, "Beast knows no other, got {}", head.version);
  if (head.fields.size() > limits.max_fields) {
    return Failure{
        431, fmt::format("the request has {} fields; at most {} are read", head.fields.size(), limits.max_fields)};
  }
  const std::size_t hosts = head.count("host");
  if (hosts > 1 || (hosts == 0 && head.version == 11)) {
    return Failure{400, "malformed request: exactly one Host field is needed"};
  }
  if (auto failure = read_length(head)) return failure;
  if (auto failure = read_target(head, target)) return failure;
  const bool closes = lists(head, "connection", "close");
  head.keeps_alive = head.version == 11 ? !closes : !closes && lists(head, "connection", "keep-alive");
  head.expects_continue =
      head.version == 11 && head.field("expect") != nullptr && lower(*head.field("expect")) == "100-continue";
  return std::nullopt;
}

}  // namespace

struct RequestParser::State {
  explicit State(ParserLimits limits_) : limits(limits_) {}
  ParserLimits limits;
  Stage stage = Stage::head;
  HeadGate gate;
  BeastParser beast;
  std::size_t skipped = 0;
  bool has_begun = false;
  Failure failure;

  std::size_t fail(Failure reason) {
    failure = std::move(reason);
    stage = Stage::failed;
    return 0;
  }

  // Beast may take a part of what it is given; goes on as long as it takes some and the stage stays.
  std::size_t put(std::string_view input) {
    std::size_t taken = 0;
    const bool had_head = beast.has_head;
    while (taken < input.size() && !beast.is_done() && beast.has_head == had_head) {
      error_code error;
      const std::size_t count = beast.put(boost::asio::buffer(input.data() + taken, input.size() - taken), error);
      taken += count;
      if (error == http::error::need_more) break;
      if (error) {
        fail({400, "malformed request: " + error.message()});
        break;
      }
      if (count == 0) break;
    }
    return taken;
  }

  std::size_t feed_head(std::string_view input) {
    // Some old clients end a body with a line end that is not counted: RFC 9112, 2.2.
    if (!has_begun && skipped < 4 && input.substr(0, 2) == "\r\n") {
      skipped += 2;
      return 2;
    }
    if (!has_begun && skipped < 4 && input == "\r") return 0;
    has_begun = has_begun || !input.empty();
    std::optional<Failure> refusal;
    const bool is_complete = gate.scan(input, limits, refusal);
    if (refusal) return fail(*std::move(refusal));
    if (!is_complete) return 0;
    const std::size_t taken = put(input.substr(0, gate.head_bytes()));
    if (stage == Stage::failed) return 0;
    if (!beast.has_head || taken != gate.head_bytes()) return fail({400, "malformed request"});
    if (auto failed = read_head(beast.head, beast.target, limits)) return fail(*std::move(failed));
    stage = beast.is_done() || !beast.head.has_body() ? Stage::complete : Stage::body;
    return taken;
  }

  std::size_t feed_body(std::string_view input) {
    const std::size_t taken = put(input);
    if (stage == Stage::failed) return 0;
    if (beast.is_done()) {
      stage = Stage::complete;
    } else if (input.size() - taken > kMaxFramingBytes) {
      return fail({400, "malformed request: a chunk's size line or the trailers are too long"});
    }
    return taken;
  }
};

RequestParser::RequestParser(ParserLimits limits) : state_(std::make_unique<State>(limits)) {}
RequestParser::~RequestParser() = default;
RequestParser::RequestParser(RequestParser&&) noexcept = default;
RequestParser& RequestParser::operator=(RequestParser&&) noexcept = default;

std::size_t RequestParser::feed(std::string_view input) {
  switch (state_->stage) {
    case Stage::head:
      return state_->feed_head(input);
    case Stage::body:
      return state_->feed_body(input);
    case Stage::complete:
    case Stage::failed:
      break;
  }
  return 0;
}

RequestParser::Stage RequestParser::stage() const { return state_->stage; }
bool RequestParser::has_begun() const { return state_->has_begun; }

const RequestHead& RequestParser::head() const {
  CHECK(state_->beast.has_head);
  return state_->beast.head;
}

std::string RequestParser::take_body() { return std::exchange(state_->beast.body, {}); }

const RequestParser::Failure& RequestParser::failure() const {
  CHECK(state_->stage == Stage::failed);
  return state_->failure;
}

}  // namespace clef::server
