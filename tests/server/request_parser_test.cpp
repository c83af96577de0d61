#include "server/request_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace clef::server {
namespace {

using Stage = RequestParser::Stage;

struct Parsed {
  Stage stage = Stage::head;
  RequestHead head;
  std::string body;
  std::string rest;  // not consumed
  RequestParser::Failure failure;
};

// Gives the bytes in pieces of `step`, as a socket would.
Parsed parse(std::string_view bytes, std::size_t step, ParserLimits limits = {}) {
  RequestParser parser(limits);
  Parsed parsed;
  std::string input;
  while (true) {
    const std::size_t taken = parser.feed(input);
    input.erase(0, taken);
    if (parser.stage() == Stage::body || parser.stage() == Stage::complete) parsed.body += parser.take_body();
    if (parser.stage() == Stage::complete || parser.stage() == Stage::failed) break;
    if (taken > 0) continue;
    if (bytes.empty()) break;
    input += bytes.substr(0, step);
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  parsed.stage = parser.stage();
  if (parsed.stage == Stage::failed) parsed.failure = parser.failure();
  if (parsed.stage == Stage::complete || parsed.stage == Stage::body) parsed.head = parser.head();
  parsed.rest = input + std::string(bytes);
  return parsed;
}

TEST(RequestParser, ReadsAHeadAndABodyOfKnownLength) {
  const Parsed parsed =
      parse("POST /v1/systemone?a=b HTTP/1.1\r\nHost: h\r\nX-Thing:  v \r\nContent-Length: 5\r\n\r\nhelloGET", 1000);
  ASSERT_EQ(parsed.stage, Stage::complete);
  EXPECT_EQ(parsed.head.method, "POST");
  EXPECT_EQ(parsed.head.path, "/v1/systemone");
  EXPECT_EQ(parsed.head.query, "a=b");
  EXPECT_EQ(*parsed.head.field("x-thing"), "v");
  EXPECT_EQ(parsed.body, "hello");
  EXPECT_EQ(parsed.rest, "GET");
  EXPECT_TRUE(parsed.head.keeps_alive);
}

TEST(RequestParser, ReadsTheSameWhateverThePiecesAre) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\nTrailer: no\r\n\r\nNEXT";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.stage, Stage::complete) << step << ": " << parsed.failure.message;
    EXPECT_EQ(parsed.body, "wikipedia") << step;
    EXPECT_EQ(parsed.rest, "NEXT") << step;
    EXPECT_EQ(parsed.head.field("trailer"), nullptr) << step;
  }
}

TEST(RequestParser, KnowsWhoKeepsTheConnection) {
  const auto keeps = [](const std::string& version, const std::string& field) {
    return parse("GET / HTTP/" + version + "\r\nHost: h\r\n" + field + "\r\n", 100).head.keeps_alive;
  };
  EXPECT_TRUE(keeps("1.1", ""));
  EXPECT_FALSE(keeps("1.1", "Connection: close\r\n"));
  EXPECT_FALSE(keeps("1.1", "Connection: foo, Close\r\n"));
  EXPECT_FALSE(keeps("1.0", ""));
  EXPECT_TRUE(keeps("1.0", "Connection: keep-alive\r\n"));
}

TEST(RequestParser, TakesTargetsAsProxiesSendThem) {
  EXPECT_EQ(parse("GET http://h:80/a?b HTTP/1.1\r\nHost: h\r\n\r\n", 100).head.path, "/a");
  EXPECT_EQ(parse("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", 100).head.path, "/");
  EXPECT_EQ(parse("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 100).head.path, "*");
}

TEST(RequestParser, SkipsLineEndsBeforeARequest) {
  EXPECT_EQ(parse("\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1).stage, Stage::complete);
  EXPECT_EQ(parse("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1).stage, Stage::failed);
}

struct Bad {
  const char* name;
  std::string bytes;
  int status;
};

// Requests that one reader ends here and another there, and others that no reader should take.
std::vector<Bad> smuggled() {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  return {
      {"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"the same length twice", post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400},
      {"a list of lengths", post + "Content-Length: 1, 1\r\n\r\na", 400},
      {"length and chunked", post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"chunked and length", post + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n", 400},
      {"chunked twice", post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"another coding", post + "Transfer-Encoding: gzip\r\n\r\n", 501},
      {"another coding before chunked", post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {"chunked listed twice", post + "Transfer-Encoding: chunked, chunked\r\n\r\n", 501},
      {"a coding with white space inside", post + "Transfer-Encoding: chu nked\r\n\r\n", 501},
      {"a coding in quotes", post + "Transfer-Encoding: \"chunked\"\r\n\r\n", 501},
      {"space before the colon", post + "Transfer-Encoding : chunked\r\n\r\n", 400},
      {"tab before the colon", post + "Content-Length\t: 1\r\n\r\na", 400},
      {"a coding after a vertical tab",
       post + "Transfer-Encoding: \x0b"
              "chunked\r\n\r\n",
       400},
      {"another coding beside chunked", post + "Transfer-Encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n",
       400},
      {"an empty coding", post + "Transfer-Encoding:\r\n\r\n", 501},
      {"a parameter of chunked", post + "Transfer-Encoding: chunked;q=1\r\n\r\n", 501},
      {"lengths that differ in case", post + "Content-Length: 1\r\ncontent-length: 1\r\n\r\na", 400},
      {"an underscore for the dash, beside a length", post + "Content_Length: 5\r\nContent-Length: 1, 5\r\n\r\na", 400},
      {"a space inside a field's name", post + "Content Length: 1\r\n\r\na", 400},
      {"NUL in a field's name", post + std::string("X\0Y: 1\r\n\r\n", 10), 400},
      {"a letter of another script in a field's name", post + "Content-Lengt\xd2\xbb: 1\r\n\r\na", 400},
      {"a folded field", post + "Transfer-Encoding:\r\n chunked\r\n\r\n", 400},
      {"a space before the first field", "POST / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {"a sign before a length", post + "Content-Length: +1\r\n\r\na", 400},
      {"a negative length", post + "Content-Length: -1\r\n\r\n", 400},
      {"a hexadecimal length", post + "Content-Length: 0x1\r\n\r\na", 400},
      {"an empty length", post + "Content-Length:\r\n\r\n", 400},
      {"a length past 64 bits", post + "Content-Length: 18446744073709551617\r\n\r\n", 400},
      {"a length with more after it", post + "Content-Length: 1 2\r\n\r\na", 400},
      {"bare LF after the request line", "POST / HTTP/1.1\nHost: h\r\n\r\n", 400},
      {"bare LF after a field", "POST / HTTP/1.1\r\nHost: h\nX: y\r\n\r\n", 400},
      {"bare LF at the end", "POST / HTTP/1.1\r\nHost: h\r\n\n", 400},
      {"bare CR in a field", "POST / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", 400},
      {"NUL in a field", std::string("POST / HTTP/1.1\r\nHost: h\r\nX: a") + '\0' + "b\r\n\r\n", 400},
      {"a control in the target", "GET /\x01 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"chunked in HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"a version of another world", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", 400},
      {"HTTP/0.9", "GET /\r\n\r\n", 400},
      {"no field name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", 400},
      {"no colon", "GET / HTTP/1.1\r\nHost: h\r\nnonsense\r\n\r\n", 400},
      {"a tab in the request line", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a space after the version", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400},
      {"a version in lower case", "GET / http/1.1\r\nHost: h\r\n\r\n", 400},
      {"a version with more digits", "GET / HTTP/1.11\r\nHost: h\r\n\r\n", 400},
      {"a method with a colon", "G:T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"no method", " / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
      {"two spaces in the request line", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a target without a slash", "GET v1 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a fragment", "GET /#a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a chunk size that is no number", chunked + "zz\r\nab\r\n", 400},
      {"a negative chunk size", chunked + "-1\r\nab\r\n", 400},
      {"a chunk size with a prefix", chunked + "0x1\r\na\r\n0\r\n\r\n", 400},
      {"an empty chunk size", chunked + "\r\na\r\n", 400},
      {"a chunk size past 64 bits", chunked + "10000000000000000\r\n", 400},
      {"bare LF after a chunk size", chunked + "1\na\r\n0\r\n\r\n", 400},
      {"bare LF in a chunk extension", chunked + "1;a\nb\r\na\r\n0\r\n\r\n", 400},
      {"a chunk longer than its size", chunked + "1\r\nab\r\n0\r\n\r\n", 400},
      {"bare LF after a chunk", chunked + "1\r\na\n0\r\n\r\n", 400},
      {"a chunk size of spaces", chunked + "  \r\na\r\n0\r\n\r\n", 400},
      {"a sign before a chunk size", chunked + "+1\r\na\r\n0\r\n\r\n", 400},
      {"no line end after the last chunk's size", chunked + "0GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a trailer without a colon", chunked + "0\r\nnonsense\r\n\r\n", 400},
      {"bare LF after a trailer", chunked + "0\r\nX: a\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"a space after a chunk size", chunked + "1 \r\na\r\n0\r\n\r\n", 400},
      {"TLS", "\x16\x03\x01\x02", 400},
  };
}

TEST(RequestParser, RefusesWhatTwoReadersCouldTakeApart) {
  for (const Bad& bad : smuggled()) {
    for (const std::size_t step : {std::size_t{1}, bad.bytes.size()}) {
      // "TLS" has no line end: the rest of a line that never comes, which the limit ends.
      const std::string bytes = std::string(bad.name) == "TLS" ? bad.bytes + std::string(20000, 'x') : bad.bytes;
      const Parsed parsed = parse(bytes, step);
      EXPECT_EQ(parsed.stage, Stage::failed) << bad.name << ", in steps of " << step;
      EXPECT_EQ(parsed.failure.status, bad.status) << bad.name << ": " << parsed.failure.message;
    }
  }
}

TEST(RequestParser, BoundsTheHead) {
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
  const ParserLimits limits{.max_head_bytes = 100, .max_fields = 5};
  const auto status = [&](std::size_t padding) {
    return parse(start + std::string(padding, 'a') + "\r\n\r\n", 7, limits).failure.status;
  };
  const std::size_t fits = 100 - start.size() - 4;
  EXPECT_EQ(parse(start + std::string(fits, 'a') + "\r\n\r\n", 7, limits).stage, Stage::complete);
  EXPECT_EQ(status(fits + 1), 431);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 5; ++i) many += "a: b\r\n";
  EXPECT_EQ(parse(many + "\r\n", 1000, limits).failure.status, 431);
}

TEST(RequestParser, BoundsChunkFramingAndTrailers) {
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(parse(chunked + "1;" + std::string(20000, 'a'), 1000).stage, Stage::failed);
  EXPECT_EQ(parse(chunked + "0\r\nX: " + std::string(20000, 'a'), 1000).stage, Stage::failed);
}

}  // namespace
}  // namespace clef::server
