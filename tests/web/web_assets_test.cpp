// The page over HTTP: from the binary, compressed, cached, and with the fields that keep it to itself.
#include "server/web_assets.h"

#include <gtest/gtest.h>

#include <set>

#include "../server/server_fixture.h"
#include "server/inflate.h"
#include "support/golden.h"

namespace clef::server {
namespace {

using test::HttpAnswer;

const std::string kGzip = "Accept-Encoding: gzip, deflate, br";

TEST(WebAssets, AreTheFilesOfTheTree) {
  for (const WebAsset& asset : web_assets()) {
    if (asset.path == "/") continue;  // it differs from its file: it names the others with their digest
    const std::string name(asset.path.substr(asset.path.rfind('/') + 1));
    const std::string_view bytes(reinterpret_cast<const char*>(asset.gzip.data()), asset.gzip.size());
    EXPECT_EQ(gunzip(bytes, 1 << 20).value(), test::read_file(CLEF_WEB_DIR "/assets/" + name)) << name;
  }
}

TEST(WebAssets, AreNamedByThePage) {
  TestServer server;
  const std::string page = server.get("/").body;
  std::set<std::string> folders;
  for (const WebAsset& asset : web_assets()) {
    if (asset.path != "/") folders.insert(std::string(asset.path.substr(0, asset.path.rfind('/') + 1)));
  }
  ASSERT_EQ(folders.size(), 1U);
  for (const char* name : {"app.js", "style.css", "icon.svg"}) {
    const std::string path = *folders.begin() + name;
    EXPECT_NE(page.find("\"" + path.substr(1) + "\""), std::string::npos) << path;
    EXPECT_EQ(server.get(path).status, 200) << path;
  }
}

TEST(WebAssets, AreCompressedForThoseWhoTakeIt) {
  TestServer server;
  const HttpAnswer plain = server.get("/"), compressed = server.get("/", {kGzip});
  EXPECT_EQ(plain.field("content-encoding"), "");
  EXPECT_EQ(compressed.field("content-encoding"), "gzip");
  EXPECT_EQ(gunzip(compressed.body, 1 << 20).value(), plain.body);
  EXPECT_NE(plain.field("etag"), compressed.field("etag"));
  for (const HttpAnswer& answer : {plain, compressed}) {
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("vary"), "Accept-Encoding");
    EXPECT_EQ(answer.field("content-type"), "text/html; charset=utf-8");
  }
  for (const char* refusal : {"Accept-Encoding: br", "Accept-Encoding: gzip;q=0", "Accept-Encoding: identity"}) {
    EXPECT_EQ(server.get("/", {refusal}).field("content-encoding"), "") << refusal;
  }
}

TEST(WebAssets, AreCachedByTheirDigest) {
  TestServer server;
  const HttpAnswer page = server.get("/", {kGzip});
  EXPECT_EQ(page.field("cache-control"), "no-cache");
  for (const std::string& tag : {page.field("etag"), "\"x\", W/" + page.field("etag"), std::string("*")}) {
    const HttpAnswer again = server.get("/", {kGzip, "If-None-Match: " + tag});
    EXPECT_EQ(again.status, 304) << tag;
    EXPECT_EQ(again.body, "");
    EXPECT_EQ(again.field("content-length"), "");
    EXPECT_EQ(again.field("etag"), page.field("etag"));
    EXPECT_NE(again.field("content-security-policy"), "");
  }
  EXPECT_EQ(server.get("/", {kGzip, "If-None-Match: \"x\""}).status, 200);
  for (const WebAsset& asset : web_assets()) {
    if (asset.path == "/") continue;
    EXPECT_EQ(server.get(asset.path).field("cache-control"), "public, max-age=31536000, immutable") << asset.path;
    EXPECT_EQ(server.get(asset.path).field("x-content-type-options"), "nosniff") << asset.path;
  }
  EXPECT_EQ(server.get("/assets/0123456789abcdef/app.js").status, 404);
}

TEST(WebAssets, KeepAConnectionOpenAfterWhatHasNoBody) {
  TestServer server;
  auto client = server.connect();
  const std::string tag = server.get("/").field("etag");
  EXPECT_TRUE(client.send(test::http_request("GET", "/", {}, {"If-None-Match: " + tag})));
  EXPECT_EQ(client.read_head_only()->status, 304);
  EXPECT_TRUE(client.send(test::http_request("HEAD", "/")));
  EXPECT_EQ(client.read_head_only()->status, 200);
  EXPECT_EQ(client.ask(test::http_request("GET", "/health")).status, 200);
}

TEST(WebAssets, LetThePageReachItsServerAlone) {
  TestServer server;
  const std::string policy = server.get("/").field("content-security-policy");
  for (const char* directive : {"default-src 'none';", "script-src 'self';", "connect-src 'self';",
                                "frame-ancestors 'none';", "require-trusted-types-for 'script'"}) {
    EXPECT_NE(policy.find(directive), std::string::npos) << directive;
  }
  EXPECT_EQ(policy.find("unsafe"), std::string::npos);
  EXPECT_EQ(server.get("/?x=1").field("content-security-policy"), policy);
}

TEST(WebAssets, LetThePageReachOneEngineElsewhere) {
  TestServer server;
  const auto policy = [&](const std::string& engine) {
    return server.get("/?engine=" + engine).field("content-security-policy");
  };
  EXPECT_NE(policy("https%3A%2F%2Fgpu-1.example%3A8080").find("connect-src 'self' https://gpu-1.example:8080;"),
            std::string::npos);
  EXPECT_NE(policy("http://my_box:8080").find("connect-src 'self' http://my_box:8080;"), std::string::npos);
  for (const std::string& bad :
       {std::string("https:"), std::string("https://"), std::string("*"), std::string("https://*"),
        std::string("http://[::1]:8080"), std::string("https://a/b"), std::string("https://a;b"),
        std::string("https://a%20*"), std::string("https://a%0d%0ab"), std::string("javascript:x"),
        "https://" + std::string(300, 'a')}) {
    EXPECT_EQ(policy(bad), web_policy("")) << bad;
  }
}

TEST(WebAssets, AreReadAndNothingElse) {
  TestServer server;
  const HttpAnswer answer = server.post("/", "x");
  EXPECT_EQ(answer.status, 405);
  EXPECT_EQ(answer.field("allow"), "GET, HEAD, OPTIONS");
}

TEST(WebAssets, NeedNoKey) {
  FixtureOptions options = fixture_options();
  options.keys = "a secret-key-a\n";
  TestServer server(options);
  EXPECT_EQ(server.get("/").status, 200);
  EXPECT_EQ(server.get("/v1/models").status, 401);
}

TEST(WebAssets, AreNotThereWhenTurnedOff) {
  FixtureOptions options = fixture_options();
  options.service.serves_web = false;
  TestServer server(options);
  for (const WebAsset& asset : web_assets()) EXPECT_EQ(server.get(asset.path).status, 404) << asset.path;
}

}  // namespace
}  // namespace clef::server
