#include "clef/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "clef/input.h"
#include "clef/terminal.h"

namespace clef::cli {
namespace {

constexpr std::string_view kEscapable = ":=|<()\\";
constexpr std::string_view kSpaces = " \t\r\n";
constexpr int kShownBefore = 60, kShownAfter = 20;  // characters around a caret

// A part of the text as it was typed, and where.
struct Part {
  std::string_view raw;
  std::size_t first = 0;
  std::size_t end() const { return first + raw.size(); }
};

Part trimmed(Part part) {
  const std::size_t first = std::min(part.raw.find_first_not_of(kSpaces), part.raw.size());
  const std::size_t end = part.raw.find_last_not_of(kSpaces) + 1;  // 0 where there is nothing but spaces
  return {part.raw.substr(first, std::max(first, end) - first), part.first + first};
}

// Without the backslashes that make the next character plain.
std::string unescaped(std::string_view raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] == '\\' && i + 1 < raw.size()) ++i;
    text += raw[i];
  }
  return text;
}

// Control characters, which would move the caret or the terminal's cursor, as spaces.
std::string shown(std::string_view text) {
  std::string line(text);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

bool continues_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Two lines: the text around `at`, and a caret under it.
std::string caret_lines(std::string_view text, std::size_t at) {
  std::size_t first = at, end = at;
  for (int i = 0; i < kShownBefore && first > 0; ++i) {
    do --first;
    while (first > 0 && continues_character(text, first));
  }
  for (int i = 0; i < kShownAfter && end < text.size(); ++i) {
    do ++end;
    while (continues_character(text, end));
  }
  const std::string before = (first > 0 ? "..." : "") + shown(text.substr(first, at - first));
  const std::string after = shown(text.substr(at, end - at)) + (end < text.size() ? "..." : "");
  return fmt::format("  {}{}\n  {}^", before, after, std::string(static_cast<std::size_t>(display_width(before)), ' '));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Json::Member> parse() {
    TRY(check_utf8(text_));
    const Part id = TRY(read_id());
    Json::Object question;
    if (separator() == '=') {
      ++at_;
      question = TRY(read_criteria());
    } else {
      question = {{"type", "noul"}};
    }
    if (separator() == ':') {
      ++at_;
      const Part words = trimmed({text_.substr(at_), at_});
      if (words.raw.empty()) return error(text_.size(), "expected the question's text after ':'");
      question.emplace(question.begin() + 1, "instructions", std::string(words.raw));  // after the type
    }
    return Json::Member{unescaped(id.raw), std::move(question)};
  }

 private:
  Error error(std::size_t at, std::string_view what) const {
    return {Errc::bad_request, fmt::format("{}\n{}", what, caret_lines(text_, at))};
  }

  // What stands at at_: a character that ended a part, or 0 at the end.
  char separator() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  // Up to one of `separators` outside parentheses, or the end.
  Result<Part> read_part(std::string_view separators, bool with_parentheses) {
    const std::size_t first = at_;
    std::vector<std::size_t> open;  // places of '(' not closed yet
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\\') {
        if (at_ + 1 == text_.size() || kEscapable.find(text_[at_ + 1]) == std::string_view::npos) {
          return error(at_, "'\\' makes one of : = | < ( ) \\ plain, and none of them follows");
        }
        ++at_;
      } else if (with_parentheses && c == '(') {
        open.push_back(at_);
      } else if (c == ')' && !open.empty()) {
        open.pop_back();
      } else if (open.empty() && separators.find(c) != std::string_view::npos) {
        break;
      }
    }
    if (!open.empty()) return error(open.back(), "'(' is not closed; a plain one is written '\\('");
    return trimmed({text_.substr(first, at_ - first), first});
  }

  Result<Part> read_id() {
    const Part id = TRY(read_part(":=|<", false));
    if (id.raw.empty()) return error(id.first, "expected the question's id");
    if (separator() == '|' || separator() == '<') {
      return error(at_, fmt::format("expected '=' between the id and its options; a plain '{0}' is written '\\{0}'",
                                    separator()));
    }
    return id;
  }

  // The options or levels up to ':' or the end, as the members of a question without its text.
  Result<Json::Object> read_criteria() {
    std::vector<Part> parts;
    char kind = '\0';
    while (true) {
      parts.push_back(TRY(read_part(":|<", true)));
      if (parts.back().raw.empty()) return error(parts.back().first, "expected an option");
      const char next = separator();
      if (next == ':' || next == '\0') break;
      if (kind != '\0' && next != kind) {
        return error(at_, fmt::format("expected '{}' as before: '|' stands between options, '<' between levels", kind));
      }
      kind = next;
      ++at_;
    }
    if (parts.size() < 2) {
      return error(at_, "expected '|' and another option, or '<' and a higher level; a plain ':' is written '\\:'");
    }
    return kind == '|' ? choice(parts) : score(parts);
  }

  Result<Json::Object> choice(const std::vector<Part>& parts) const {
    Json::Object criteria;
    for (const Part& part : parts) {
      auto [name, description] = TRY(read_option(part));
      for (const auto& [other, unused] : criteria) {
        if (other == name) return error(part.first, "this option is there twice");
      }
      criteria.emplace_back(std::move(name), std::move(description));
    }
    return Json::Object{{"type", "choice"}, {"criteria", std::move(criteria)}};
  }

  Result<Json::Object> score(const std::vector<Part>& parts) const {
    Json::Array criteria;
    for (const Part& part : parts) {
      Json level = unescaped(part.raw);
      if (std::find(criteria.begin(), criteria.end(), level) != criteria.end()) {
        return error(part.first, "this level is there twice");
      }
      criteria.push_back(std::move(level));
    }
    return Json::Object{{"type", "score"}, {"criteria", std::move(criteria)}};
  }

  // NAME or NAME (DESCRIPTION)
  Result<Json::Member> read_option(const Part& part) const {
    std::size_t open = 0;
    while (open < part.raw.size() && part.raw[open] != '(') open += part.raw[open] == '\\' ? 2 : 1;
    if (open >= part.raw.size()) return Json::Member{unescaped(part.raw), Json()};
    const Part name = trimmed({part.raw.substr(0, open), part.first});
    if (name.raw.empty()) return error(part.first, "expected an option before its description");

    std::size_t close = open;  // read_part() saw that it is there
    for (int depth = 0;; ++close) {
      const char c = part.raw[close];
      if (c == '\\') ++close;
      if (c == '(') ++depth;
      if (c == ')' && --depth == 0) break;
    }
    if (close + 1 != part.raw.size()) {
      const Part rest = trimmed({part.raw.substr(close + 1), part.first + close + 1});
      return error(rest.first, "expected '|' or ':' after a description; a plain '(' is written '\\('");
    }
    const Part description = trimmed({part.raw.substr(open + 1, close - open - 1), part.first + open + 1});
    if (description.raw.empty()) return error(description.first, "expected a description between '(' and ')'");
    return Json::Member{unescaped(name.raw), unescaped(description.raw)};
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<Json::Member> parse_question(std::string_view text) { return Parser(text).parse(); }

Result<Json> parse_questions(const std::vector<std::string>& texts) {
  Json::Object questions;
  for (const std::string& text : texts) {
    Json::Member question = TRY(parse_question(text));
    for (const auto& [id, unused] : questions) {
      if (id == question.first) {
        return Error{Errc::bad_request, fmt::format("expected another id than before\n{}", caret_lines(text, 0))};
      }
    }
    questions.push_back(std::move(question));
  }
  return Json(std::move(questions));
}

}  // namespace clef::cli
