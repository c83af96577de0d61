#include "server/process.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

#include "base/whole_number.h"

namespace clef::server {

ProcessUse process_use() {
  ProcessUse use;
  std::ifstream memory("/proc/self/statm");
  std::int64_t total_pages = 0, resident_pages = 0;
  if (memory >> total_pages >> resident_pages) use.resident_bytes = resident_pages * ::sysconf(_SC_PAGESIZE);
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end; it.increment(error)) {
    ++use.open_descriptors;
  }
  if (use.open_descriptors > 0) --use.open_descriptors;  // the one that reads the folder
  return use;
}

std::int64_t raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  const rlim_t now = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max : before;
  return static_cast<std::int64_t>(std::min<rlim_t>(now, std::numeric_limits<std::int64_t>::max()));
}

void notify_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (*path == '@') address.sun_path[0] = '\0';  // a name that is no file's
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  if (socket < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  // A manager that does not listen is no reason to stop serving.
  (void)::sendto(socket, state.data(), state.size(), 0, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(socket);
}

std::int64_t watchdog_interval_ms() {
  const char* text = std::getenv("WATCHDOG_USEC");
  if (text == nullptr) return 0;
  const auto microseconds = whole_number(text, 1, std::int64_t{1} << 50);
  return microseconds ? std::max<std::int64_t>(1, *microseconds / 2000) : 0;
}

}  // namespace clef::server
