#include "clef-server/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "backend/open.h"
#include "base/paths.h"
#include "base/whole_number.h"
#include "model/hub_cache.h"
#include "server/origin.h"

namespace clef::server_app {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kMaxSeconds = 24 * 3600;
constexpr std::int64_t kMaxBytes = std::int64_t{1} << 32;

// Builds CLI11's options and our table of them at once.
class Flags {
 public:
  Flags(CLI::App& app, std::vector<FlagText>& texts) : app_(app), texts_(texts) {}

  void group(std::string_view name) { group_ = name; }

  void text(const std::string& name, const std::string& value, const std::string& default_text, const std::string& help,
            const std::function<Status(const std::string&)>& set) {
    note(name, value, default_text, help);
    app_.add_option_function<std::string>(cli_name(name), [name, set](const std::string& given) {
      if (Status done = set(given); !done) {
        throw CLI::ValidationError(fmt::format("{}: {}", long_name(name), done.error().message));
      }
    });
  }

  void list(const std::string& name, const std::string& value, const std::string& default_text, const std::string& help,
            const std::function<void(const std::vector<std::string>&)>& set) {
    note(name, value, default_text, help);
    app_.add_option_function<std::vector<std::string>>(cli_name(name), set)->expected(1)->take_all();
  }

  template <typename Number>
  void number(const std::string& name, std::int64_t first, std::int64_t last, Number& value, const std::string& help) {
    text(name, "N", std::to_string(value), help, [first, last, &value](const std::string& given) -> Status {
      const auto parsed = whole_number(given, first, last);
      if (!parsed) {
        return Error{Errc::bad_request,
                     fmt::format("expected a whole number from {} to {}, got '{}'", first, last, given)};
      }
      value = static_cast<Number>(*parsed);
      return {};
    });
  }

  void seconds(const std::string& name, std::int64_t first, milliseconds& value, const std::string& help) {
    const std::int64_t initial = value.count() / 1000;
    text(name, "S", std::to_string(initial), help, [first, &value](const std::string& given) -> Status {
      const auto parsed = whole_number(given, first, kMaxSeconds);
      if (!parsed) {
        return Error{Errc::bad_request,
                     fmt::format("expected whole seconds from {} to {}, got '{}'", first, kMaxSeconds, given)};
      }
      value = milliseconds(*parsed * 1000);
      return {};
    });
  }

  void toggle(const std::string& name, const std::string& help, const std::function<void()>& set) {
    note(name, "", "", help);
    app_.add_flag_callback(cli_name(name), set);
  }

 private:
  static std::string cli_name(const std::string& name) {
    std::string result;
    for (const char c : name) {
      if (c != ' ') result += c;
    }
    return result;
  }
  static std::string long_name(const std::string& name) { return name.substr(name.find("--")); }
  void note(const std::string& name, const std::string& value, const std::string& default_text,
            const std::string& help) {
    texts_.push_back({name, value, default_text, help, group_});
  }

  CLI::App& app_;
  std::vector<FlagText>& texts_;
  std::string_view group_;
};

Status set_path(std::filesystem::path& path, const std::string& text) {
  if (text.empty()) return Error{Errc::bad_request, "expected a path"};
  path = text;
  return {};
}

void declare_model(Flags& flags, Options& o) {
  flags.group("Model");
  flags.text("-m, --model", "MODEL", "the demo model that comes with cleffa",
             "snapshot folder, GGUF file, or ORG/NAME of the hub's cache",
             [&](const std::string& text) { return set_path(o.model, text); });
  flags.text("--name", "NAME", "the model's file name", "what \"model\" in a request may say",
             [&](const std::string& text) -> Status {
               o.name = text;
               return {};
             });
  flags.list("--alias", "NAME", "jev-latest", "another name; repeat for several. Replaces the default",
             [&](const std::vector<std::string>& names) { o.service.aliases = names; });
  flags.toggle("--any-model", "take any name", [&] { o.service.any_model = true; });
  flags.text("--device", "NAME", "auto",
             "auto, cpu, cuda or cuda:N; auto: the first GPU that can be used, or else the CPU",
             [&](const std::string& text) -> Status {
               o.device = text;
               return {};
             });
  flags.text("--f32-layers", "N", "7, or all in a small model",
             "on a GPU: layers, from the first, whose activations keep the accuracy of f32; all: every one",
             [&](const std::string& text) -> Status {
               o.f32_layers = text;
               return check_f32_layers(text);
             });
  flags.toggle("--no-token-table",
               "on a GPU: do not keep what the first layer makes of each token of the vocabulary (12 GB with "
               "Clef-Flash), which is done where there is room, saves 1 % of the time and changes no answer",
               [&] { o.token_table = false; });
  flags.text("--threads", "N", "one a CPU", "threads of the CPU backend", [&](const std::string& text) -> Status {
    const auto number = whole_number(text, 1, 1024);
    if (!number) return Error{Errc::bad_request, fmt::format("expected a whole number from 1 to 1024, got '{}'", text)};
    o.num_threads = static_cast<int>(*number);
    return {};
  });
  flags.toggle("--no-warmup", "do not run a pass before the first request", [&] { o.warms_up = false; });
}

void declare_requests(Flags& flags, Options& o) {
  flags.group("Requests");
  flags.number("--max-length", 1, 1 << 20, o.encode.max_length, "tokens that a request may have in all");
  flags.toggle("--truncate", "cut a state that does not fit at its end; else it is refused",
               [&] { o.encode.truncate = true; });
  flags.toggle("--no-strict", "let text of a request spell the model's control tokens",
               [&] { o.encode.strict = false; });
  flags.text(
      "--confidence", "NAME", "max", "what \"confidence\" means: max, typesafe, purity or entropy",
      [&](const std::string& text) -> Status {
        const auto confidence = server::confidence_named(text);
        if (!confidence) {
          return Error{Errc::bad_request, fmt::format("expected max, typesafe, purity or entropy, got '{}'", text)};
        }
        o.service.confidence = *confidence;
        return {};
      });
  flags.number("--max-questions", 1, 100'000, o.service.shape.max_questions, "questions of a request");
  flags.number("--max-choices", 2, 100'000, o.service.shape.max_choices, "options of a choice");
  flags.number("--max-levels", 2, 100'000, o.service.shape.max_levels, "levels of a score");
  flags.number("--max-body", 1, kMaxBytes, o.service.max_body_bytes,
               "bytes of a body, also when decompressed, and of a line of a batch");
  flags.number("--batch-window", 1, 4096, o.service.max_batch_window, "lines of one batch at work at once");
}

void declare_media(Flags& flags, Options& o) {
  flags.group("Pictures and clips (0: no limit but the decoders' own)");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  MediaLimits& limits = o.encode.media_limits;
  flags.number("--max-images", 0, kMost, limits.max_images, "images of a request");
  flags.number("--max-image-tokens", 0, kMost, limits.max_image_tokens, "tokens of an image");
  flags.number("--max-image-pixels", 0, kMost, limits.max_image_pixels, "pixels of an image, before it is resized");
  flags.number("--max-videos", 0, kMost, limits.max_videos, "clips of a request");
  flags.number("--max-video-frames", 0, kMost, limits.max_video_frames, "sampled frames of a clip");
  flags.number("--max-video-tokens", 0, kMost, limits.max_video_tokens, "tokens of a clip");
  flags.number("--max-image-requests", 1, 4096, o.scheduler.max_media_requests,
               "requests whose pictures are in memory at once; others wait with their body alone");
}

void declare_scheduling(Flags& flags, Options& o) {
  flags.group("Scheduling");
  flags.number("--batch", 1, 256, o.scheduler.max_batch_requests, "requests of one pass");
  flags.number("--batch-tokens", 1, 1 << 24, o.scheduler.max_batch_tokens,
               "tokens of one pass; a longer request runs alone");
  flags.text(
      "--max-tokens-in-flight", "N", "the larger of --max-length and --batch-tokens",
      "tokens that a pass can have at all, a request's too: on a GPU memory for so many is taken at the start",
      [&](const std::string& text) -> Status {
        const auto number = whole_number(text, 1, 1 << 24);
        if (!number) {
          return Error{Errc::bad_request, fmt::format("expected a whole number from 1 to {}, got '{}'", 1 << 24, text)};
        }
        o.max_tokens_in_flight = *number;
        return {};
      });
  flags.number("--queue-tokens", 1, std::int64_t{1} << 40, o.scheduler.max_queue_tokens,
               "tokens that may wait; more are answered 429");
  flags.number("--queue-bytes", 1, std::int64_t{1} << 40, o.scheduler.max_queue_bytes,
               "bytes of bodies that may wait; more are answered 429");
  flags.number("--host-threads", 0, 1024, o.scheduler.host_threads,
               "threads that parse, tokenize and write answers; 0: one a CPU");
  flags.seconds("--request-timeout", 1, o.service.request_timeout,
                "seconds from a request's head to its answer; then 504");
  flags.seconds("--stall-limit", 1, o.service.stall_limit, "seconds that a pass may run before /health turns red");
}

void declare_network(Flags& flags, Options& o) {
  flags.group("Network");
  flags.text("--host", "ADDRESS", "127.0.0.1", "IPv4 or IPv6 address to listen on",
             [&](const std::string& text) -> Status {
               o.server.host = text == "localhost" ? "127.0.0.1" : text;
               return {};
             });
  flags.number("--port", 0, 65535, o.server.port, "TCP port; 0: any that is free");
  flags.text("--unix", "PATH", "", "listen on a Unix socket instead (mode 0660)",
             [&](const std::string& text) { return set_path(o.server.unix_socket, text); });
  flags.number("--max-connections", 1, 1'000'000, o.server.max_connections, "connections in all");
  flags.number("--max-client-connections", 0, 1'000'000, o.server.max_client_connections,
               "connections of one address (IPv6: of one /64); 0: any");
  flags.number("--max-head", 256, 1 << 20, o.server.parser.max_head_bytes,
               "bytes of request line and fields; more are answered 431");
  flags.number("--body-memory", 1, std::int64_t{1} << 40, o.server.max_body_memory,
               "bytes of all bodies that are being read; bodies over 64 KiB that do not fit are answered 429");
  flags.seconds("--head-timeout", 1, o.server.head_timeout, "seconds for a request's head");
  flags.seconds("--body-timeout", 1, o.server.body_timeout, "seconds for a request's body, and for a line of a batch");
  flags.seconds("--idle-timeout", 1, o.server.idle_timeout, "seconds between requests");
  flags.seconds("--write-timeout", 1, o.server.write_timeout, "seconds for an answer to be read");
  flags.seconds("--drain-delay", 0, o.server.drain_delay, "seconds after SIGTERM for others to see /ready turn red");
  flags.seconds("--drain-timeout", 0, o.server.drain_timeout, "seconds after that to answer accepted requests");
}

void declare_access(Flags& flags, Options& o) {
  flags.group("Access");
  flags.text("--keys", "FILE", "", "API keys; read again on SIGHUP",
             [&](const std::string& text) { return set_path(o.keys, text); });
  flags.toggle("--insecure", "listen beyond this machine without keys", [&] { o.is_insecure = true; });
  flags.list("--cors-origin", "ORIGIN", "", "let pages of ORIGIN use the server; repeat for several, * for all",
             [&](const std::vector<std::string>& origins) { o.service.cors_origins = origins; });
  flags.toggle("--no-web", "no page at /", [&] { o.service.serves_web = false; });
  flags.toggle("--open-metrics", "/metrics needs no key", [&] { o.service.open_metrics = true; });
  flags.text("--access-log", "FILE", "-", "a JSON line a request; - is standard output, off is nowhere",
             [&](const std::string& text) -> Status {
               o.access_log = text == "off" ? "" : text;
               return {};
             });
}

void declare(CLI::App& app, Options& options, std::vector<FlagText>& texts) {
  app.set_help_flag();  // help is text of ours, see below
  Flags flags(app, texts);
  declare_model(flags, options);
  declare_requests(flags, options);
  declare_media(flags, options);
  declare_scheduling(flags, options);
  declare_network(flags, options);
  declare_access(flags, options);
  flags.group("Other");
  texts.push_back({"--config", "FILE", "", "flags from a file, NAME = VALUE a line, without the dashes", "Other"});
  app.set_config("--config", "", "", false);
  app.allow_config_extras(CLI::config_extras_mode::error);
  flags.toggle("--print-openapi", "print the OpenAPI document", [&] { options.print_openapi = true; });
  flags.toggle("-h, --help", "this text", [&] { options.help = true; });
  flags.toggle("--version", "what this program was built from, and what it uses on this machine",
               [&] { options.version = true; });
}

// What the flags have to agree on.
Status check(const Options& options) {
  const bool is_reachable = options.server.unix_socket.empty() && !server::is_loopback(options.server.host);
  if (is_reachable && options.keys.empty() && !options.is_insecure) {
    return Error{
        Errc::bad_request,
        fmt::format("--host {}: others could use this server; give --keys FILE, or --insecure if that is meant",
                    options.server.host)};
  }
  for (const std::string& origin : options.service.cors_origins) {
    if (origin == "*" || server::is_origin(origin)) continue;
    return Error{Errc::bad_request,
                 fmt::format("--cors-origin: expected * or an origin such as https://app.example, got '{}'", origin)};
  }
  return {};
}

// The file's or folder's name; in the hub's cache the repository's, without a revision.
std::string model_name(const std::filesystem::path& model) {
  const std::filesystem::path path = model.has_filename() ? model : model.parent_path();
  if (const auto repo = cached_repo(path)) return std::filesystem::path(*repo).filename().string();
  if (path.extension() == ".gguf") return path.stem().string();
  const std::string name = path.filename().string();
  return path_exists(path) ? name : name.substr(0, name.find('@'));
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<FlagText> texts;
  CLI::App app;
  declare(app, options, texts);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order CLI11 takes
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return Error{Errc::bad_request, error.what()};
  }
  if (options.help || options.version || options.print_openapi) return options;
  TRY(check(options));
  std::int64_t& most = options.max_tokens_in_flight;
  if (most == 0) most = std::max(options.encode.max_length, options.scheduler.max_batch_tokens);
  options.encode.max_length = std::min(options.encode.max_length, most);
  options.scheduler.max_batch_tokens = std::min(options.scheduler.max_batch_tokens, most);
  options.scheduler.max_request_tokens = options.encode.max_length;
  set_model(options, options.model);
  return options;
}

void set_model(Options& options, const std::filesystem::path& model) {
  options.model = model;
  options.service.model_name = options.name.empty() ? model_name(model) : options.name;
}

std::vector<FlagText> flag_texts() {
  Options options;
  std::vector<FlagText> texts;
  CLI::App app;
  declare(app, options, texts);
  return texts;
}

std::string help_text() {
  std::string text =
      R"(clef-server - answers typed questions about a state over HTTP, with a probability for every option

Usage: clef-server [-m MODEL] [options]

MODEL is a Hugging Face snapshot folder of a Clef model, one GGUF file made from it by clef-tool, or ORG/NAME of a model
that is already in the Hugging Face hub's cache on this machine.

Example:
  clef-server -m clef-flash &
  curl http://127.0.0.1:8080/v1/systemone -d '{"model":"clef-flash","state":"Checkout is down",
    "questions":{"outage":{"type":"noul"}}}'
)";
  std::string_view group;
  constexpr std::size_t kColumn = 32;
  for (const FlagText& flag : flag_texts()) {
    if (flag.group != group) text += fmt::format("\n{}:\n", flag.group);
    group = flag.group;
    const std::string left = flag.value.empty() ? flag.name : flag.name + " " + flag.value;
    text += fmt::format("  {:<{}} {}", left, kColumn, flag.help);
    if (!flag.default_text.empty()) text += fmt::format(" (default: {})", flag.default_text);
    text += '\n';
  }
  text += R"(
Signals: SIGTERM and SIGINT answer what was accepted, then end (a second one ends at once); SIGHUP reads the keys again
and reopens the access log. Exit status: 0 after SIGTERM, 1 when the model, the address or the device failed, 2 for a
wrong command line. docs/server.md has the routes, statuses, fields and metrics.
)";
  return text;
}

}  // namespace clef::server_app
