#include "clef/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>

namespace clef::cli {
namespace {

// The reading end of a pipe that a thread fills, `piece` bytes at a time, and closes.
class Pipe {
 public:
  Pipe(std::string text, std::size_t piece) {
    if (::pipe(ends_.data()) != 0) throw std::runtime_error("no pipe");
    writer_ = std::thread([this, text = std::move(text), piece] {
      for (std::size_t at = 0; at < text.size();) {
        const ssize_t count = ::write(ends_[1], text.data() + at, std::min(piece, text.size() - at));
        if (count <= 0) break;
        at += static_cast<std::size_t>(count);
      }
      ::close(ends_[1]);
    });
  }
  ~Pipe() {
    writer_.join();
    ::close(ends_[0]);
  }
  int descriptor() const { return ends_[0]; }

 private:
  std::array<int, 2> ends_{};
  std::thread writer_;
};

constexpr std::string_view kTooLong = "<too long>";

std::vector<std::string> lines_of(const std::string& text, std::size_t max_bytes = 1000, std::size_t piece = 4096) {
  Pipe pipe(text, piece);
  LineReader reader(pipe.descriptor(), max_bytes);
  std::vector<std::string> lines;
  std::string line;
  while (true) {
    const auto kind = reader.next(line);
    if (!kind) {
      lines.push_back("<error> " + kind.error().message);
      return lines;
    }
    if (*kind == LineReader::Kind::end) return lines;
    lines.push_back(*kind == LineReader::Kind::too_long ? std::string(kTooLong) : line);
  }
}

using Lines = std::vector<std::string>;

TEST(LineReader, CutsLineFeedAndCarriageReturn) {
  EXPECT_EQ(lines_of("one\ntwo\r\n\nthree\r\n"), (Lines{"one", "two", "", "three"}));
}

TEST(LineReader, TakesALastLineWithoutItsEnd) {
  EXPECT_EQ(lines_of("one\ntwo"), (Lines{"one", "two"}));
  EXPECT_EQ(lines_of("one\r"), (Lines{"one"}));
}

TEST(LineReader, FindsNothingInNothing) { EXPECT_EQ(lines_of(""), Lines{}); }

TEST(LineReader, KeepsZeroBytesAndInnerCarriageReturns) {
  EXPECT_EQ(lines_of(std::string("a\0b\rc\n", 6)), (Lines{std::string("a\0b\rc", 5)}));
}

TEST(LineReader, GivesTheSameLinesHoweverTheBytesArrive) {
  const std::string text = "one\r\ntwo\n\nlonger line here\r\nlast";
  for (const std::size_t piece : {1U, 2U, 3U, 7U}) EXPECT_EQ(lines_of(text, 1000, piece), lines_of(text));
}

TEST(LineReader, SkipsALineOverTheLimitAndGoesOn) {
  EXPECT_EQ(lines_of("12345\n123456\n12345\r\n123456\r\nok\n", 5),
            (Lines{"12345", std::string(kTooLong), "12345", std::string(kTooLong), "ok"}));
}

TEST(LineReader, SkipsALongLineWithoutItsEnd) {
  EXPECT_EQ(lines_of("ok\n" + std::string(300'000, 'x'), 100), (Lines{"ok", std::string(kTooLong)}));
}

TEST(LineReader, KeepsALineLongerThanItsBuffer) {
  const std::string line(200'000, 'y');
  EXPECT_EQ(lines_of(line + "\nz\n", 200'000), (Lines{line, "z"}));
}

TEST(LineReader, ReportsAFailureToRead) {
  const int folder = ::open("/", O_RDONLY);
  ASSERT_GE(folder, 0);
  LineReader reader(folder, 100);
  std::string line;
  const auto kind = reader.next(line);
  ::close(folder);
  ASSERT_FALSE(kind);
  EXPECT_EQ(kind.error().code, Errc::io);
  EXPECT_EQ(kind.error().message, "Is a directory");
}

}  // namespace
}  // namespace clef::cli
