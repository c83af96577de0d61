// What the terminal can show, and text made safe for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace clef::cli {

struct Terminal {
  bool is_terminal = false;
  bool is_utf8 = false;  // else tables are drawn in ASCII
  bool has_color = false;
  std::int64_t columns = 80;
};

// Of standard output. Reads the locale, the window's size, NO_COLOR and TERM.
Terminal standard_output_terminal();

// Columns that `text` takes: 0 for marks, 2 for wide characters.
std::int64_t display_width(std::string_view text);

// One line of at most `columns` columns: runs of white space become one space, control and direction characters (which
// could steer the terminal or reorder the line) become '?', and what does not fit ends in an ellipsis. Without is_utf8
// every other non-ASCII character becomes '?', too.
std::string fitted(std::string_view text, std::int64_t columns, bool is_utf8);

// `text` with spaces up to `columns` columns.
std::string padded(std::string text, std::int64_t columns);

}  // namespace clef::cli
