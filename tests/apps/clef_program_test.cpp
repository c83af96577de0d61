// The built program as a user runs it: arguments, pipes, files and exit codes, on a tiny model made by formula.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <span>
#include <sstream>

#include "support/golden.h"
#include "support/npz.h"
#include "support/pictures.h"

namespace clef::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoul = R"({"model":"clef","state":"Checkout is down","questions":{"outage":{"type":"noul"}}})";
constexpr const char* kChoice =
    R"({"model":"m","state":{"n":1},"questions":{"pick":{"type":"choice","criteria":{"b":"second","a":null}},)"
    R"("rate":{"type":"score","criteria":["bad","good"]}}})";

struct Outcome {
  int code = -1;
  std::string out, err;
};

std::string quoted(const std::string& text) {
  std::string shell = "'";
  for (const char c : text) shell += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return shell + "'";
}

class ClefProgram : public testing::Test {
 protected:
  ClefProgram() {
    folder_ = test::test_data_path("clef_program") / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  fs::path file(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  // Runs clef with the arguments and standard input given; `out` is where its standard output goes.
  Outcome run(const std::vector<std::string>& arguments, const std::string& input = "", fs::path out = {}) {
    const bool keeps_out = out.empty();
    if (keeps_out) out = folder_ / "out";
    std::string command = environment_ + " " + quoted(CLEF_PROGRAM);
    for (const std::string& argument : arguments) command += " " + quoted(argument);
    command += " <" + quoted(file("in", input).string()) + " >" + quoted(out.string()) + " 2>" +
               quoted((folder_ / "err").string());
    const int status = std::system(command.c_str());
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
            .out = keeps_out ? test::read_file(out) : "",
            .err = test::read_file(folder_ / "err")};
  }
  Outcome answer(std::vector<std::string> arguments, const std::string& input) {
    arguments.insert(arguments.begin(), {"-m", model().string()});
    return run(arguments, input);
  }
  static fs::path model() { return test::test_data_path("clef-tiny"); }

  fs::path folder_;
  std::string environment_ = "LC_ALL=C";
};

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto value = parse_json(line);
    EXPECT_TRUE(value) << line;
    if (value) values.push_back(std::move(value).value());
  }
  return values;
}

std::string requests(std::initializer_list<std::string> lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TEST_F(ClefProgram, AnswersALineEachAndRefusesABadOneInItsPlace) {
  const Outcome outcome = answer({}, requests({kNoul, "", "{\"model\":1}", kChoice}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[0].find("answers"), nullptr);
  EXPECT_EQ(lines[1], (Json::Object{{"error", "model and state are required"}}));
  ASSERT_NE(lines[2].find("answers"), nullptr);
  EXPECT_NE(lines[2].find("answers")->find("pick"), nullptr);
  EXPECT_NE(lines[2].find("answers")->find("rate"), nullptr);
}

TEST_F(ClefProgram, GivesTheSameBytesInBatchesOnThreadsAndFromAGguf) {
  std::string input;
  std::size_t count = 0;
  for (const Json& line : test::golden_lines("text.jsonl")) {
    if (line.find("input_ids")->if_array()->size() > 250) continue;  // the long ones say nothing new here
    input += *line.find("request_text")->if_string() + "\n";
    ++count;
  }
  ASSERT_GE(count, 12U);
  const Outcome alone = answer({"--logits", "--threads", "1"}, input);
  ASSERT_EQ(alone.code, 0);
  EXPECT_EQ(json_lines(alone.out).size(), count);
  EXPECT_EQ(answer({"--logits", "--threads", "1", "--batch", "7"}, input).out, alone.out);
  EXPECT_EQ(answer({"--logits", "--threads", "2", "--batch", "34"}, input).out, alone.out);
  EXPECT_EQ(run({"-m", test::test_data_path("clef-tiny.gguf").string(), "--logits"}, input).out, alone.out);
}

TEST_F(ClefProgram, ReadsFilesAndStandardInputInTurn) {
  const auto first = file("first.jsonl", requests({kNoul}));
  const Outcome outcome = answer({first.string(), "-"}, requests({kChoice}));
  EXPECT_EQ(outcome.code, 0);
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_NE(lines[0].find("answers")->find("outage"), nullptr);
  EXPECT_NE(lines[1].find("answers")->find("pick"), nullptr);
}

TEST_F(ClefProgram, AddsLogitsOnRequestAlone) {
  EXPECT_EQ(json_lines(answer({}, requests({kChoice})).out).at(0).find("x_logits"), nullptr);
  const auto lines = json_lines(answer({"--logits"}, requests({kChoice})).out);
  const Json* logits = lines.at(0).find("x_logits");
  ASSERT_NE(logits, nullptr);
  ASSERT_NE(logits->find("pick"), nullptr);
  EXPECT_NE(logits->find("pick")->find("a")->if_double(), nullptr);
  EXPECT_NE(logits->find("rate")->find("1")->if_double(), nullptr);
}

TEST_F(ClefProgram, DrawsTablesInTheLocalesCharacters) {
  const Outcome ascii = answer({"--format", "table"}, requests({kNoul, "[]"}));
  EXPECT_EQ(ascii.code, 0);
  EXPECT_NE(ascii.out.find("  outage  noul  "), std::string::npos) << ascii.out;
  EXPECT_NE(ascii.out.find("  #"), std::string::npos) << ascii.out;
  EXPECT_NE(ascii.out.find("2  error: request must be a JSON object\n"), std::string::npos) << ascii.out;
  EXPECT_EQ(ascii.out.find('\x1b'), std::string::npos);
  environment_ = "LC_ALL=C.UTF-8";
  EXPECT_NE(answer({"--format", "table"}, requests({kNoul})).out.find("█"), std::string::npos);
}

TEST_F(ClefProgram, TellsTimesOnStandardError) {
  const Outcome outcome = answer({"--timings", "--batch", "2"}, requests({kNoul, kChoice, kNoul}));
  EXPECT_TRUE(std::regex_match(outcome.err, std::regex("clef: loaded .*clef-tiny in [0-9.]+ ms\n"
                                                       "clef: memory for 16384 tokens in flight: [^\n]+\n"
                                                       "clef: batch of 2 \\([0-9]+ tokens\\) in [0-9.]+ ms\n"
                                                       "clef: batch of 1 \\([0-9]+ tokens\\) in [0-9.]+ ms\n")))
      << outcome.err;
}

TEST_F(ClefProgram, CutsOrRefusesALongState) {
  const std::string request =
      R"({"model":"m","state":")" + std::string(4000, 'x') + R"( ","questions":{"q":{"type":"noul"}}})";
  const auto refused = json_lines(answer({"--max-length", "300"}, requests({request})).out);
  ASSERT_NE(refused.at(0).find("error"), nullptr);
  EXPECT_EQ(refused.at(0).find("error")->if_string()->rfind("state needs more than ", 0), 0U);
  const auto cut = json_lines(answer({"--max-length", "300", "--truncate"}, requests({request})).out);
  ASSERT_NE(cut.at(0).find("usage"), nullptr);
  EXPECT_EQ(cut.at(0).find("usage")->find("input_tokens")->if_integer()->digits, "300");
}

TEST_F(ClefProgram, WritesATraceOfTheFirstRequest) {
  const fs::path trace = folder_ / "trace.safetensors";
  const Outcome outcome = answer({"--trace", trace.string()}, requests({kNoul, kNoul}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_EQ(test::read_file(trace).substr(8, 2), "{\"");  // eight bytes of length, then the header
}

const std::string kAskedTeam = "team = web | payments (cards) | data: Who should take it?";
constexpr const char* kTeam =
    R"({"model":"clef","state":"Checkout is down","questions":{)"
    R"("team":{"type":"choice","instructions":"Who should take it?","criteria":{"web":null,"payments":"cards","data":null}},)"
    R"("how bad":{"type":"score","criteria":["not","very"]}}})";

TEST_F(ClefProgram, AnswersWhatTheCommandLineAsks) {
  const std::vector<std::string> asking = {"--state", "Checkout is down",    "--ask", kAskedTeam,
                                           "--ask",   "how bad = not < very"};
  const Outcome asked = answer(asking, "not read");
  EXPECT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(asked.err, "");
  EXPECT_EQ(asked.out, answer({}, requests({kTeam})).out);

  std::vector<std::string> printing = asking;
  printing.push_back("--print-request");
  EXPECT_EQ(run(printing).out, requests({kTeam}));
  std::vector<std::string> drawing = asking;
  drawing.insert(drawing.end(), {"--format", "table"});
  EXPECT_NE(answer(drawing, "").out.find("  team  choice  "), std::string::npos);
}

TEST_F(ClefProgram, AsksAboutAStateFromAFileOrAPipe) {
  const auto state = file("state", "Checkout is down\n");
  const std::string expected = answer({"--state", "Checkout is down", "--ask", "a"}, "").out;
  EXPECT_EQ(answer({"--state-file", state.string(), "--ask", "a"}, "").out, expected);
  EXPECT_EQ(answer({"--state-file", "-", "--ask", "a"}, "Checkout is down\n").out, expected);
  const std::string object = R"({"n": [1, 2]})";
  const std::string as_json =
      answer({}, requests({R"({"model":"clef","state":{"n":[1,2]},"questions":{"a":{"type":"noul"}}})"})).out;
  EXPECT_EQ(answer({"--state", object, "--state-json", "--ask", "a"}, "").out, as_json);
}

TEST_F(ClefProgram, AnswersAboutPicturesAsTheReferenceDoes) {
  std::size_t count = 0;
  for (const Json& record : test::golden_lines("vision.jsonl")) {
    if (!record.find("media_kwargs")->if_object()->empty()) continue;  // not for the command line
    std::vector<std::string> arguments = {"--state",
                                          to_compact_json(*record.find("request")->find("state")),
                                          "--state-json",
                                          "--ask",
                                          "legible: Is the receipt total legible?",
                                          "--ask",
                                          "kind = receipt (A receipt) | photo (A photo) | chart: What is it?"};
    for (const Json& name : *record.find("images")->if_array()) {
      arguments.insert(arguments.end(), {"--image", test::golden_path("images/" + *name.if_string()).string()});
    }
    const Outcome outcome = answer(arguments, "");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto expected = parse_json(*record.find("response_text")->if_string());
    ASSERT_TRUE(expected);
    EXPECT_EQ(outcome.out, to_compact_json(*expected) + "\n") << *record.find("name")->if_string();
    ++count;
  }
  EXPECT_EQ(count, 4U);
}

TEST_F(ClefProgram, AnswersAboutAClipsFramesAsTheReferenceDoes) {
  std::size_t count = 0;
  for (const Json& record : test::golden_lines("video.jsonl")) {
    if (!record.find("media_kwargs")->if_object()->empty()) continue;  // not for the command line
    const std::string name = *record.find("name")->if_string();
    const test::ByteArray frames = test::read_npz(test::golden_path("video_" + name + ".npz"), "frames");
    const std::int64_t height = frames.shape.at(1), width = frames.shape.at(2);
    const auto frame_bytes = static_cast<std::size_t>(height * width * 3);
    const fs::path clip = folder_ / name;
    fs::create_directory(clip);
    for (std::size_t i = 0; i < static_cast<std::size_t>(frames.shape.at(0)); ++i) {
      const auto pixels = std::span(frames.values).subspan(i * frame_bytes, frame_bytes);
      file((fs::path(name) / fmt::format("{}.bmp", i)).string(), test::bmp_of(pixels, width, height));
    }
    const Outcome outcome = answer({"--frames", clip.string(), "--fps", "24", "--state", "A clip.", "--ask",
                                    "legible: Is the receipt total legible?", "--ask",
                                    "kind = receipt (A receipt) | photo (A photo) | chart: What is it?"},
                                   "");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const auto expected = parse_json(*record.find("response_text")->if_string());
    ASSERT_TRUE(expected);
    EXPECT_EQ(outcome.out, to_compact_json(*expected) + "\n") << name;
    ++count;
  }
  EXPECT_EQ(count, 3U);
}

TEST_F(ClefProgram, RefusesAClipWhoseFramesDiffer) {
  const fs::path clip = folder_ / "clip";
  fs::create_directory(clip);
  fs::copy_file(test::golden_path("images/rgb.png"), clip / "1.png");
  fs::copy_file(test::golden_path("images/rgb_odd.png"), clip / "2.png");
  const Outcome outcome = answer({"--frames", clip.string(), "--fps", "1", "--ask", "a"}, "");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(json_lines(outcome.out).at(0), (Json::Object{{"error", "videos[0]: video frame dimensions differ"}}));
}

TEST_F(ClefProgram, RefusesMediaOverALimit) {
  const std::string image = test::golden_path("images/rgb.png").string();
  const Outcome outcome = answer({"--image", image, "--image", image, "--ask", "a", "--max-images", "1"}, "");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(json_lines(outcome.out).at(0), (Json::Object{{"error", "too many images: 2, at most 1 per request"}}));
  const Outcome pixels = answer({"--image", image, "--ask", "a", "--max-image-pixels", "100"}, "");
  EXPECT_NE(pixels.out.find("above the limit of 100 per image"), std::string::npos) << pixels.out;
  const Outcome tokens = answer({"--image", image, "--ask", "a", "--max-image-tokens", "2"}, "");
  EXPECT_NE(tokens.out.find("above the limit of 2 per image"), std::string::npos) << tokens.out;
}

TEST_F(ClefProgram, SaysWhatIsWrongWithAQuestionBeforeOpeningAModel) {
  const Outcome outcome = run({"-m", (folder_ / "missing").string(), "--state", "s", "--ask", "team = web: Who?"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "clef: --ask: expected '|' and another option, or '<' and a higher level; a plain ':' is written '\\:'\n"
            "  team = web: Who?\n"
            "            ^\n"
            "clef: see clef --help\n");
  EXPECT_EQ(run({"-m", "missing", "--ask", "a", "--state", "s", "requests.jsonl"}).code, 2);

  const fs::path picture = folder_ / "receipt.jpg";
  const Outcome unread = run({"-m", (folder_ / "missing").string(), "--image", picture.string(), "--ask", "a"});
  EXPECT_EQ(unread.code, 1);
  EXPECT_EQ(unread.err, "clef: " + picture.string() + ": No such file or directory\n");
}

TEST_F(ClefProgram, ExitsWithTwoOnAWrongCommandLine) {
  const Outcome outcome = run({"--batch", "many"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err,
            "clef: --batch: expected a whole number from 1 to 256, got 'many'\n"
            "clef: see clef --help\n");
}

TEST_F(ClefProgram, AnswersWithTheDemoModelAndSaysSoWhenNoModelIsGiven) {
  const Outcome outcome = run({}, requests({kNoul}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_NE(outcome.out.find("\"noul\":"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.err.rfind("clef: no -m given: answering with the demo model", 0), 0U) << outcome.err;
}

TEST_F(ClefProgram, ExitsWithOneWhenTheModelIsNotThere) {
  const fs::path missing = folder_ / "missing";
  const Outcome outcome = run({"-m", missing.string()}, requests({kNoul}));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.rfind("clef: " + missing.string() + ": no such file or folder", 0), 0U) << outcome.err;
}

TEST_F(ClefProgram, ExitsWithOneWhenAnInputCannotBeReadAfterAnsweringThoseBefore) {
  const auto first = file("first.jsonl", requests({kNoul}));
  const Outcome outcome = answer({"--batch", "8", first.string(), folder_.string()}, "");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(json_lines(outcome.out).size(), 1U);
  EXPECT_EQ(outcome.err, "clef: cannot read " + folder_.string() + ": Is a directory\n");
}

TEST_F(ClefProgram, ExitsWithOneWhenItsOutputIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  const Outcome outcome = run({"-m", model().string()}, requests({kNoul, kNoul}), "/dev/full");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "clef: cannot write stdout: No space left on device\n");
}

TEST_F(ClefProgram, ExplainsItselfWithoutAModel) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.out.find("Usage: clef [-m MODEL]"), std::string::npos);
  const Outcome version = run({"--version"});
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(std::regex_match(
      version.out, std::regex("cleffa [0-9.]+, built with (gcc|clang) .*\ncpu: [a-z0-9]+ kernels\n(cuda.*\n)*")))
      << version.out;
}

}  // namespace
}  // namespace clef::cli
