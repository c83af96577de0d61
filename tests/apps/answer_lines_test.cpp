// The command line's work with an engine that answers by rule, so that every way it can go is seen.
#include "clef/answer_lines.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/golden.h"

namespace clef::cli {
namespace {

namespace fs = std::filesystem;

// Requests "ok NAME" are answered, "bad" is the caller's mistake, "lost" is the engine's.
Result<Engine::Answer> answer_one(const std::string& request) {
  if (request == "bad") return Error{Errc::bad_request, "bad \"request\""};
  if (request == "lost") return Error{Errc::device, "device lost"};
  Engine::Answer answer;
  answer.response = Json::Object{{"echo", request}};
  return answer;
}

class AnswerLines : public testing::Test {
 protected:
  AnswerLines() {
    folder_ = test::test_data_path("answer_lines") / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    work_.answer = [this](std::span<const std::string> requests) {
      batches_.push_back(requests.size());
      std::vector<Result<Engine::Answer>> answers;
      for (const std::string& request : requests) answers.push_back(answer_one(request));
      return answers;
    };
    work_.format_answer = [](const Engine::Answer& answer) { return json_answer_line(answer, false); };
    work_.format_error = json_error_line;
    work_.complain = [this](std::string_view message) { complaints_.emplace_back(message); };
  }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }

  int run(const std::vector<std::string>& inputs, const fs::path& output_path) {
    std::FILE* file = std::fopen(output_path.c_str(), "wb");
    EXPECT_NE(file, nullptr);
    Output output(file);
    const int code = answer_lines(inputs, work_, output);
    std::fclose(file);
    return code;
  }
  int run(const std::vector<std::string>& inputs) {
    const int code = run(inputs, folder_ / "out");
    written_ = test::read_file(folder_ / "out");
    return code;
  }

  LineWork work_;
  fs::path folder_;
  std::vector<std::size_t> batches_;
  std::vector<std::string> complaints_;
  std::string written_;
};

TEST_F(AnswerLines, AnswersEachLineInOrderAndSkipsEmptyOnes) {
  EXPECT_EQ(run({file("a", "ok 1\r\n\n\r\nok 2\n"), file("b", "ok 3")}), 0);
  EXPECT_EQ(written_, "{\"echo\":\"ok 1\"}\n{\"echo\":\"ok 2\"}\n{\"echo\":\"ok 3\"}\n");
  EXPECT_EQ(batches_, (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(AnswerLines, AnswersABadLineInItsPlaceAndGoesOn) {
  EXPECT_EQ(run({file("a", "ok 1\nbad\nok 2\n")}), 0);
  EXPECT_EQ(written_, "{\"echo\":\"ok 1\"}\n{\"error\":\"bad \\\"request\\\"\"}\n{\"echo\":\"ok 2\"}\n");
  EXPECT_TRUE(complaints_.empty());
}

TEST_F(AnswerLines, PacksBatchesAcrossFiles) {
  work_.batch = 2;
  EXPECT_EQ(run({file("a", "ok 1\nok 2\nok 3\n"), file("b", "ok 4\nok 5\n")}), 0);
  EXPECT_EQ(batches_, (std::vector<std::size_t>{2, 2, 1}));
}

TEST_F(AnswerLines, FailsWhenTheEngineFailsButAnswersTheRest) {
  EXPECT_EQ(run({file("a", "lost\nok 2\n")}), 1);
  EXPECT_EQ(written_, "{\"error\":\"device lost\"}\n{\"echo\":\"ok 2\"}\n");
  EXPECT_EQ(complaints_, std::vector<std::string>{"device lost"});
}

TEST_F(AnswerLines, RefusesALineOverTheLimitInItsPlace) {
  work_.batch = 8;
  work_.max_line_bytes = 10;
  EXPECT_EQ(run({file("a", "ok 1\n" + std::string(11, 'x') + "\nok 2\n")}), 0);
  EXPECT_EQ(written_, "{\"echo\":\"ok 1\"}\n{\"error\":\"request is longer than 10 bytes\"}\n{\"echo\":\"ok 2\"}\n");
}

TEST_F(AnswerLines, AnswersWhatWasReadBeforeAFailureToRead) {
  work_.batch = 8;
  EXPECT_EQ(run({file("a", "ok 1\nok 2\n"), folder_.string(), file("b", "ok 3\n")}), 1);
  EXPECT_EQ(written_, "{\"echo\":\"ok 1\"}\n{\"echo\":\"ok 2\"}\n");
  EXPECT_EQ(complaints_, std::vector<std::string>{"cannot read " + folder_.string() + ": Is a directory"});
}

TEST_F(AnswerLines, NamesAFileThatIsNotThere) {
  const std::string missing = (folder_ / "missing").string();
  EXPECT_EQ(run({missing}), 1);
  EXPECT_EQ(complaints_, std::vector<std::string>{"cannot read " + missing + ": No such file or directory"});
}

TEST_F(AnswerLines, StopsAtOnceWhenTheOutputIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_EQ(run({file("a", "ok 1\nok 2\nok 3\n")}, "/dev/full"), 1);
  EXPECT_EQ(batches_.size(), 1U);
  EXPECT_EQ(complaints_, std::vector<std::string>{"cannot write stdout: No space left on device"});
}

TEST(JsonAnswerLine, AddsLogitsBesideTheAnswersOnRequest) {
  Engine::Answer answer;
  answer.response = Json::Object{{"model", "m"}, {"answers", Json::Object{}}};
  answer.record.questions.resize(2);
  answer.record.questions[0].id = "q";
  answer.record.questions[0].option_ids = {"a", "b"};
  answer.record.questions[1].id = "r";
  answer.record.questions[1].option_ids = {"true", "false"};
  answer.decisions.logits = {{0.5F, -1.25F}, {2.0F, 0.1F}};
  EXPECT_EQ(json_answer_line(answer, false), "{\"model\":\"m\",\"answers\":{}}\n");
  EXPECT_EQ(json_answer_line(answer, true),
            "{\"model\":\"m\",\"answers\":{},\"x_logits\":{\"q\":{\"a\":0.5,\"b\":-1.25},"
            "\"r\":{\"true\":2.0,\"false\":0.10000000149011612}}}\n");
}

}  // namespace
}  // namespace clef::cli
