// Lines of a file descriptor, one at a time, of bounded length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace clef::cli {

class LineReader {
 public:
  // Borrows the descriptor. A line may have max_bytes without its end.
  LineReader(int descriptor, std::size_t max_bytes);

  enum class Kind : std::uint8_t {
    line,
    too_long,  // the line was skipped to its end without being kept
    end,
  };
  // Fills `line` with the next line, its LF or CR LF cut off; the last line needs none. Errc::io when reading fails;
  // the message is the system's.
  Result<Kind> next(std::string& line);

 private:
  Status fill();

  int descriptor_;
  std::size_t max_bytes_;
  std::vector<char> buffer_;
  std::size_t first_ = 0, last_ = 0;  // unread bytes of the buffer
  bool at_end_ = false;
};

}  // namespace clef::cli
