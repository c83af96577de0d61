#include "base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace clef {

namespace {

constexpr int kBarWidth = 28;
constexpr auto kRedraw = std::chrono::milliseconds(100);

}  // namespace

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputc('\n', stderr);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  if (!is_terminal_) return;
  const auto now = Clock::now();
  if (drawn_ && done < total && now - last_draw_ < kRedraw) return;
  last_draw_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  // \33[K clears what a longer line left behind.
  std::fputs(fmt::format("\r{}\33[K", progress_line(label_, done, total, seconds)).c_str(), stderr);
}

std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
  const double part = total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int filled = static_cast<int>(part * kBarWidth);
  std::string line =
      fmt::format("{} [{}{}] {:3.0f} %  {:.2f} of {:.2f} GB", label, std::string(static_cast<std::size_t>(filled), '='),
                  std::string(static_cast<std::size_t>(kBarWidth - filled), ' '), part * 100,
                  static_cast<double>(done) / 1e9, static_cast<double>(total) / 1e9);
  if (seconds > 0 && done > 0) {
    const double rate = static_cast<double>(done) / seconds;
    const double left = (static_cast<double>(total) - static_cast<double>(std::min(done, total))) / rate;
    line += fmt::format("  {:.2f} GB/s  {:.0f} s left", rate / 1e9, left);
  }
  return line;
}

}  // namespace clef
