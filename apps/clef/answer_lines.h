// The work of clef: lines of requests in, answers out.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace clef::cli {

inline constexpr std::size_t kMaxLineBytes = std::size_t{64}
                                             << 20;  // a whole record is far shorter; media will be less

// Standard output, with every failure noticed.
class Output {
 public:
  explicit Output(std::FILE* file) : file_(file) {}
  // Errc::io with the system's message.
  Status write(std::string_view text);
  Status flush();

 private:
  std::FILE* file_;
};

using AnswerBatch = std::function<std::vector<Result<Engine::Answer>>(std::span<const std::string>)>;
using FormatAnswer = std::function<std::string(const Engine::Answer&)>;  // with its line ends
using FormatError = std::function<std::string(std::string_view message)>;

struct LineWork {
  AnswerBatch answer;
  FormatAnswer format_answer;
  FormatError format_error;
  std::size_t batch = 1;  // requests given to `answer` at once
  std::size_t max_line_bytes = kMaxLineBytes;
  std::function<void(std::string_view)> complain;  // one message for standard error, without the program's name
};

// Answers the lines of each input in turn ("-" is standard input). Returns the exit code: 0, or 1 once an input could
// not be read (after the lines before it are answered), the output could not be written, or the engine itself failed.
int answer_lines(const std::vector<std::string>& inputs, const LineWork& work, Output& output);

// Answers one request. Returns the exit code: 0 when it has an answer, else 1.
int answer_request(std::string request, const LineWork& work, Output& output);

// {"error":"MESSAGE"} and a line feed.
std::string json_error_line(std::string_view message);

// The response and a line feed; with_logits adds "x_logits": {QUESTION: {OPTION: number}}, options in prompt order.
std::string json_answer_line(const Engine::Answer& answer, bool with_logits);

}  // namespace clef::cli
