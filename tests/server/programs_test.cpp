// The programs as they are built: clef-server answers with the bytes of clef, and ends as a service manager expects.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "server_program.h"
#include "support/golden.h"
#include "support/media_requests.h"
#include "support/pictures.h"
#include "support/scratch.h"

namespace clef::server {
namespace {

using test::golden_lines;
using test::http_request;
using test::HttpClient;

std::string model() { return test::test_data_path("clef-tiny").string(); }

// The request as a client sends it, media and all.
std::string request_of(const Json& golden) {
  const auto videos = test::videos_of(golden);
  const Json* images = golden.find("images");
  if (videos.empty() && (images == nullptr || !images->is_truthy())) return *golden.find("request_text")->if_string();
  return to_compact_json(test::media_request(golden, videos));
}

// A line each, as clef takes them; line ends in a golden request are white space of its JSON.
std::vector<std::string> golden_requests() {
  std::vector<std::string> requests;
  for (const char* file : {"text.jsonl", "vision.jsonl", "video.jsonl"}) {
    for (const Json& golden : golden_lines(file)) {
      requests.push_back(request_of(golden));
      std::replace(requests.back().begin(), requests.back().end(), '\n', ' ');
    }
  }
  return requests;
}

std::vector<std::string> answers_of_clef(const std::vector<std::string>& requests, const test::ScratchFolder& folder) {
  std::string lines;
  for (const std::string& request : requests) lines += request + "\n";
  const auto input = folder.write("requests.jsonl", lines), output = folder.path() / "answers.jsonl";
  const std::string command = std::string(CLEF_PROGRAM) + " -m " + model() + " --device cpu --format json " +
                              input.string() + " >" + output.string();
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  std::vector<std::string> answers;
  std::ifstream file(output);
  for (std::string line; std::getline(file, line);) answers.push_back(line);
  return answers;
}

TEST(Programs, AnswerGoldenTextImagesAndVideosWithTheSameBytes) {
  const test::ScratchFolder folder;
  const auto requests = golden_requests();
  const auto expected = answers_of_clef(requests, folder);
  ASSERT_EQ(requests.size(), 34U + 5U + 4U);  // text, images, videos
  ASSERT_EQ(expected.size(), requests.size());
  // clef's settings: no limits on media, and text that may spell control tokens.
  ServerProgram server({"-m",
                        model(),
                        "--device",
                        "cpu",
                        "--no-strict",
                        "--any-model",
                        "--max-body",
                        "67108864",
                        "--max-images",
                        "0",
                        "--max-image-tokens",
                        "0",
                        "--max-image-pixels",
                        "0",
                        "--max-videos",
                        "0",
                        "--max-video-frames",
                        "0",
                        "--max-video-tokens",
                        "0"});
  HttpClient client = server.connect();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto answer = client.ask(http_request("POST", "/v1/systemone", requests[i]));
    EXPECT_EQ(answer.status, 200) << requests[i].substr(0, 200);
    EXPECT_EQ(answer.body, expected[i]) << requests[i].substr(0, 200);
  }
}

// The limits of the flags' defaults, over HTTP: each names the picture, and none takes what the picture claims.
TEST(Programs, RefusePicturesOverTheLimitsByTheirPlace) {
  ServerProgram server({"-m", model(), "--device", "cpu"});
  HttpClient client = server.connect();
  const auto ask = [&](const std::string& images) {
    return client.ask(
        http_request("POST", "/v1/systemone",
                     R"({"model":"clef-tiny","state":"s","questions":{"a":{"type":"noul"}},"images":)" + images + "}"));
  };
  const std::string good = "\"" + test::golden_data_url("tiny_1x1.png") + "\"";
  const auto png = [](std::uint32_t width, std::uint32_t height) {
    return "\"data:image/png;base64," +
           test::to_base64(
               test::png_of({.width = width, .height = height}, test::png_chunk("IDAT", test::zlib_compressed("")))) +
           "\"";
  };
  EXPECT_EQ(ask("[" + good + "]").status, 200);
  const struct {
    const char* what;
    std::string images, place, message;
  } cases[] = {
      {"five", "[" + good + "," + good + "," + good + "," + good + "," + good + "]", R"(["body","images"])",
       "at most 4"},
      {"too many pixels", "[" + good + "," + png(4097, 4097) + "]", R"(["body","images",1])", "16777216"},
      {"too wide", "[" + png(20000, 1) + "]", R"(["body","images",0])", "20000"},
      {"a bomb", "[" + png(4294967295U, 4294967295U) + "]", R"(["body","images",0])", ""},
      {"too many tokens", "[" + png(4000, 4000) + "]", R"(["body","images",0])", "1024"},
      {"cut short", "[" + png(64, 64) + "]", R"(["body","images",0])", ""},
      {"an address", R"(["https://example.org/a.png"])", R"(["body","images",0])", ""},
      {"a path", R"(["/etc/passwd"])", R"(["body","images",0])", ""},
      {"another type", R"(["data:image/svg+xml;base64,PHN2Zy8+"])", R"(["body","images",0])", ""},
      {"no list", R"("data:image/png;base64,")", R"(["body","images"])", ""},
  };
  for (const auto& one : cases) {
    const auto answer = ask(one.images);
    EXPECT_EQ(answer.status, 422) << one.what;
    EXPECT_NE(answer.body.find("\"loc\":" + one.place), std::string::npos) << one.what << ": " << answer.body;
    EXPECT_NE(answer.body.find(one.message), std::string::npos) << one.what << ": " << answer.body;
  }
  EXPECT_EQ(ask("[" + good + "]").status, 200);
}

TEST(Programs, EndWithZeroOnSigterm) {
  ServerProgram server({"-m", model(), "--device", "cpu"});
  HttpClient client = server.connect();
  EXPECT_EQ(client.ask(http_request("GET", "/ready")).status, 200);
  server.signal(SIGTERM);
  EXPECT_TRUE(client.is_closed_by_server());
  EXPECT_EQ(server.wait(), 0) << server.log();
}

// A manager that changes its mind does not wait until all of a large model is read.
TEST(Programs, EndWhileTheModelIsStillLoading) {
  ServerProgram server({"-m", model(), "--device", "cpu"}, "listening on");
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.log();
}

// Nor until a pass ends whose answer nobody will read.
TEST(Programs, EndWithOneWhenTheyCutARequestOff) {
  ServerProgram server({"-m", model(), "--device", "cpu", "--drain-timeout", "0"});
  HttpClient busy = server.connect(), watcher = server.connect();
  std::string state;
  for (int i = 0; i < 2000; ++i) state += "word ";
  busy.send(http_request("POST", "/v1/systemone",
                         R"({"model":"clef-tiny","state":")" + state + R"(","questions":{"a":{"type":"noul"}}})"));
  const std::string running = "\nclef_running_requests 1";
  while (watcher.ask(http_request("GET", "/metrics")).body.find(running) == std::string::npos) {
  }
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 1);
  EXPECT_NE(server.log().find("1 requests were cut off"), std::string::npos) << server.log();
}

TEST(Programs, EndWithOneWhenTheModelCannotBeOpened) {
  ServerProgram server({"-m", "/nowhere/at/all"}, "listening on");
  EXPECT_EQ(server.wait(), 1);
  EXPECT_NE(server.log().find("/nowhere/at/all"), std::string::npos) << server.log();
}

}  // namespace
}  // namespace clef::server
