#include "clef/options.h"

#include <gtest/gtest.h>

namespace clef::cli {
namespace {

Options parsed(const std::vector<std::string>& arguments) {
  auto options = parse_options(arguments);
  EXPECT_TRUE(options) << options.error().message;
  return options ? *options : Options{};
}

std::string refusal(const std::vector<std::string>& arguments) {
  const auto options = parse_options(arguments);
  EXPECT_FALSE(options);
  return options ? "" : options.error().message;
}

TEST(Options, HaveTheDefaultsThatHelpTells) {
  const Options options = parsed({"-m", "model"});
  EXPECT_EQ(options.model, "model");
  EXPECT_EQ(options.format, Format::automatic);
  EXPECT_EQ(options.batch, 1);
  EXPECT_EQ(options.max_length, 16384);
  EXPECT_EQ(options.num_threads, 0);
  EXPECT_FALSE(options.strict || options.truncate || options.logits || options.timings);
  EXPECT_TRUE(options.inputs.empty() && options.trace.empty());
}

TEST(Options, TakeEveryFlag) {
  const Options options =
      parsed({"--model", "m", "--format", "table", "--logits", "--timings", "--strict", "--truncate", "--threads", "3",
              "--batch", "8", "--max-length", "512", "--trace", "t.safetensors", "a.jsonl", "-", "b.jsonl"});
  EXPECT_EQ(options.model, "m");
  EXPECT_EQ(options.format, Format::table);
  EXPECT_TRUE(options.logits && options.timings && options.strict && options.truncate);
  EXPECT_EQ(options.num_threads, 3);
  EXPECT_EQ(options.batch, 8);
  EXPECT_EQ(options.max_length, 512);
  EXPECT_EQ(options.trace, "t.safetensors");
  EXPECT_EQ(options.inputs, (std::vector<std::string>{"a.jsonl", "-", "b.jsonl"}));
}

TEST(Options, TakeLimitsOfMedia) {
  const Options options = parsed({"-m", "m", "--max-images", "1", "--max-image-tokens", "2", "--max-image-pixels", "3",
                                  "--max-videos", "4", "--max-video-frames", "5", "--max-video-tokens", "6"});
  const MediaLimits& limits = options.media_limits;
  EXPECT_EQ((std::vector{limits.max_images, limits.max_image_tokens, limits.max_image_pixels, limits.max_videos,
                         limits.max_video_frames, limits.max_video_tokens}),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(parsed({"-m", "m"}).media_limits.max_images, 0);
}

TEST(Options, LetTheLastOfTruncateAndNoTruncateCount) {
  EXPECT_FALSE(parsed({"-m", "m", "--truncate", "--no-truncate"}).truncate);
  EXPECT_TRUE(parsed({"-m", "m", "--no-truncate", "--truncate"}).truncate);
}

TEST(Options, TakeWholeDecimalNumbersOnly) {
  for (const std::string text :
       {"", "0", "-1", "+4", " 4", "4 ", "4.0", "1e2", "0x10", "four", "257", "9223372036854775808"}) {
    EXPECT_EQ(refusal({"-m", "m", "--batch", text}),
              "--batch: expected a whole number from 1 to 256, got '" + text + "'");
  }
  EXPECT_EQ(parsed({"-m", "m", "--batch", "010"}).batch, 10);  // decimal, not octal
}

TEST(Options, KeepATokenTableUnlessToldNotTo) {
  EXPECT_TRUE(parsed({"-m", "m"}).token_table);
  EXPECT_FALSE(parsed({"-m", "m", "--no-token-table"}).token_table);
}

TEST(Options, RefuseWhatTheyDoNotKnow) {
  EXPECT_TRUE(parsed({}).model.empty());  // the demo model, which main looks for
  EXPECT_EQ(refusal({"-m", "m", "--f32-layers", "few"}),
            "--f32-layers: expected a whole number from 0 to 1024 or all, got 'few'");
  EXPECT_EQ(refusal({"-m", "m", "--f32-layers", "-1"}),
            "--f32-layers: expected a whole number from 0 to 1024 or all, got '-1'");
  EXPECT_EQ(refusal({"-m", "m", "--format", "yaml"}), "--format: expected auto, json or table, got 'yaml'");
  EXPECT_NE(refusal({"-m", "m", "--bogus"}).find("--bogus"), std::string::npos);
  EXPECT_NE(refusal({"-m"}).find("--model"), std::string::npos);
}

TEST(Options, TakeAQuestionAndWhatItIsAbout) {
  const Options options = parsed({"-m", "m", "--ask", "[a]", "--image", "a.png", "--ask", "-b: B?", "--image", "-.png",
                                  "--state", "--down", "--state-json", "--frames", "folder", "--fps", "23.976"});
  EXPECT_EQ(options.ask.questions, (std::vector<std::string>{"[a]", "-b: B?"}));
  EXPECT_EQ(options.ask.images, (std::vector<std::string>{"a.png", "-.png"}));
  EXPECT_EQ(options.ask.state, "--down");
  EXPECT_TRUE(options.ask.state_is_json);
  EXPECT_EQ(options.ask.frames, "folder");
  EXPECT_EQ(options.ask.fps, Json(23.976));
  EXPECT_EQ(parsed({"-m", "m", "--ask", "a", "--state", ""}).ask.state, "");
  EXPECT_EQ(parsed({"-m", "m", "--ask", "a", "--state-file", "-"}).ask.state_file, "-");
}

TEST(Options, RefuseHalfAQuestion) {
  for (const std::string option : {"--state", "--state-file", "--image", "--frames"}) {
    EXPECT_EQ(refusal({"-m", "m", option, "x"}), option + " needs --ask");
  }
  EXPECT_EQ(refusal({"-m", "m", "--fps", "24"}), "--fps needs --ask");
  EXPECT_EQ(refusal({"-m", "m", "--state-json"}), "--state-json needs --ask");
  EXPECT_EQ(refusal({"--print-request"}), "--print-request needs --ask");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a"}),
            "--ask needs what it is about: --state, --state-file, --image or --frames");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--state", "s", "--state-file", "f"}),
            "expected --state or --state-file, got both");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--image", "i", "--state-json"}),
            "--state-json needs --state or --state-file");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--frames", "d"}), "--frames needs --fps, the video's frames a second");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--state", "s", "--fps", "2"}), "--fps needs --frames");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--frames", "d", "--fps", "0"}),
            "--fps: expected a number above 0 and up to 1000, got '0'");
  EXPECT_EQ(refusal({"-m", "m", "--ask", "a", "--state", "s", "requests.jsonl"}),
            "--ask makes the request: expected no file of requests, got 'requests.jsonl'");
  EXPECT_NE(refusal({"-m", "m", "--ask", "a", "--state", "s", "--state", "t"}).find("--state"), std::string::npos);
}

TEST(Options, NeedNoModelToPrintARequest) {
  EXPECT_TRUE(parsed({"--ask", "a", "--state", "s", "--print-request"}).print_request);
}

TEST(Options, NeedNoModelForHelpAndVersion) {
  EXPECT_TRUE(parsed({"--help"}).help);
  EXPECT_TRUE(parsed({"-h"}).help);
  EXPECT_TRUE(parsed({"--version"}).version);
}

TEST(Options, AreAllInTheHelp) {
  const std::string_view help = help_text();
  const auto names = option_names();
  EXPECT_GE(names.size(), 13U);
  for (const std::string& name : names) {
    EXPECT_NE(help.find(" " + name), std::string_view::npos) << name;
  }
}

TEST(Options, HelpFitsATerminal) {
  std::size_t first = 0;
  const std::string_view help = help_text();
  while (first < help.size()) {
    const std::size_t end = help.find('\n', first);
    EXPECT_LE(end - first, 120U) << help.substr(first, end - first);
    first = end + 1;
  }
}

}  // namespace
}  // namespace clef::cli
