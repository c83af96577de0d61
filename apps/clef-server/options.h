// The command line of clef-server. One table holds every flag: --help, the config file and docs/server.md follow it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/open.h"
#include "base/result.h"
#include "engine/scheduler.h"
#include "record/encode.h"
#include "server/server.h"
#include "server/service.h"

namespace clef::server_app {

struct Options {
  std::filesystem::path model;
  std::string device = "auto", f32_layers;
  int num_threads = 0;
  std::function<Result<std::unique_ptr<Device>>(const DeviceOptions&)> open_device = clef::open_device;  // for tests
  bool warms_up = true;
  bool token_table = true;                // as in EngineOptions
  std::int64_t max_tokens_in_flight = 0;  // 0: the larger of --max-length and --batch-tokens
  EncodeOptions encode{.strict = true, .media_limits = MediaLimits::server()};
  std::string name;  // empty: the model's file name
  server::ServiceOptions service;
  server::ServerOptions server;
  SchedulerOptions scheduler;
  std::filesystem::path keys;
  bool is_insecure = false;
  std::string access_log = "-";
  bool help = false, version = false, print_openapi = false;
};

// The arguments without the program's name. Errc::bad_request says what is wrong with them: exit code 2. Without -m the
// model stays empty, for the caller to fill in by set_model.
Result<Options> parse_options(const std::vector<std::string>& arguments);

// Takes the model, and its file's name for the answers unless --name gave one.
void set_model(Options& options, const std::filesystem::path& model);

struct FlagText {
  std::string name;          // "--port", "-m, --model"
  std::string value;         // "N", empty for a switch
  std::string default_text;  // empty: none
  std::string help;
  std::string_view group;
};

// Every flag, in the order of --help. docs/server.md has a row for each.
std::vector<FlagText> flag_texts();

std::string help_text();

}  // namespace clef::server_app
