// The whole of clef-server, in a process of its own, when its device is lost: the request is told, and the program
// ends.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "clef-server/options.h"
#include "clef-server/serve.h"
#include "support/failing_device.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace clef::server_app {
namespace {

// The answer to one request of a connection of its own; empty when nobody listens.
std::string ask(const std::string& socket_path, const std::string& request) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket_path.c_str(), sizeof address.sun_path - 1);
  std::string answer;
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size())) {
    std::array<char, 4096> part{};
    for (ssize_t count = 0; (count = ::recv(descriptor, part.data(), part.size(), 0)) > 0;) {
      answer.append(part.data(), static_cast<std::size_t>(count));
    }
  }
  ::close(descriptor);
  return answer;
}

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"; }

[[noreturn]] void serve_and_lose(const std::string& socket_path) {
  Options options;
  options.server.unix_socket = socket_path;
  options.server.drain_delay = std::chrono::milliseconds(0);
  options.access_log.clear();
  set_model(options, test::test_data_path("clef-tiny"));
  options.open_device = [](const DeviceOptions&) -> Result<std::unique_ptr<Device>> {
    auto device = std::make_unique<test::FailingDevice>();
    device->failures = {std::nullopt, Error{Errc::device_lost, "fell off the bus"}};  // the first pass warms up
    return std::unique_ptr<Device>(std::move(device));
  };
  std::thread client([socket_path] {
    while (ask(socket_path, get("/ready")).rfind("HTTP/1.1 200", 0) != 0) std::this_thread::yield();
    const std::string body = R"({"model":"clef-tiny","state":"x","questions":{"a":{"type":"noul"}}})";
    (void)ask(socket_path, "POST /v1/systemone HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " +
                               std::to_string(body.size()) + "\r\n\r\n" + body);
  });
  client.detach();
  std::exit(serve(std::move(options)));
}

TEST(ServeDeathTest, EndsWithAFailureWhenItsDeviceIsLost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const test::ScratchFolder scratch;
  EXPECT_EXIT(serve_and_lose((scratch.path() / "socket").string()), ::testing::ExitedWithCode(1),
              "memory for 16384 tokens in flight.*failing:0 was lost: fell off the bus.*"
              "ended without its device, to be started again");
}

}  // namespace
}  // namespace clef::server_app
