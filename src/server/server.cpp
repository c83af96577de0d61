#include "server/server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/connection.h"

namespace clef::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kTick{50};           // how exactly deadlines are kept
constexpr int kBacklog = 4096;              // the system cuts it to its own limit
constexpr int kAcceptsAtOnce = 64;          // then connections get their turn
constexpr std::int64_t kMaxRefusing = 256;  // connections that are told that there is no room
constexpr milliseconds kAcceptPause{100};   // when the process has no descriptor left

Error system_error(std::string_view what) { return {Errc::io, fmt::format("{}: {}", what, std::strerror(errno))}; }

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> parse_address(const std::string& host, std::uint16_t port) {
  Address address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
  } else if (::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
  } else {
    return Error{Errc::bad_request, fmt::format("host: expected an IPv4 or IPv6 address, got '{}'", host)};
  }
  return address;
}

Result<Address> parse_path(const std::filesystem::path& path) {
  Address address;
  auto& un = reinterpret_cast<sockaddr_un&>(address.storage);
  const std::string text = path.string();
  if (text.size() >= sizeof un.sun_path) {
    return Error{Errc::bad_request,
                 fmt::format("{}: a socket's path has at most {} bytes", text, sizeof un.sun_path - 1)};
  }
  un.sun_family = AF_UNIX;
  std::memcpy(un.sun_path, text.c_str(), text.size() + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + 1);
  return address;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

bool set_flags(int descriptor) {
  return ::fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 &&
         ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0;
}

// A socket left behind by a server that is gone is in the way; one that answers, or that may, is another server's.
Status remove_stale_socket(const std::filesystem::path& path, const Address& address) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return Error{Errc::io, fmt::format("{}: is there already and no socket", path.string())};
  }
  // Without waiting: a server whose backlog is full would let us wait for ever.
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (probe.get() < 0) return system_error(path.string());
  const bool answers = ::connect(probe.get(), address.get(), address.size) == 0 || errno == EAGAIN;
  if (answers) return Error{Errc::io, fmt::format("{}: another server listens there", path.string())};
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED || ::unlink(path.c_str()) != 0) return system_error(path.string());
  return {};
}

// The file that a Unix socket's name stands for: another server may have put its own there since.
struct SocketFile {
  dev_t device = 0;
  ino_t inode = 0;
};

SocketFile socket_file_at(const std::filesystem::path& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return {};
  return {found.st_dev, found.st_ino};
}

Result<Descriptor> open_listener(const ServerOptions& options, Address& address) {
  const bool is_unix = !options.unix_socket.empty();
  address = TRY(is_unix ? parse_path(options.unix_socket) : parse_address(options.host, options.port));
  const std::string name = is_unix ? options.unix_socket.string() : fmt::format("{}:{}", options.host, options.port);
  if (is_unix) TRY(remove_stale_socket(options.unix_socket, address));
  Descriptor socket(::socket(address.storage.ss_family, SOCK_STREAM, 0));
  if (socket.get() < 0 || !set_flags(socket.get())) return system_error(name);
  const int yes = 1;
  if (!is_unix) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.get(), address.get(), address.size) != 0) return system_error(name);
  if (is_unix && ::chmod(options.unix_socket.c_str(), 0660) != 0) return system_error(name);
  if (::listen(socket.get(), kBacklog) != 0) return system_error(name);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return system_error(name);
  }
  return socket;
}

std::uint16_t port_of(const Address& address) {
  if (address.storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port);
  }
  if (address.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port);
  }
  return 0;
}

struct Peer {
  std::string remote;  // "127.0.0.1:40000"
  std::string client;  // that connections are counted for
};

Peer peer_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address.storage).sin_addr, text, sizeof text);
    return {fmt::format("{}:{}", text, port_of(address)), text};
  }
  if (address.storage.ss_family == AF_INET6) {
    in6_addr network = reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&network)) {  // of a listener for both families: the client has an IPv4 address
      ::inet_ntop(AF_INET, network.s6_addr + 12, text, sizeof text);
      return {fmt::format("{}:{}", text, port_of(address)), text};
    }
    ::inet_ntop(AF_INET6, &network, text, sizeof text);
    const std::string remote = fmt::format("[{}]:{}", text, port_of(address));
    std::fill(network.s6_addr + 8, network.s6_addr + 16, std::uint8_t{0});  // who has one address has its /64
    ::inet_ntop(AF_INET6, &network, text, sizeof text);
    return {remote, text};
  }
  return {"unix", ""};
}

}  // namespace

bool is_loopback(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return ::inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

struct Server::State {
  State(ServerOptions options_, Service& service_, Descriptor listener_, const Address& address_)
      : options(std::move(options_)),
        service(service_),
        address(address_),
        listener(io, listener_.release()),
        hub{.options = options,
            .service = service,
            .post = [this](std::function<void()> work) { asio::post(io, std::move(work)); },
            .closed = [this](Connection& connection) { forget(connection); }} {
    if (!options.unix_socket.empty()) socket_file = socket_file_at(options.unix_socket);
  }

  ServerOptions options;
  Service& service;
  Address address;
  SocketFile socket_file;  // of a Unix socket
  asio::io_context io{1};
  asio::posix::stream_descriptor listener;
  asio::steady_timer tick_timer{io}, accept_timer{io};
  std::list<asio::steady_timer> repeated;
  std::optional<asio::signal_set> signals;
  Hub hub;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  std::map<std::string, std::int64_t> clients;  // connections of each
  bool is_leaving = false;
  std::chrono::steady_clock::time_point next_step = std::chrono::steady_clock::time_point::max();  // of draining
  std::int64_t cut_off = 0;

  void wait_for_clients() {
    listener.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error) return;  // closed
      if (accept_some()) wait_for_clients();
    });
  }

  // False when accepting has to pause; a timer goes on with it.
  bool accept_some() {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      Address peer;
      peer.size = sizeof peer.storage;
      const int descriptor = ::accept(listener.native_handle(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size);
      if (descriptor >= 0) {
        welcome(Descriptor(descriptor), peer);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        make_room("");
        accept_timer.expires_after(kAcceptPause);
        accept_timer.async_wait([this](error_code error) {
          if (!error) wait_for_clients();
        });
        return false;
      } else if (errno != ECONNABORTED && errno != EINTR) {
        return true;  // none left
      }
    }
    return true;
  }

  void welcome(Descriptor descriptor, const Address& address_of_peer) {
    // Even a refusal takes a connection, for a while.
    if (!set_flags(descriptor.get()) || std::ssize(connections) >= options.max_connections + kMaxRefusing) return;
    const Peer peer = peer_of(address_of_peer);
    if (address_of_peer.storage.ss_family != AF_UNIX) {
      const int yes = 1;
      ::setsockopt(descriptor.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      ::setsockopt(descriptor.get(), SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    }
    error_code error;
    Connection::Socket socket(io);
    socket.assign(asio::generic::stream_protocol(address.storage.ss_family, 0), descriptor.get(), error);
    if (error) return;
    descriptor.release();
    socket.non_blocking(true, error);

    service.metrics().count_connection();
    const bool has_room = room_for(peer.client);
    auto connection = std::make_shared<Connection>(hub, std::move(socket), peer.remote, peer.client);
    connections.emplace(connection.get(), connection);
    ++clients[peer.client];
    if (has_room) {
      connection->start();
    } else {
      service.metrics().count_refused_connection();
      connection->turn_away("too many connections");
    }
    service.metrics().set_open_connections(std::ssize(connections));
  }

  bool room_for(const std::string& client) {
    const auto count = clients.find(client);
    const bool is_client_full = options.max_client_connections > 0 && !client.empty() && count != clients.end() &&
                                count->second >= options.max_client_connections;
    if (is_client_full) return make_room(client);
    return std::ssize(connections) < options.max_connections || make_room("");
  }

  // Closes the connection, of that client's (empty: of all), that has waited longest for its client to say something:
  // one between requests before one in the middle of a head.
  bool make_room(const std::string& client) {
    Connection* longest = nullptr;
    for (const auto& [connection, owner] : connections) {
      if (!connection->is_waiting() || (!client.empty() && connection->client() != client)) continue;
      const bool goes_first = longest == nullptr || (connection->is_idle() && !longest->is_idle()) ||
                              (connection->is_idle() == longest->is_idle() && connection->since() < longest->since());
      if (goes_first) longest = connection;
    }
    if (longest == nullptr) return false;
    service.metrics().count_refused_connection();
    longest->close();
    return true;
  }

  void forget(Connection& connection) {
    const auto count = clients.find(connection.client());
    if (count != clients.end() && --count->second == 0) clients.erase(count);
    connections.erase(&connection);
    service.metrics().set_open_connections(std::ssize(connections));
  }

  // Each connection, also when some close on the way.
  template <typename Function>
  void for_each(Function function) {
    std::vector<std::shared_ptr<Connection>> all;
    all.reserve(connections.size());
    for (const auto& [key, connection] : connections) all.push_back(connection);
    for (const auto& connection : all) function(*connection);
  }

  void tick() {
    const auto now = std::chrono::steady_clock::now();
    for_each([&](Connection& connection) { connection.check(now); });
    go_on_draining(now);
    tick_timer.expires_after(kTick);
    tick_timer.async_wait([this](error_code error) {
      if (!error) tick();
    });
  }

  void leave() {
    if (is_leaving) return;
    is_leaving = true;
    service.set_phase(Service::Phase::leaving);
    next_step = std::chrono::steady_clock::now() + options.drain_delay;
    go_on_draining(std::chrono::steady_clock::now());
  }

  void go_on_draining(std::chrono::steady_clock::time_point now) {
    if (!is_leaving) return;
    if (!hub.is_draining && now >= next_step) {
      accept_some();  // whoever has come this far is let in
      stop_listening();
      hub.is_draining = true;
      service.set_phase(Service::Phase::draining);
      for_each([](Connection& connection) { connection.drain(); });
      next_step = now + options.drain_timeout;
    }
    if (!hub.is_draining) return;
    if (connections.empty()) return io.stop();
    if (now < next_step) return;
    for_each([this](Connection& connection) { cut_off += connection.is_working() ? 1 : 0; });
    io.stop();
  }

  // The name goes with the listener, so that the next server finds its place free; but not the name of one that has it
  // already.
  void stop_listening() {
    error_code ignored;
    listener.close(ignored);
    accept_timer.cancel();
    if (socket_file.inode == 0) return;
    const SocketFile now = socket_file_at(options.unix_socket);
    if (now.device == socket_file.device && now.inode == socket_file.inode) ::unlink(options.unix_socket.c_str());
    socket_file = {};
  }

  void repeat(asio::steady_timer& timer, milliseconds interval, const std::function<void()>& work) {
    timer.expires_after(interval);
    timer.async_wait([this, &timer, interval, work](error_code error) {
      if (error) return;
      work();
      repeat(timer, interval, work);
    });
  }

  void wait_for_signal(const std::function<void(int)>& handler) {
    signals->async_wait([this, handler](error_code error, int signal) {
      if (error) return;
      handler(signal);
      wait_for_signal(handler);
    });
  }
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  state_->for_each([](Connection& connection) { connection.close(); });
  state_->stop_listening();
}

Result<std::unique_ptr<Server>> Server::listen(const ServerOptions& options, Service& service) {
  Address address;
  Descriptor listener = TRY(open_listener(options, address));
  auto state = std::make_unique<State>(options, service, std::move(listener), address);
  state->wait_for_clients();
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

std::uint16_t Server::port() const { return port_of(state_->address); }

std::string Server::address() const {
  if (!state_->options.unix_socket.empty()) return "unix:" + state_->options.unix_socket.string();
  const bool is_v6 = state_->address.storage.ss_family == AF_INET6;
  return fmt::format("http://{}:{}", is_v6 ? fmt::format("[{}]", state_->options.host) : state_->options.host, port());
}

void Server::run() {
  state_->tick();
  state_->io.run();
  // Whoever holds a ticket lets go of it before the scheduler ends.
  state_->for_each([](Connection& connection) { connection.close(); });
}

void Server::post(std::function<void()> work) { state_->hub.post(std::move(work)); }

void Server::every(milliseconds interval, std::function<void()> work) {
  state_->repeat(state_->repeated.emplace_back(state_->io), interval, work);
}

void Server::on_signal(std::function<void(int)> handler) {
  state_->signals.emplace(state_->io, SIGTERM, SIGINT, SIGHUP);
  state_->wait_for_signal(handler);
}

void Server::drain() { state_->leave(); }
void Server::stop() { state_->io.stop(); }
std::int64_t Server::num_connections() const { return std::ssize(state_->connections); }
std::size_t Server::body_bytes() const { return state_->hub.body_bytes; }
std::int64_t Server::num_cut_off() const { return state_->cut_off; }

}  // namespace clef::server
