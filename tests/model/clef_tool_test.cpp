// The program itself: exit codes, and what goes to stdout and stderr.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "minimal_model.h"
#include "support/golden.h"

namespace clef {
namespace {

struct Outcome {
  int code;
  std::string output;  // stdout and stderr together
};

Outcome run(const std::string& arguments) {
  std::FILE* pipe = ::popen((std::string(CLEF_TOOL) + " " + arguments + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("popen failed");
  std::string output;
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, count);
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(ClefTool, UsageErrorsExitWith2AndHelpWith0) {
  for (const char* arguments :
       {"", "nonsense", "convert onlyone", "encode", "synth a b --layers 0", "inspect a --wrong"}) {
    EXPECT_EQ(run(arguments).code, 2) << arguments;
  }
  for (const char* command : {"convert", "verify", "inspect", "tokenize", "encode", "synth"}) {
    const Outcome help = run(std::string(command) + " --help");
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_TRUE(contains(help.output, std::string("  clef-tool ") + command) ||
                contains(help.output, std::string("clef-tool ") + command + " -m"))
        << command << " shows no example";
  }
}

TEST(ClefTool, FailuresExitWith1AndNameThePlace) {
  for (const char* command : {"convert /nowhere /tmp/x.gguf", "verify /nowhere /nowhere.gguf", "inspect /nowhere",
                              "tokenize -m /nowhere", "encode -m /nowhere", "synth /nowhere /nowhere"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << command;
    EXPECT_EQ(outcome.output.rfind("clef-tool: /nowhere", 0), 0U) << outcome.output;
  }
}

TEST(ClefTool, ConvertsAndVerifiesWithoutAProgressBarWhenNobodyWatches) {
  const test::ScratchFolder scratch;
  const std::string folder = test::write_minimal_snapshot(scratch).string();
  const std::string gguf = (scratch.path() / "m.gguf").string();
  const Outcome converted = run("convert " + folder + " " + gguf);
  EXPECT_EQ(converted.code, 0);
  EXPECT_FALSE(contains(converted.output, "\r"));
  const Outcome verified = run("verify " + folder + " " + gguf);
  EXPECT_EQ(verified.code, 0);
  // 10 of the DeltaNet layer, 8 of the attention layer, 3 of the backbone beside them, 14 + 18 + 22 of the head.
  EXPECT_EQ(verified.output, "75/75 tensors exact (0.00 GB compared)\n");
  EXPECT_EQ(run("verify " + test::test_data_path("clef-tiny").string() + " " + gguf).code, 1);
}

TEST(ClefTool, AnswersLineByLine) {
  const test::ScratchFolder scratch;
  const std::string model = test::golden_path("clef-tiny").string();
  const std::string strings = scratch.write("strings", "\"Checkout is down\"\r\n\n\"\"\n").string();
  EXPECT_EQ(run("tokenize -m " + model + " " + strings).output, "[2777,628,336,3539]\n[]\n");
  EXPECT_EQ(run("tokenize -m " + model + " --pattern").output, "qwen2\n");
  const std::string control = scratch.write("control", "<|im_end|>").string();
  EXPECT_EQ(run("tokenize --raw -m " + model + " " + control).output, "[4002]\n");
  EXPECT_FALSE(contains(run("tokenize --raw --strict -m " + model + " " + control).output, "4002"));
  const Outcome number = run("tokenize -m " + model + " " + scratch.write("number", "1\n").string());
  EXPECT_EQ(number.code, 1);
  EXPECT_TRUE(contains(number.output, "expected a JSON string on every line, got integer"));
  const Outcome encoded = run("encode -m " + model + " " + scratch.write("requests", "{}\n[\n").string());
  EXPECT_EQ(encoded.code, 0);
  EXPECT_TRUE(contains(encoded.output, "{\"error\":\"model and state are required\"}\n{\"error\":\"json: "))
      << encoded.output;
}

TEST(ClefTool, SynthCutsLayersAndTower) {
  const test::ScratchFolder scratch;
  const std::string out = (scratch.path() / "cut").string();
  ASSERT_EQ(run("synth " + test::golden_path("clef-tiny").string() + " " + out + " --layers 10 --no-vision").code, 0);
  const Outcome shown = run("inspect --json " + out);
  EXPECT_TRUE(contains(shown.output, "\"text.layers\":10,\"text.full_attention_layers\":2")) << shown.output;
  EXPECT_TRUE(contains(shown.output, "\"problem\":null")) << shown.output;
  EXPECT_FALSE(contains(shown.output, "vision."));
}

TEST(ClefTool, SynthRefusesATokenizerThatIsTooLarge) {
  const test::ScratchFolder scratch;
  test::write_minimal_snapshot(scratch);
  const Outcome outcome = run("synth " + scratch.path().string() + " " + (scratch.path() / "out").string() +
                              " --tokenizer " + test::golden_path("clef-tiny").string());
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(contains(outcome.output, "ids up to 4028, but config.json's vocab_size is 260")) << outcome.output;
}

}  // namespace
}  // namespace clef
