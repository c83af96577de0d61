// A line on stderr that tells how far a long piece of work is. For programs; libraries report through ProgressFunction.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace clef {

// Called now and then, from one thread, with bytes done and in all.
using ProgressFunction = std::function<void(std::uint64_t done, std::uint64_t total)>;

class ProgressBar {
 public:
  // Draws nothing at all when stderr is no terminal.
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // leaves the line, ended, when something was drawn
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done, std::uint64_t total);
  ProgressFunction function() {
    return [this](std::uint64_t done, std::uint64_t total) { update(done, total); };
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::string label_;
  bool is_terminal_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_draw_{};
};

// One line of the bar, without the return to its start: label, bar, percent, amount, rate and time left.
std::string progress_line(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace clef
