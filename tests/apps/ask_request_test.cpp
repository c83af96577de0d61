#include "clef/ask_request.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "record/request.h"
#include "support/golden.h"
#include "support/pictures.h"
#include "support/scratch.h"

namespace clef::cli {
namespace {

namespace fs = std::filesystem;

std::string picture(const std::string& name) { return test::golden_path("images/" + name).string(); }

Json made(const Asking& asking) {
  auto request = make_request(asking);
  EXPECT_TRUE(request) << request.error().message;
  if (!request) return {};
  EXPECT_TRUE(parse_request(*request));  // the engine takes it
  return std::move(request).value();
}

Error refusal(const Asking& asking) {
  auto request = make_request(asking);
  EXPECT_FALSE(request);
  return request ? Error{Errc::internal, ""} : request.error();
}

Asking asking_about_state(const std::string& state, bool is_json = false) {
  Asking asking;
  asking.questions = {"q: Is it?"};
  asking.state = state;
  asking.state_is_json = is_json;
  return asking;
}

Asking asking_about_file(const fs::path& file, bool is_json = false) {
  Asking asking;
  asking.questions = {"q: Is it?"};
  asking.state_file = file.string();
  asking.state_is_json = is_json;
  return asking;
}

TEST(AskRequest, HoldsStateAndQuestions) {
  Asking asking = asking_about_state("Checkout is \"down\"");
  asking.questions.push_back("size = a < b");
  EXPECT_EQ(to_compact_json(made(asking)),
            R"({"model":"clef","state":"Checkout is \"down\"","questions":{)"
            R"("q":{"type":"noul","instructions":"Is it?"},"size":{"type":"score","criteria":["a","b"]}}})");
}

TEST(AskRequest, TakesAStateAsTextUnlessItIsSaidToBeJson) {
  EXPECT_EQ(*made(asking_about_state(R"({"n":1})")).find("state"), R"({"n":1})");
  EXPECT_EQ(*made(asking_about_state(R"({"n":1})", true)).find("state"), (Json::Object{{"n", 1}}));
}

TEST(AskRequest, ReadsAStateFromAFileWithoutItsLastLineEnd) {
  const test::ScratchFolder folder;
  EXPECT_EQ(*made(asking_about_file(folder.write("unix", "one\ntwo\n\n"))).find("state"), "one\ntwo\n");
  EXPECT_EQ(*made(asking_about_file(folder.write("dos", "one\r\n"))).find("state"), "one");
  EXPECT_EQ(*made(asking_about_file(folder.write("none", "one"))).find("state"), "one");
  EXPECT_EQ(*made(asking_about_file(folder.write("json", "[1,\n2]\n"), true)).find("state"), (Json::Array{1, 2}));
}

TEST(AskRequest, TellsMistakesOfTheCommandLineFromThoseOfFiles) {
  const test::ScratchFolder folder;
  EXPECT_EQ(refusal(asking_about_state("{", true)).code, Errc::bad_request);
  EXPECT_EQ(refusal(asking_about_state("{", true)).message.rfind("--state: json: ", 0), 0U);
  EXPECT_EQ(refusal(asking_about_state("\xff")).message, "--state: expected UTF-8, got another byte at place 0");

  const fs::path file = folder.write("state", "{");
  EXPECT_EQ(refusal(asking_about_file(file, true)).code, Errc::io);
  EXPECT_EQ(refusal(asking_about_file(file, true)).message.rfind(file.string() + ": json: ", 0), 0U);
  EXPECT_EQ(refusal(asking_about_file(folder.write("bytes", "\xff"))).code, Errc::io);
  const fs::path missing = folder.path() / "missing";
  EXPECT_EQ(refusal(asking_about_file(missing)).message, missing.string() + ": No such file or directory");

  Asking asking = asking_about_state("");
  asking.questions = {"q:"};
  EXPECT_EQ(refusal(asking).code, Errc::bad_request);
  EXPECT_EQ(refusal(asking).message, "--ask: expected the question's text after ':'\n  q:\n    ^");
}

TEST(AskRequest, InlinesPicturesOfEveryFormat) {
  Asking asking;
  asking.questions = {"q: Is it?"};
  const std::vector<std::string> names = {"rgb.png", "q75_420.jpg", "lossy.webp", "still.gif", "still.bmp"};
  for (const std::string& name : names) asking.images.push_back(picture(name));
  const Json request = made(asking);
  EXPECT_EQ(*request.find("state"), "");
  EXPECT_EQ(request.find("videos"), nullptr);
  Json::Array expected;
  for (const std::string& name : names) expected.emplace_back(test::golden_data_url(name));
  EXPECT_EQ(*request.find("images"), Json(expected));
}

TEST(AskRequest, RefusesAFileThatIsNoPicture) {
  const test::ScratchFolder folder;
  Asking asking;
  asking.questions = {"q: Is it?"};
  const fs::path text = folder.write("receipt.jpg", "Total: 12.50");
  asking.images = {picture("rgb.png"), text.string()};
  EXPECT_EQ(refusal(asking).code, Errc::io);
  EXPECT_EQ(refusal(asking).message.rfind(text.string() + ": ", 0), 0U) << refusal(asking).message;
  asking.images = {folder.path().string()};
  EXPECT_EQ(refusal(asking).message, folder.path().string() + ": Is a directory");
}

TEST(AskRequest, BoundsAPictureAndAllPicturesTogether) {
  const test::ScratchFolder folder;
  Asking asking;
  asking.questions = {"q: Is it?"};
  const fs::path large = folder.write("large.png", test::read_file(picture("rgb.png")));
  fs::resize_file(large, (std::uintmax_t{64} << 20) + 1);
  asking.images = {large.string()};
  EXPECT_EQ(refusal(asking).message, large.string() + ": more than the 67108864 bytes allowed");

  asking.images = {picture("rgb.png"), picture("gray.png")};
  const std::size_t bytes = fs::file_size(picture("rgb.png")) + fs::file_size(picture("gray.png"));
  EXPECT_TRUE(make_request(asking, bytes));
  const auto over = make_request(asking, bytes - 1);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Errc::too_large);
  EXPECT_EQ(over.error().message, picture("gray.png") + ": with this the images are over the " +
                                      std::to_string(bytes - 1) + " bytes that a request may have in all");
}

TEST(AskRequest, MakesAClipOfAFoldersFramesInTheOrderOfTheirNumbers) {
  const test::ScratchFolder folder;
  const std::vector<std::string> names = {"rgb.png", "gray.png", "palette.png"};
  const std::vector<std::string> frames = {"frame2.png", "frame10.png", "frame011.png"};
  for (std::size_t i = 0; i < names.size(); ++i) folder.write(frames[i], test::read_file(picture(names[i])));
  folder.write(".hidden", "not a picture");
  fs::create_directory(folder.path() / "frame3");
  Asking asking;
  asking.questions = {"q: Is it?"};
  asking.frames = folder.path().string();
  asking.fps = frame_rate("29.97");
  const Json request = made(asking);
  Json::Array expected;
  for (const std::string& name : names) expected.emplace_back(test::golden_data_url(name));
  ASSERT_NE(request.find("videos"), nullptr);
  EXPECT_EQ(*request.find("videos"), (Json::Array{Json::Object{{"frames", expected}, {"fps", 29.97}}}));
}

TEST(AskRequest, RefusesAFolderThatHoldsNoClip) {
  const test::ScratchFolder folder;
  Asking asking;
  asking.questions = {"q: Is it?"};
  asking.frames = folder.path().string();
  asking.fps = frame_rate("24");
  EXPECT_EQ(refusal(asking).message, folder.path().string() + ": expected 1 to 18000 images, got 0");
  const fs::path notes = folder.write("notes.txt", "shot on Monday");
  EXPECT_EQ(refusal(asking).message.rfind(notes.string() + ": ", 0), 0U);
  asking.frames = notes.string();
  EXPECT_EQ(refusal(asking).message, notes.string() + ": Not a directory");
  asking.frames = "";
  EXPECT_EQ(refusal(asking).code, Errc::io);
}

TEST(NaturalLess, CountsAsPeopleDo) {
  const std::vector<std::string> sorted = {"",        "10",   "a",     "a0",   "a01",   "a1",
                                           "a2",      "a2b",  "a10",   "a10b", "a100",  "a99999999999999999999",
                                           "aa",      "b1-2", "b1-10", "b2-1", "c.png", "c1.png",
                                           "\xc3\xa9"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(natural_less(sorted[i], sorted[j]), i < j) << sorted[i] << " " << sorted[j];
    }
  }
}

TEST(FrameRate, IsANumberAboveZeroUpToAThousand) {
  EXPECT_EQ(frame_rate("24"), Json(24));
  EXPECT_EQ(frame_rate("23.976"), Json(23.976));
  EXPECT_EQ(frame_rate("1e3"), Json(1000.0));
  for (const std::string_view text : {"", "0", "-1", "0.0", "1000.1", "NaN", "Infinity", "1e999", "\"24\"", "24 fps",
                                      "30000/1001", "[24]", "true", "024", "0x10"}) {
    EXPECT_FALSE(frame_rate(text)) << text;
  }
}

}  // namespace
}  // namespace clef::cli
