#include "clef/answer_lines.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "clef/input.h"
#include "clef/line_reader.h"

namespace clef::cli {
namespace {

// A request that is wrong is the caller's affair; anything else is ours, and shows in the exit code.
bool is_callers(Errc code) { return code == Errc::bad_request || code == Errc::too_large || code == Errc::unsupported; }

// Requests read and not answered yet, and what became of those answered.
class Batch {
 public:
  Batch(const LineWork& work, Output& output) : work_(work), output_(output) {}

  // A line to answer; the batch is answered when it is full.
  Status add(std::string line) {
    requests_.push_back(std::move(line));
    if (requests_.size() < work_.batch) return {};
    return answer();
  }

  // Answers what is waiting, in order, and flushes, so that a reader at the other end of a pipe never waits for a
  // buffer.
  Status answer() {
    if (requests_.empty()) return {};
    const auto results = work_.answer(requests_);
    CHECK(results.size() == requests_.size(), "{} answers to {} requests", results.size(), requests_.size());
    requests_.clear();
    for (const auto& result : results) {
      if (result) {
        TRY(output_.write(work_.format_answer(*result)));
        continue;
      }
      TRY(output_.write(work_.format_error(result.error().message)));
      refused_ = true;
      if (!is_callers(result.error().code)) {
        work_.complain(result.error().message);
        engine_failed_ = true;
      }
    }
    return output_.flush();
  }

  // A line that is no request, in its place among the answers.
  Status refuse(std::string_view message) {
    TRY(answer());
    TRY(output_.write(work_.format_error(message)));
    return output_.flush();
  }

  bool refused() const { return refused_; }  // any request that came to the engine
  bool engine_failed() const { return engine_failed_; }

 private:
  const LineWork& work_;
  Output& output_;
  std::vector<std::string> requests_;
  bool refused_ = false, engine_failed_ = false;
};

// The outcome of one input: what kept it from being read to its end, if anything did. A failure to write is the other
// error, and ends everything.
Result<std::optional<std::string>> answer_input(const std::string& name, const LineWork& work, Batch& batch) {
  const auto input = Input::open(name);
  if (!input) return std::optional(input.error().message);
  LineReader reader(input->descriptor(), work.max_line_bytes);
  std::string line;
  while (true) {
    const auto kind = reader.next(line);
    if (!kind) return std::optional(kind.error().message);
    switch (*kind) {
      case LineReader::Kind::end:
        return std::optional<std::string>();
      case LineReader::Kind::too_long:
        TRY(batch.refuse(fmt::format("request is longer than {} bytes", work.max_line_bytes)));
        break;
      case LineReader::Kind::line:
        if (!line.empty()) TRY(batch.add(std::move(line)));
        break;
    }
  }
}

}  // namespace

Status Output::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) return Error{Errc::io, std::strerror(errno)};
  return {};
}

Status Output::flush() {
  if (std::fflush(file_) != 0) return Error{Errc::io, std::strerror(errno)};
  return {};
}

int answer_lines(const std::vector<std::string>& inputs, const LineWork& work, Output& output) {
  Batch batch(work, output);
  bool failed_to_read = false;
  Status written;
  for (const std::string& name : inputs) {
    const auto outcome = answer_input(name, work, batch);
    written = outcome ? Status() : Status(outcome.error());
    if (!written) break;
    if (*outcome) {
      written = batch.answer();
      if (!written) break;
      work.complain(fmt::format("cannot read {}: {}", name == "-" ? "stdin" : name, **outcome));
      failed_to_read = true;
      break;
    }
  }
  if (written) written = batch.answer();
  if (!written) {
    work.complain(fmt::format("cannot write stdout: {}", written.error().message));
    return 1;
  }
  return failed_to_read || batch.engine_failed() ? 1 : 0;
}

int answer_request(std::string request, const LineWork& work, Output& output) {
  Batch batch(work, output);
  Status written = batch.add(std::move(request));
  if (written) written = batch.answer();
  if (!written) work.complain(fmt::format("cannot write stdout: {}", written.error().message));
  return written && !batch.refused() ? 0 : 1;
}

std::string json_error_line(std::string_view message) {
  return to_compact_json(Json::Object{{"error", std::string(message)}}) + "\n";
}

std::string json_answer_line(const Engine::Answer& answer, bool with_logits) {
  if (!with_logits) return to_compact_json(answer.response) + "\n";
  Json response = answer.response;
  Json::Object questions;
  for (std::size_t q = 0; q < answer.record.questions.size(); ++q) {
    const EncodedQuestion& question = answer.record.questions[q];
    Json::Object logits;
    for (std::size_t o = 0; o < question.option_ids.size(); ++o) {
      logits.emplace_back(question.option_ids[o], static_cast<double>(answer.decisions.logits.at(q).at(o)));
    }
    questions.emplace_back(question.id, std::move(logits));
  }
  CHECK(response.if_object() != nullptr);
  response.if_object()->emplace_back("x_logits", std::move(questions));
  return to_compact_json(response) + "\n";
}

}  // namespace clef::cli
