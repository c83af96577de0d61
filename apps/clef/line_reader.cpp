#include "clef/line_reader.h"

#include <string_view>

#include "clef/input.h"

namespace clef::cli {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;  // a pipe's capacity on Linux

}  // namespace

LineReader::LineReader(int descriptor, std::size_t max_bytes)
    : descriptor_(descriptor), max_bytes_(max_bytes), buffer_(kBufferBytes) {}

Status LineReader::fill() {
  first_ = last_ = 0;
  last_ = TRY(read_some(descriptor_, buffer_.data(), buffer_.size()));
  at_end_ = last_ == 0;
  return {};
}

Result<LineReader::Kind> LineReader::next(std::string& line) {
  line.clear();
  bool has_line = false;
  bool is_too_long = false;
  while (!at_end_) {
    if (first_ == last_) TRY(fill());
    const std::string_view unread(buffer_.data() + first_, last_ - first_);
    const std::size_t newline = unread.find('\n');
    const std::string_view piece = unread.substr(0, newline);
    // One byte more than allowed is kept, since it may be the CR of the line's end.
    if (line.size() + piece.size() > max_bytes_ + 1) is_too_long = true;
    if (!is_too_long) line += piece;
    has_line = has_line || !unread.empty();
    const bool is_complete = newline != std::string_view::npos;
    first_ += piece.size() + (is_complete ? 1 : 0);
    if (is_complete) break;
  }
  if (!has_line) return Kind::end;
  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (is_too_long || line.size() > max_bytes_) {
    line = {};  // give the memory back
    return Kind::too_long;
  }
  return Kind::line;
}

}  // namespace clef::cli
