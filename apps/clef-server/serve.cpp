#include "clef-server/serve.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "backend/open.h"
#include "engine/engine.h"
#include "model/hub_cache.h"
#include "server/process.h"

namespace clef::server_app {
namespace {

using server::Server;
using server::Service;

constexpr std::string_view kWarmUp = R"({"model":"","state":"warm up","questions":{"ready":{"type":"noul"}}})";

// The day a model's file was written, for clients that ask when it was released.
std::string day_of(const std::filesystem::path& named) {
  const auto model = find_model(named, hub_cache_folder([](const char* name) { return std::getenv(name); }));
  struct stat found {};
  if (!model || ::stat(model->c_str(), &found) != 0) return "1970-01-01";
  std::tm parts{};
  ::gmtime_r(&found.st_mtime, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

Result<std::unique_ptr<Engine>> load(const Options& options) {
  auto device = TRY(options.open_device(
      {.device = options.device, .num_threads = options.num_threads, .f32_layers = options.f32_layers}));
  auto engine = TRY(Engine::open(options.model, std::move(device),
                                 {.encode = options.encode,
                                  .max_tokens_in_flight = options.max_tokens_in_flight,
                                  .token_table = options.token_table}));
  complain(fmt::format("memory for {}", TRY(engine->memory_note())));
  if (options.warms_up) {
    TRY(engine->take_memory());
    TRY(engine->answer(kWarmUp));
  }
  return engine;
}

class Life {
 public:
  explicit Life(Options options) : options_(std::move(options)), service_(options_.service) {}

  int run() {
    if (Status begun = begin(); !begun) {
      complain(begun.error().message);
      return EXIT_FAILURE;
    }
    complain(fmt::format("listening on {}, loading {}", server_->address(), options_.model.string()));
    std::thread loader([this] { load_model(); });
    server_->run();
    const int code = farewell();
    // A model still loading or a pass still running is nobody's any more, and may take long, or for ever: the system
    // takes the memory back.
    const bool is_loading = scheduler_ == nullptr && !failure_;
    const bool is_lost = failure_ && failure_->code == Errc::device_lost;  // nor can its memory be given back in order
    if (is_loading || is_lost || (scheduler_ != nullptr && scheduler_->load().running_requests > 0)) std::_Exit(code);
    loader.join();
    return code;
  }

 private:
  int farewell() const {
    if (failure_) {
      complain(failure_->message);
      return EXIT_FAILURE;
    }
    if (server_->num_cut_off() > 0) {
      complain(fmt::format("{} requests were cut off: they took longer than --drain-timeout", server_->num_cut_off()));
      return EXIT_FAILURE;
    }
    complain(scheduler_ == nullptr ? "ended before the model was loaded" : "all accepted requests are answered");
    return EXIT_SUCCESS;
  }

  Status begin() {
    server::raise_descriptor_limit();
    TRY(service_.access_log().open(options_.access_log));
    if (!options_.keys.empty()) service_.keys().set(TRY(server::read_keys(options_.keys)));
    server_ = TRY(Server::listen(options_.server, service_));
    server_->on_signal([this](int signal) { on_signal(signal); });
    const std::int64_t watchdog_ms = server::watchdog_interval_ms();
    if (watchdog_ms > 0) {
      server_->every(std::chrono::milliseconds(watchdog_ms), [this] {
        if (!service_.trouble()) server::notify_manager("WATCHDOG=1");
      });
    }
    return {};
  }

  // On a thread of its own: /health answers meanwhile, and /ready says that it is too early.
  void load_model() {
    auto loaded = load(options_);
    auto engine = loaded ? std::shared_ptr<Engine>(std::move(loaded).value()) : nullptr;
    std::optional<Error> failure;
    if (!loaded) failure = std::move(loaded).error();
    server_->post([this, engine = std::move(engine), failure = std::move(failure)] {
      if (engine == nullptr) {
        failure_ = failure;
        return server_->stop();
      }
      start(engine);
    });
  }

  void start(const std::shared_ptr<Engine>& engine) {
    SchedulerOptions scheduling = options_.scheduler;
    scheduling.observe = [this](const PassReport& pass) {
      service_.observe(pass);
      if (pass.loss) server_->post([this, loss = *pass.loss] { lose_device(loss); });
    };
    scheduler_ = std::make_unique<Scheduler>(
        [engine](std::span<const EncodedRecord* const> records) { return engine->run(records); },
        std::move(scheduling));
    service_.start({.prepare = [engine](Json body) { return engine->prepare(std::move(body)); },
                    .scheduler = scheduler_.get(),
                    .device_name = engine->device_name()});
    complain(fmt::format("ready: {} on {}", options_.service.model_name, engine->device_name()));
    server::notify_manager("READY=1");
  }

  // A lost GPU comes back to a new process alone. What was accepted is told so, and the service's manager starts anew.
  void lose_device(const Error& loss) {
    if (failure_) return;
    complain(loss.message);
    failure_ = Error{loss.code, "ended without its device, to be started again"};
    server::notify_manager("STOPPING=1");
    server_->drain();
  }

  void on_signal(int signal) {
    if (signal == SIGHUP) return is_ending_ ? void() : reload();
    if (std::exchange(is_ending_, true)) {
      complain("ending at once");
      std::_Exit(EXIT_FAILURE);
    }
    server::notify_manager("STOPPING=1");
    complain("shutting down");
    server_->drain();
  }

  void reload() {
    server::notify_manager("RELOADING=1");
    if (Status opened = service_.access_log().reopen(); !opened) complain(opened.error().message);
    if (!options_.keys.empty()) {
      // A file that cannot be read must not lock everyone out, nor let everyone in.
      auto keys = server::read_keys(options_.keys);
      if (keys) {
        complain(fmt::format("{} keys read", keys->size()));
        service_.keys().set(std::move(keys).value());
      } else {
        complain(fmt::format("the old keys stay: {}", keys.error().message));
      }
    }
    server::notify_manager("READY=1");
  }

  // In this order: the scheduler's threads post to the server, and both use the service.
  Options options_;
  Service service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Scheduler> scheduler_;
  std::optional<Error> failure_;
  bool is_ending_ = false;
};

}  // namespace

void complain(std::string_view message) {
  const std::string line = fmt::format("clef-server: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);  // there is nowhere left to report a failure to
}

int serve(Options options) {
  options.service.release_date = day_of(options.model);
  return Life(std::move(options)).run();
}

}  // namespace clef::server_app
