#include "clef-server/options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/golden.h"
#include "support/scratch.h"

namespace clef::server_app {
namespace {

std::string refusal(std::vector<std::string> arguments) {
  const auto options = parse_options(arguments);
  return options ? "" : options.error().message;
}

Options parsed(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-m", "models/clef-flash"});
  auto options = parse_options(arguments);
  if (!options) throw std::runtime_error(options.error().message);
  return std::move(options).value();
}

TEST(ServerOptions, NameTheModelAfterItsFile) {
  EXPECT_EQ(parsed({}).service.model_name, "clef-flash");
  EXPECT_EQ(parse_options({"-m", "a/clef.gguf"})->service.model_name, "clef");
  EXPECT_EQ(parse_options({"-m", "a/clef-27b/"})->service.model_name, "clef-27b");
  EXPECT_EQ(parsed({"--name", "x"}).service.model_name, "x");
  EXPECT_EQ(parse_options({"-m", "Cloudflare/clef-flash"})->service.model_name, "clef-flash");
  EXPECT_EQ(parse_options({"-m", "Cloudflare/clef@0123abc"})->service.model_name, "clef");
  const std::string snapshot = "/hub/models--Cloudflare--clef-flash/snapshots/" + std::string(40, 'a');
  EXPECT_EQ(parse_options({"-m", snapshot})->service.model_name, "clef-flash");
  EXPECT_EQ(parse_options({"-m", snapshot + "/"})->service.model_name, "clef-flash");
}

TEST(ServerOptions, ReadEveryKindOfFlag) {
  const Options options =
      parsed({"--port",  "0",      "--max-body",   "100", "--request-timeout", "7",          "--confidence", "purity",
              "--alias", "a",      "--alias",      "b",   "--no-strict",       "--truncate", "--access-log", "off",
              "--unix",  "s.sock", "--max-images", "9"});
  EXPECT_EQ(options.server.port, 0);
  EXPECT_EQ(options.service.max_body_bytes, 100U);
  EXPECT_EQ(options.service.request_timeout, std::chrono::seconds(7));
  EXPECT_EQ(options.service.confidence, server::Confidence::purity);
  EXPECT_EQ(options.service.aliases, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(options.encode.strict);
  EXPECT_TRUE(options.encode.truncate);
  EXPECT_EQ(options.access_log, "");
  EXPECT_EQ(options.server.unix_socket, "s.sock");
  EXPECT_EQ(options.encode.media_limits.max_images, 9);
}

TEST(ServerOptions, BeginStrictAndOnThisMachine) {
  const Options options = parsed({});
  EXPECT_TRUE(options.encode.strict);
  EXPECT_FALSE(options.encode.truncate);
  EXPECT_EQ(options.server.host, "127.0.0.1");
  EXPECT_EQ(options.service.aliases, std::vector<std::string>{"jev-latest"});
}

TEST(ServerOptions, KeepATokenTableUnlessToldNotTo) {
  EXPECT_TRUE(parsed({}).token_table);
  EXPECT_FALSE(parsed({"--no-token-table"}).token_table);
}

TEST(ServerOptions, RefuseWhatIsNoNumber) {
  for (const char* value : {"", "8080x", "-1", "65536", "0x10", "1e3", "+1"}) {
    EXPECT_EQ(refusal({"-m", "x", "--port", value}).rfind("--port: expected a whole number from 0 to 65535", 0), 0U)
        << value;
  }
  EXPECT_NE(
      refusal({"-m", "m", "--f32-layers", "few"}).find("expected a whole number from 0 to 1024 or all, got 'few'"),
      std::string::npos);
  EXPECT_NE(refusal({"-m", "x", "--prot", "1"}), "");
  EXPECT_NE(refusal({"-m", "x", "--confidence", "sure"}).find("expected max, typesafe"), std::string::npos);
}

TEST(ServerOptions, DoNotOpenThisMachineToOthersUnasked) {
  EXPECT_NE(refusal({"-m", "x", "--host", "0.0.0.0"}).find("--keys FILE"), std::string::npos);
  EXPECT_NE(refusal({"-m", "x", "--host", "::"}), "");
  EXPECT_EQ(refusal({"-m", "x", "--host", "0.0.0.0", "--insecure"}), "");
  EXPECT_EQ(refusal({"-m", "x", "--host", "0.0.0.0", "--keys", "k"}), "");
  EXPECT_EQ(refusal({"-m", "x", "--host", "::1"}), "");
  EXPECT_EQ(refusal({"-m", "x", "--unix", "s"}), "");
}

TEST(ServerOptions, RefuseOriginsThatNoBrowserSends) {
  for (const char* origin : {"app.example", "https://app.example/", "", "https://*.example"}) {
    EXPECT_NE(refusal({"-m", "x", "--cors-origin", origin}).find("--cors-origin: expected * or an origin"),
              std::string::npos)
        << origin;
  }
  EXPECT_EQ(refusal({"-m", "x", "--cors-origin", "*", "--cors-origin", "https://app.example:8443"}), "");
}

TEST(ServerOptions, ReadAFileThatSaysTheSame) {
  const test::ScratchFolder folder;
  const auto file = folder.write("clef.conf",
                                 "# as flags\nmodel = \"models/clef-flash\"\nport = 9000\nno-strict = true\n"
                                 "alias = [\"a\", \"b\"]\nmax-body = 4096\n");
  const auto options = parse_options({"--config", file.string(), "--max-body", "5"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->server.port, 9000);
  EXPECT_FALSE(options->encode.strict);
  EXPECT_EQ(options->service.aliases, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options->service.max_body_bytes, 5U);  // the command line has the last word
  EXPECT_NE(refusal({"--config", folder.write("bad.conf", "model = x\nprot = 1\n").string()}), "");
  EXPECT_NE(refusal({"--config", folder.write("worse.conf", "model = x\nport = many\n").string()}), "");
  EXPECT_NE(refusal({"-m", "x", "--config", (folder.path() / "missing").string()}), "");
}

TEST(ServerOptions, AreAllInTheHelpAndTheDocument) {
  const std::string help = help_text(), document = test::read_file(CLEF_DOCS_DIR "/server.md");
  for (const FlagText& flag : flag_texts()) {
    const std::string left = flag.value.empty() ? flag.name : flag.name + " " + flag.value;
    EXPECT_NE(help.find("  " + left + " "), std::string::npos) << left;
    const std::string row =
        "| `" + left + "` | " + (flag.default_text.empty() ? "" : flag.default_text + " ") + "| " + flag.help + " |";
    EXPECT_NE(document.find(row), std::string::npos) << row;
  }
}

}  // namespace
}  // namespace clef::server_app
