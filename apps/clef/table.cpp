#include "clef/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace clef::cli {
namespace {

constexpr std::int64_t kMaxBarColumns = 40;
constexpr std::int64_t kNumberColumns = 6;  // 0.1234

class Style {
 public:
  explicit Style(const Terminal& terminal) : has_color_(terminal.has_color) {}
  std::string bold(const std::string& text) const { return wrapped("1", text); }
  std::string dim(const std::string& text) const { return wrapped("2", text); }
  std::string chosen(const std::string& text) const { return wrapped("1;32", text); }
  std::string error(const std::string& text) const { return wrapped("1;31", text); }

 private:
  std::string wrapped(std::string_view code, const std::string& text) const {
    return has_color_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  bool has_color_;
};

struct Row {
  std::string label;
  double probability = 0;
  bool is_chosen = false;
};

struct Rows {
  std::vector<Row> shown;
  std::size_t num_hidden = 0;
  double hidden_probability = 0;
};

const Json* member(const Json* value, std::string_view key) { return value == nullptr ? nullptr : value->find(key); }

// A score's levels are named by their texts; other options by their ids.
std::string label_of(const Question& question, const Option& option) {
  if (question.type != QuestionType::score || option.description.is_null()) return option.id;
  return option.id + " " + render(option.description);
}

// The options in the caller's order; of a long list, those of highest probability.
Rows rows_of(const Question& question, const std::vector<double>& probabilities) {
  std::vector<Row> rows;
  for (const std::string& id : question.caller_order) {
    const auto option = std::find_if(question.options.begin(), question.options.end(),
                                     [&](const Option& candidate) { return candidate.id == id; });
    CHECK(option != question.options.end(), "option '{}' is not in the prompt", id);
    const auto index = static_cast<std::size_t>(option - question.options.begin());
    rows.push_back({label_of(question, *option), probabilities.at(index)});
  }
  CHECK(!rows.empty());
  const auto less_probable = [&](const Row& a, const Row& b) { return a.probability < b.probability; };
  std::max_element(rows.begin(), rows.end(), less_probable)->is_chosen = true;  // the first of equals, as in answers
  if (rows.size() <= kMaxTableOptions) return {.shown = std::move(rows)};

  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return less_probable(rows[b], rows[a]); });
  std::sort(order.begin(), order.begin() + kMaxTableOptions);
  Rows cut;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < kMaxTableOptions) {
      cut.shown.push_back(std::move(rows[order[i]]));
    } else {
      ++cut.num_hidden;
      cut.hidden_probability += rows[order[i]].probability;
    }
  }
  return cut;
}

// What the question came to, in its type's words: "true", "billing", "2.3107 of 0 to 4".
std::string verdict(const Question& question, const Json* answer, const Rows& rows) {
  if (question.type == QuestionType::score) {
    const Json* score = member(answer, "score");
    if (score == nullptr || score->if_double() == nullptr) return "";
    return fmt::format("{:.4f} of 0 to {}", *score->if_double(), question.options.size() - 1);
  }
  const auto chosen = std::find_if(rows.shown.begin(), rows.shown.end(), [](const Row& row) { return row.is_chosen; });
  return chosen == rows.shown.end() ? "" : chosen->label;
}

// "  2 images"; nothing for none.
std::string count_of(std::size_t count, std::string_view what) {
  return count == 0 ? "" : fmt::format("  {} {}{}", count, what, count == 1 ? "" : "s");
}

std::int64_t max_label_columns(const Terminal& terminal) { return terminal.columns / 3; }

std::int64_t label_columns_of(const Rows& rows, const Terminal& terminal) {
  std::int64_t columns = 0;
  for (const Row& row : rows.shown) {
    columns = std::max(columns, display_width(fitted(row.label, max_label_columns(terminal), terminal.is_utf8)));
  }
  return columns;
}

std::string question_heading(const Question& question, const std::string& verdict, const Terminal& terminal) {
  const Style style(terminal);
  const std::int64_t third = terminal.columns / 3;
  const std::string id = fitted(question.id, third, terminal.is_utf8);
  const std::string type(name_of(question.type));
  const std::string result = fitted(verdict, third, terminal.is_utf8);
  std::string heading = fmt::format("  {}  {}  {}", style.bold(id), type, style.chosen(result));
  const std::int64_t left = terminal.columns - 6 - display_width(id) - display_width(type) - display_width(result) - 2;
  if (question.instructions != question.id && left > 10) {
    heading += "  " + style.dim(fitted(question.instructions, left, terminal.is_utf8));
  }
  return heading + "\n";
}

std::string option_lines(const Rows& rows, std::int64_t label_columns, const Terminal& terminal) {
  const Style style(terminal);
  // "  > " label "  " bar "  " number
  const std::int64_t bar_columns =
      std::clamp<std::int64_t>(terminal.columns - 4 - label_columns - 4 - kNumberColumns, 8, kMaxBarColumns);
  std::string text;
  for (const Row& row : rows.shown) {
    const std::string label = padded(fitted(row.label, max_label_columns(terminal), terminal.is_utf8), label_columns);
    const std::string drawn = padded(bar(row.probability, bar_columns, terminal.is_utf8), bar_columns);
    const std::string_view mark = !row.is_chosen ? " " : terminal.is_utf8 ? "▸" : ">";
    text += fmt::format("  {} {}  {}  {:.4f}\n", mark, row.is_chosen ? style.chosen(label) : label,
                        row.is_chosen ? style.chosen(drawn) : drawn, row.probability);
  }
  if (rows.num_hidden > 0) {
    text +=
        "    " + style.dim(fmt::format("{} more options, {:.4f} together", rows.num_hidden, rows.hidden_probability));
    text += "\n";
  }
  return text;
}

}  // namespace

std::string bar(double fraction, std::int64_t columns, bool is_utf8) {
  if (!(fraction > 0)) return "";
  constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::int64_t steps = is_utf8 ? 8 : 1;
  const double exact = std::min(fraction, 1.0) * static_cast<double>(columns * steps);
  const auto filled = std::max<std::int64_t>(1, std::llround(exact));
  std::string text;
  for (std::int64_t i = 0; i < filled / steps; ++i) text += is_utf8 ? "█" : "#";
  if (is_utf8) text += kEighths[static_cast<std::size_t>(filled % steps)];
  return text;
}

std::string table(const Engine::Answer& answer, std::int64_t number, const Terminal& terminal) {
  const Style style(terminal);
  std::string heading = fmt::format("{}  {} tokens", number, answer.record.input_ids.size());
  heading +=
      count_of(answer.request.media.images.size(), "image") + count_of(answer.request.media.videos.size(), "video");
  std::string text =
      style.bold(heading) + "  " +
      style.dim(fitted(answer.request.state, terminal.columns - display_width(heading) - 2, terminal.is_utf8)) + "\n";
  const auto& questions = answer.request.questions;
  std::vector<Rows> rows;
  std::int64_t label_columns = 0;  // of all questions, so that their bars stand in line
  for (std::size_t q = 0; q < questions.size(); ++q) {
    rows.push_back(rows_of(questions[q], answer.decisions.probabilities.at(q)));
    label_columns = std::max(label_columns, label_columns_of(rows.back(), terminal));
  }
  const Json* answers = answer.response.find("answers");
  for (std::size_t q = 0; q < questions.size(); ++q) {
    text += question_heading(questions[q], verdict(questions[q], member(answers, questions[q].id), rows[q]), terminal);
    text += option_lines(rows[q], label_columns, terminal);
  }
  return text + "\n";
}

std::string table_error(std::string_view message, std::int64_t number, const Terminal& terminal) {
  // Not cut: a message is worth its lines.
  const std::string safe = fitted(message, static_cast<std::int64_t>(message.size()) + 1, terminal.is_utf8);
  return fmt::format("{}  {} {}\n\n", number, Style(terminal).error("error:"), safe);
}

}  // namespace clef::cli
