#include "clef/terminal.h"

#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace clef::cli {
namespace {

constexpr std::int64_t kMinColumns = 40, kMaxColumns = 160;  // narrower cannot hold a bar, wider is hard to read

struct Character {
  std::string_view bytes;
  std::optional<utf8proc_int32_t> code_point;  // none: not valid UTF-8
};

Character next_character(std::string_view text) {
  utf8proc_int32_t code_point = 0;
  const auto count = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                      static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (count <= 0) return {text.substr(0, 1), std::nullopt};
  return {text.substr(0, static_cast<std::size_t>(count)), code_point};
}

bool is_space(utf8proc_int32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_shown(const Character& character, bool is_utf8) {
  if (!character.code_point) return false;
  const auto c = *character.code_point;
  if (c < 0x80) return c >= 0x20 && c != 0x7f;
  if (!is_utf8) return false;
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_CC:  // controls
    case UTF8PROC_CATEGORY_CF:  // direction marks, invisible joiners
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CO:
      return false;
    default:
      return true;
  }
}

}  // namespace

Terminal standard_output_terminal() {
  Terminal terminal;
  std::setlocale(LC_CTYPE, "");
  terminal.is_utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  terminal.is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  terminal.has_color = terminal.is_terminal && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
                       std::strcmp(term, "dumb") != 0;
  winsize size{};
  if (terminal.is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = std::clamp<std::int64_t>(size.ws_col, kMinColumns, kMaxColumns);
  }
  return terminal;
}

std::int64_t display_width(std::string_view text) {
  std::int64_t width = 0;
  while (!text.empty()) {
    const Character character = next_character(text);
    width += character.code_point ? utf8proc_charwidth(*character.code_point) : 1;
    text.remove_prefix(character.bytes.size());
  }
  return width;
}

std::string fitted(std::string_view text, std::int64_t columns, bool is_utf8) {
  const std::string_view ellipsis = is_utf8 ? "…" : "...";
  const std::int64_t room = columns - display_width(ellipsis);  // for text that will be cut
  std::string line;
  std::int64_t width = 0;
  std::size_t cut = 0;  // bytes of `line` that leave room for the ellipsis
  bool after_space = true;
  while (!text.empty()) {
    const Character character = next_character(text);
    text.remove_prefix(character.bytes.size());
    std::string_view shown = character.bytes;
    std::int64_t shown_width = 1;
    if (character.code_point && is_space(*character.code_point)) {
      if (after_space) continue;
      after_space = true;
      shown = " ";
    } else {
      after_space = false;
      if (is_shown(character, is_utf8)) {
        shown_width = utf8proc_charwidth(*character.code_point);
      } else {
        shown = "?";
      }
    }
    if (width + shown_width > columns && !(shown == " " && text.empty())) {
      line.resize(cut);
      if (room >= 0) line += ellipsis;
      return line;
    }
    line += shown;
    width += shown_width;
    if (width <= room) cut = line.size();
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::string padded(std::string text, std::int64_t columns) {
  const std::int64_t missing = columns - display_width(text);
  if (missing > 0) text.append(static_cast<std::size_t>(missing), ' ');
  return text;
}

}  // namespace clef::cli
