#include "clef/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace clef::cli {
namespace {

constexpr Terminal kUnicode = {.is_terminal = false, .is_utf8 = true, .has_color = false, .columns = 80};
constexpr Terminal kAscii = {.is_terminal = false, .is_utf8 = false, .has_color = false, .columns = 60};

Engine::Answer answer_of(Question question, std::vector<double> probabilities, Json::Object answered) {
  Engine::Answer answer;
  answer.record.input_ids.resize(61);
  answer.request.state = "Checkout is down";
  const std::string id = question.id;
  answer.request.questions.push_back(std::move(question));
  answer.decisions.probabilities.push_back(std::move(probabilities));
  answer.response = Json::Object{{"answers", Json::Object{{id, std::move(answered)}}}};
  return answer;
}

Engine::Answer noul() {
  return answer_of({.id = "outage",
                    .type = QuestionType::noul,
                    .instructions = "Is a service down?",
                    .options = {{"true", {}}, {"false", {}}},
                    .caller_order = {"true", "false"}},
                   {0.75, 0.25}, {{"type", "noul"}, {"noul", 0.75}});
}

// Option ids in prompt order "a", "b", ...; the caller gave them in reverse.
Engine::Answer long_choice(std::size_t count) {
  Question question;
  question.id = question.instructions = "pick";
  question.type = QuestionType::choice;
  std::vector<double> probabilities;
  for (std::size_t i = 0; i < count; ++i) {
    question.options.push_back({"option" + std::to_string(100 + i), {}});
    question.caller_order.insert(question.caller_order.begin(), question.options.back().id);
    probabilities.push_back(static_cast<double>(i + 1) / (0.5 * static_cast<double>(count * (count + 1))));
  }
  return answer_of(question, probabilities, {{"type", "choice"}, {"choice", question.caller_order.front()}});
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST(Bar, MeasuresInEighths) {
  EXPECT_EQ(bar(1.0, 4, true), "████");
  EXPECT_EQ(bar(0.5, 4, true), "██");
  EXPECT_EQ(bar(0.40625, 4, true), "█▋");  // 13 of 32 eighths
  EXPECT_EQ(bar(0.0, 4, true), "");
  EXPECT_EQ(bar(1e-9, 4, true), "▏");
}

TEST(Bar, IsPlainInAscii) {
  EXPECT_EQ(bar(0.5, 4, false), "##");
  EXPECT_EQ(bar(1e-9, 4, false), "#");
}

TEST(Bar, StaysInItsColumnsWhateverTheNumber) {
  EXPECT_EQ(bar(7.0, 4, true), "████");
  EXPECT_EQ(bar(-1.0, 4, true), "");
  EXPECT_EQ(bar(std::nan(""), 4, true), "");
}

TEST(Table, ShowsQuestionAnswerAndBars) {
  EXPECT_EQ(table(noul(), 1, kAscii),
            "1  61 tokens  Checkout is down\n"
            "  outage  noul  true  Is a service down?\n"
            "  > true   ##############################            0.7500\n"
            "    false  ##########                                0.2500\n"
            "\n");
}

TEST(Table, CountsImagesAndVideos) {
  auto answer = noul();
  answer.request.media.images.resize(1);
  answer.request.media.videos.resize(2);
  EXPECT_EQ(lines_of(table(answer, 1, kAscii))[0], "1  61 tokens  1 image  2 videos  Checkout is down");
}

TEST(Table, DrawsBlocksInUnicode) {
  const auto lines = lines_of(table(noul(), 1, kUnicode));
  ASSERT_GE(lines.size(), 4U);
  EXPECT_EQ(lines[2].substr(0, 16), "  ▸ true   █");
}

TEST(Table, NamesTheLevelsOfAScore) {
  const auto answer = answer_of({.id = "anger",
                                 .type = QuestionType::score,
                                 .instructions = "anger",
                                 .options = {{"0", "calm"}, {"1", "furious"}},
                                 .caller_order = {"0", "1"}},
                                {0.5, 0.5}, {{"type", "score"}, {"score", 0.5}});
  const auto lines = lines_of(table(answer, 2, kAscii));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[1], "  anger  score  0.5000 of 0 to 1");
  EXPECT_EQ(lines[2].substr(0, 14), "  > 0 calm    ");
  EXPECT_EQ(lines[3].substr(0, 14), "    1 furious ");
}

TEST(Table, ListsAChoiceInTheCallersOrder) {
  const auto lines = lines_of(table(long_choice(3), 1, kAscii));
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_EQ(lines[1], "  pick  choice  option102");
  EXPECT_EQ(lines[2].substr(0, 14), "  > option102 ");
  EXPECT_EQ(lines[4].substr(0, 14), "    option100 ");
}

TEST(Table, CutsALongListToTheMostProbableAndCountsTheRest) {
  const auto lines = lines_of(table(long_choice(40), 1, kAscii));
  ASSERT_EQ(lines.size(), 2 + kMaxTableOptions + 2);
  EXPECT_EQ(lines[2].substr(0, 13), "  > option139");
  EXPECT_EQ(lines[13].substr(0, 13), "    option128");
  EXPECT_EQ(lines[14], "    28 more options, 0.4951 together");  // (1 + ... + 28) / (1 + ... + 40) = 406 / 820
}

TEST(Table, KeepsEveryLineInTheWindow) {
  auto answer = long_choice(5);
  answer.request.state = std::string(500, 's');
  answer.request.questions[0].instructions = std::string(500, 'i');
  answer.request.questions[0].options[0].id = answer.request.questions[0].caller_order.back() = std::string(300, 'o');
  for (std::int64_t columns = 40; columns <= 160; columns += 7) {
    const Terminal terminal = {.is_terminal = true, .is_utf8 = true, .has_color = false, .columns = columns};
    for (const std::string& line : lines_of(table(answer, 1, terminal)))
      EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST(Table, ColorsOnlyWhereTheTerminalDoes) {
  EXPECT_EQ(table(noul(), 1, kUnicode).find('\x1b'), std::string::npos);
  Terminal colorful = kUnicode;
  colorful.has_color = true;
  EXPECT_NE(table(noul(), 1, colorful).find("\x1b[1;32m"), std::string::npos);
}

TEST(Table, LetsNoRequestSteerTheTerminal) {
  auto answer = noul();
  answer.request.state = "a\x1b]0;title\x07";
  answer.request.questions[0].id = "out\x1b[2Jage";
  answer.request.questions[0].instructions = "is\nit\x1b?";
  EXPECT_EQ(table(answer, 1, kUnicode).find('\x1b'), std::string::npos);
  EXPECT_EQ(table_error("x\x1b[2J", 1, kUnicode).find('\x1b'), std::string::npos);
}

TEST(Table, ShowsAnErrorWhole) {
  const std::string message(300, 'm');
  EXPECT_EQ(table_error(message, 7, kAscii), "7  error: " + message + "\n\n");
}

}  // namespace
}  // namespace clef::cli
