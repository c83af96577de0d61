// Whose pages may use the server, when a name service may say anything.
#include "server/origin.h"

#include <gtest/gtest.h>

#include "server_fixture.h"

namespace clef::server {
namespace {

TEST(Origin, HasSchemeHostAndPort) {
  for (const char* good : {"https://app.example", "http://127.0.0.1:3000", "http://[::1]:80", "app+x://host_1"}) {
    EXPECT_TRUE(is_origin(good)) << good;
  }
  for (const char* bad : {"", "*", "null", "app.example", "https://", "https://app.example/", "https://a.b/c", "://x",
                          "HTTPS://app.example", "https://a:port", "https://a:65536", "https://a b", "https://[::1"}) {
    EXPECT_FALSE(is_origin(bad)) << bad;
  }
}

TEST(Origin, TellsFixedHostsFromNamesThatMayPointAnywhere) {
  for (const char* fixed : {"127.0.0.1", "127.0.0.1:8080", "10.0.0.7", "[::1]:8080", "[fe80::1]", "localhost",
                            "LocalHost:8080", "app.localhost:1"}) {
    EXPECT_TRUE(is_fixed_host(fixed)) << fixed;
  }
  for (const char* named : {"", "evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example",
                            "notlocalhost", ".localhost", "[evil.example]", "127.0.0.1:x", "127.1"}) {
    EXPECT_FALSE(is_fixed_host(named)) << named;
  }
}

int status_of_page(const TestServer& server, const std::string& host, const std::string& more = "") {
  return server
      .ask("POST /v1/systemone HTTP/1.1\r\nHost: " + host + "\r\nOrigin: http://" + host + "\r\n" + more +
           "Content-Length: " + std::to_string(kAsk.size()) + "\r\n\r\n" + kAsk)
      .status;
}

// A page of evil.example, whose name was pointed at this machine after it was loaded, is of the server's own origin.
TEST(Origin, KeepsRebornNamesOutOfAServerWithoutKeys) {
  TestServer server;
  EXPECT_EQ(status_of_page(server, "evil.example:8080"), 403);
  EXPECT_EQ(status_of_page(server, "127.0.0.1:8080"), 200);
  EXPECT_EQ(status_of_page(server, "localhost:8080"), 200);
  EXPECT_EQ(status_of_page(server, "[::1]:8080"), 200);
}

TEST(Origin, LetsAnyOwnNameInWithAKeyOrWhenItIsListed) {
  FixtureOptions keyed = fixture_options();
  keyed.keys = "a secret-key\n";
  TestServer with_keys(keyed);
  EXPECT_EQ(status_of_page(with_keys, "clef.example", "Authorization: Bearer secret-key\r\n"), 200);
  EXPECT_EQ(status_of_page(with_keys, "clef.example"), 401);
  FixtureOptions options = fixture_options();
  options.service.cors_origins = {"http://clef.example"};
  TestServer listed(options);
  EXPECT_EQ(status_of_page(listed, "clef.example"), 200);
}

}  // namespace
}  // namespace clef::server
