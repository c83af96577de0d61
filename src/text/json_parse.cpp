// Recursive descent over the bytes, one look at each. Elements gather on two stacks shared by all nesting levels, so
// that each list and object is allocated once, at its size.
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>

#include "text/json.h"
#include "text/json_keys.h"
#include "text/json_scan.h"
#include "text/utf8.h"

namespace clef {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The value of four hexadecimal digits at `at`, -1 when they are not.
int hex4(const char* at) {
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at[i];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void append_utf8(std::string& out, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6), add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12), add(0x80 | (point >> 6 & 0x3F)), add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18), add(0x80 | (point >> 12 & 0x3F)), add(0x80 | (point >> 6 & 0x3F)),
        add(0x80 | (point & 0x3F));
  }
}

// What a valid literal that no double holds stands for: zero or infinity, by the decimal exponent of its first digit.
double out_of_range_double(std::string_view literal) {
  const bool negative = literal.front() == '-';
  const std::size_t e = std::min(literal.find_first_of("eE"), literal.size());
  const std::string_view mantissa = literal.substr(negative, e - negative);
  const auto point = static_cast<std::int64_t>(std::min(mantissa.find('.'), mantissa.size()));
  const auto first = static_cast<std::int64_t>(std::min(mantissa.find_first_of("123456789"), mantissa.size()));
  bool large = point > first;
  if (e < literal.size()) {
    std::int64_t exponent = 0;
    const bool negative_exponent = literal[e + 1] == '-';
    const char* digits = literal.data() + e + (negative_exponent || literal[e + 1] == '+' ? 2 : 1);
    if (std::from_chars(digits, literal.data() + literal.size(), exponent).ec != std::errc()) {
      exponent = std::numeric_limits<std::int64_t>::max() / 2;
    }
    large = point - first + (negative_exponent ? -exponent : exponent) > 0;
  }
  const double magnitude = large ? std::numeric_limits<double>::infinity() : 0.0;
  return negative ? -magnitude : magnitude;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : begin_(text.data()), end_(begin_ + text.size()), at_(begin_) {}

  Result<Json> document() {
    Json value = parse_value(0);
    skip_space();
    if (failure_ == nullptr && at_ != end_) fail("trailing data", at_);
    if (failure_ != nullptr) {
      return Error{Errc::bad_request, fmt::format("json: {} at byte {}", failure_, failure_at_ - begin_)};
    }
    return value;
  }

 private:
  // Keeps the first failure. Whoever calls a parse function looks at failed() before going on.
  Json fail(const char* message, const char* at) {
    if (failure_ == nullptr) failure_ = message, failure_at_ = at;
    return {};
  }
  Json fail_here(const char* message) { return fail(at_ == end_ ? "unexpected end of input" : message, at_); }
  bool failed() const { return failure_ != nullptr; }

  void skip_space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  Json parse_value(int depth) {
    skip_space();
    if (at_ == end_) return fail_here("");
    switch (*at_) {
      case '{':
        return parse_object(depth + 1);
      case '[':
        return parse_array(depth + 1);
      case '"':
        return Json(parse_string());
      case 't':
        return parse_word("true", true);
      case 'f':
        return parse_word("false", false);
      case 'n':
        return parse_word("null", nullptr);
      case 'N':
        return parse_word("NaN", std::numeric_limits<double>::quiet_NaN());
      case 'I':
        return parse_word("Infinity", std::numeric_limits<double>::infinity());
      case '-':
        if (end_ - at_ >= 2 && at_[1] == 'I') return parse_word("-Infinity", -std::numeric_limits<double>::infinity());
        return parse_number();
      default:
        return is_digit(*at_) ? parse_number() : fail_here("unexpected character");
    }
  }

  Json parse_word(std::string_view word, Json value) {
    for (const char c : word) {
      if (!take(c)) return fail_here("unexpected character");
    }
    return value;
  }

  Json parse_array(int depth) {
    if (depth > kMaxJsonDepth) return fail("nesting too deep", at_);
    ++at_;
    const std::size_t base = elements_.size();
    skip_space();
    if (take(']')) return Json::Array();
    while (true) {
      Json element = parse_value(depth);
      if (failed()) return {};
      elements_.push_back(std::move(element));
      skip_space();
      if (take(',')) continue;
      if (take(']')) break;
      return fail_here("expected ',' or ']'");
    }
    return pop_from(elements_, base);
  }

  Json parse_object(int depth) {
    if (depth > kMaxJsonDepth) return fail("nesting too deep", at_);
    ++at_;
    const std::size_t base = members_.size();
    skip_space();
    if (take('}')) return Json::Object();
    while (true) {
      skip_space();
      if (at_ == end_ || *at_ != '"') return fail_here("expected object key");
      std::string key = parse_string();
      if (failed()) return {};
      skip_space();
      if (!take(':')) return fail_here("expected ':'");
      Json value = parse_value(depth);
      if (failed()) return {};
      members_.emplace_back(std::move(key), std::move(value));
      skip_space();
      if (take(',')) continue;
      if (take('}')) break;
      return fail_here("expected ',' or '}'");
    }
    Json::Object object = pop_from(members_, base);
    resolve_repeated_keys(object);
    return object;
  }

  template <typename T>
  static std::vector<T> pop_from(std::vector<T>& stack, std::size_t base) {
    const auto first = stack.begin() + static_cast<std::ptrdiff_t>(base);
    std::vector<T> top(std::make_move_iterator(first), std::make_move_iterator(stack.end()));
    stack.erase(first, stack.end());
    return top;
  }

  // Moves over valid UTF-8 up to the quote, backslash or control character that ends it. False at invalid UTF-8.
  bool skip_text() {
    while (true) {
      at_ = skip_plain<HighBytes::special>(at_, end_);
      if (at_ == end_ || static_cast<unsigned char>(*at_) < 0x80) return true;
      do {
        const std::size_t length = utf8_sequence_length({at_, static_cast<std::size_t>(end_ - at_)}, 0);
        if (length == 0) return false;
        at_ += length;
      } while (at_ != end_ && static_cast<unsigned char>(*at_) >= 0x80);
    }
  }

  std::string parse_string() {
    const char* const open = at_++;
    std::string out;
    while (true) {
      const char* const start = at_;
      if (!skip_text()) {
        fail("invalid UTF-8", at_);
        return {};
      }
      out.append(start, at_);
      if (at_ == end_) {
        fail("unterminated string", open);
        return {};
      }
      if (take('"')) return out;
      if (*at_ != '\\') {
        fail("control character in string", at_);
        return {};
      }
      parse_escape(out, open);
      if (failed()) return {};
    }
  }

  void parse_escape(std::string& out, const char* open) {
    const char* const backslash = at_++;
    if (at_ == end_) {
      fail("unterminated string", open);
      return;
    }
    switch (*at_++) {
      case '"':
        out += '"';
        return;
      case '\\':
        out += '\\';
        return;
      case '/':
        out += '/';
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u':
        break;
      default:
        fail("bad escape", backslash);
        return;
    }
    const int unit = end_ - at_ >= 4 ? hex4(at_) : -1;
    if (unit < 0) {
      fail("bad \\u escape", backslash);
      return;
    }
    at_ += 4;
    if (unit < 0xD800 || unit > 0xDFFF) return append_utf8(out, static_cast<std::uint32_t>(unit));
    const bool paired = unit < 0xDC00 && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u';
    const int low = paired ? hex4(at_ + 2) : -1;
    if (low < 0xDC00 || low > 0xDFFF) {
      fail("lone surrogate in string", backslash);
      return;
    }
    at_ += 6;
    append_utf8(out, 0x10000U + ((static_cast<std::uint32_t>(unit) - 0xD800U) << 10) +
                         (static_cast<std::uint32_t>(low) - 0xDC00U));
  }

  // -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
  Json parse_number() {
    const char* const start = at_;
    const auto skip_digits = [&] {
      const char* const first = at_;
      while (at_ != end_ && is_digit(*at_)) ++at_;
      return at_ - first;
    };
    take('-');
    const char* const digits = at_;
    const auto num_digits = skip_digits();
    if (num_digits == 0 || (*digits == '0' && num_digits > 1)) return fail("bad number", start);
    bool integral = true;
    if (take('.')) {
      integral = false;
      if (skip_digits() == 0) return fail("bad number", start);
    }
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      integral = false;
      ++at_;
      if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
      if (skip_digits() == 0) return fail("bad number", start);
    }
    if (integral) {
      if (num_digits > static_cast<std::ptrdiff_t>(kMaxJsonDigits)) {
        return fail("integer exceeds Python's 4300-digit limit", start);
      }
      return Json::Integer{*digits == '0' ? std::string(1, '0') : std::string(start, at_)};
    }
    double value = 0;
    if (std::from_chars(start, at_, value).ec == std::errc::result_out_of_range) {
      value = out_of_range_double({start, static_cast<std::size_t>(at_ - start)});
    }
    return value;
  }

  const char* const begin_;
  const char* const end_;
  const char* at_;
  const char* failure_ = nullptr;
  const char* failure_at_ = nullptr;
  std::vector<Json> elements_;         // of the lists that are open, outermost first
  std::vector<Json::Member> members_;  // of the objects that are open, outermost first
};

}  // namespace

Result<Json> parse_json(std::string_view text) { return Parser(text).document(); }

}  // namespace clef
