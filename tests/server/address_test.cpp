// Where the server listens: names of Unix sockets, who may be in the way there, and clients of both families.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "server_fixture.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace clef::server {
namespace {

using test::http_request;
using test::HttpClient;

FixtureOptions options_at(const std::filesystem::path& socket) {
  FixtureOptions options = fixture_options();
  options.server.unix_socket = socket;
  return options;
}

// A socket's name as a server leaves it behind that was killed, or, while `listens`, one that does not accept.
int leave_socket(const std::filesystem::path& path, int backlog, bool listens) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket, backlog), 0);
  if (listens) return socket;
  ::close(socket);
  return -1;
}

TEST(UnixSocket, TakesThePlaceOfOneThatIsDead) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "s";
  leave_socket(path, 1, false);
  TestServer server(options_at(path));
  HttpClient client(path.string());
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0660U);
}

TEST(UnixSocket, LeavesAServerAloneThatIsTooBusyToAccept) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "s";
  const int socket = leave_socket(path, 0, true);
  HttpClient filler(path.string());  // fills the backlog: who connects now would wait
  Service service(fixture_options().service);
  const auto refused = Server::listen(options_at(path).server, service);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("another server"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(std::filesystem::exists(path));
  ::close(socket);
}

TEST(UnixSocket, TouchesNothingThatIsNoSocket) {
  const test::ScratchFolder folder;
  const auto path = folder.write("s", "precious");
  Service service(fixture_options().service);
  EXPECT_EQ(Server::listen(options_at(path).server, service).error().code, Errc::io);
  EXPECT_EQ(test::read_file(path), "precious");
  EXPECT_EQ(Server::listen(options_at(folder.path() / std::string(200, 'a')).server, service).error().code,
            Errc::bad_request);
}

// One server drains while the next one starts in its place, as in an upgrade without a gap.
TEST(UnixSocket, IsLeftToTheServerThatComesNext) {
  const test::ScratchFolder folder;
  const auto path = folder.path() / "s";
  auto old = std::make_unique<TestServer>(options_at(path));
  old->gate().hold();
  HttpClient accepted(path.string());
  accepted.send(http_request("POST", "/v1/systemone", kAsk));
  old->gate().wait_for_passes(1);
  old->on_server([&] { old->server().drain(); });
  old->wait_until([&] { return !std::filesystem::exists(path); });
  TestServer next(options_at(path));
  old->gate().open();
  EXPECT_EQ(accepted.read()->status, 200);
  old.reset();
  HttpClient client(path.string());
  EXPECT_EQ(client.ask(http_request("GET", "/health")).status, 200);
}

// A listener on "::" sees IPv4 clients as ::ffff:a.b.c.d, all of one /64.
TEST(Address, CountsIpv4ClientsOfAnIpv6ListenerEachAlone) {
  FixtureOptions options = fixture_options();
  options.server.host = "::";
  options.server.max_client_connections = 1;
  Service probe(options.service);
  if (auto listening = Server::listen(options.server, probe); !listening) {
    GTEST_SKIP() << "IPv6 clients were NOT tried: " << listening.error().message;
  }
  TestServer server(options);
  HttpClient a = server.connect("127.0.0.2"), b = server.connect("127.0.0.3");
  for (HttpClient* client : {&a, &b, &a}) EXPECT_EQ(client->ask(http_request("GET", "/health")).status, 200);
  HttpClient second = server.connect("127.0.0.2");
  EXPECT_EQ(second.ask(http_request("GET", "/health")).status, 200);
  EXPECT_TRUE(a.is_closed_by_server());  // made room for the second of its address
  EXPECT_EQ(b.ask(http_request("GET", "/health")).status, 200);
}

}  // namespace
}  // namespace clef::server
