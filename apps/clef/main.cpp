// clef: answers files of requests with a model on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "backend/open.h"
#include "clef/answer_lines.h"
#include "clef/doctor.h"
#include "clef/options.h"
#include "clef/table.h"
#include "clef/terminal.h"
#include "clef/version.h"
#include "engine/engine.h"
#include "model/default_model.h"

namespace clef::cli {
namespace {

constexpr int kFailure = 1, kUsage = 2;

void complain(std::string_view message) {
  const std::string line = fmt::format("clef: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);  // there is nowhere left to report a failure to
}

class Stopwatch {
 public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::vector<Result<Engine::Answer>> timed_batch(Engine& engine, std::span<const std::string> requests) {
  const Stopwatch watch;
  auto results = engine.answer_batch(requests);
  const double elapsed_ms = watch.milliseconds();
  std::size_t tokens = 0;
  for (const auto& result : results) tokens += result ? result->record.input_ids.size() : 0;
  complain(fmt::format("batch of {} ({} tokens) in {:.1f} ms", requests.size(), tokens, elapsed_ms));
  return results;
}

int print(std::string_view text) {
  Output output(stdout);
  Status written = output.write(text);
  if (written) written = output.flush();
  if (written) return EXIT_SUCCESS;
  complain(fmt::format("cannot write stdout: {}", written.error().message));
  return kFailure;
}

int usage_error(const Error& error) {
  complain(error.message);
  complain("see clef --help");
  return kUsage;
}

int doctor(const std::vector<std::string>& arguments) {
  const auto options = parse_doctor_options(arguments);
  if (!options) {
    complain(options.error().message);
    complain("see clef doctor --help");
    return kUsage;
  }
  return options->help ? print(doctor_help_text()) : run_doctor(*options);
}

int run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "doctor") return doctor({arguments.begin() + 1, arguments.end()});
  auto parsed = parse_options(arguments);
  if (!parsed) return usage_error(parsed.error());
  Options options = std::move(parsed).value();
  if (options.help) return print(help_text());
  if (options.version) return print(version_text());

  std::string asked;  // the request that --ask makes; mistakes in it show before a model is opened
  if (!options.ask.questions.empty()) {
    const auto request = make_request(options.ask);
    if (!request && request.error().code == Errc::bad_request) return usage_error(request.error());
    if (!request) {
      complain(request.error().message);
      return kFailure;
    }
    asked = to_compact_json(*request);
    if (options.print_request) return print(asked + "\n");
  }

  if (options.model.empty()) {
    auto found = find_default_model();
    if (!found) return usage_error(found.error());
    options.model = std::move(found).value();
    complain(kDefaultModelNotice);
  }
  const Stopwatch load_watch;
  auto device =
      open_device({.device = options.device, .num_threads = options.num_threads, .f32_layers = options.f32_layers});
  if (!device) {
    complain(device.error().message);
    return kFailure;
  }
  auto opened = Engine::open(options.model, std::move(device).value(),
                             {.encode = {.max_length = options.max_length,
                                         .strict = options.strict,
                                         .truncate = options.truncate,
                                         .media_limits = options.media_limits},
                              .max_tokens_in_flight = options.max_tokens_in_flight,
                              .token_table = options.token_table,
                              .trace = options.trace});
  if (!opened) {
    complain(opened.error().message);
    return kFailure;
  }
  const std::unique_ptr<Engine> engine = std::move(opened).value();
  if (options.timings) {
    complain(fmt::format("loaded {} in {:.1f} ms", options.model.string(), load_watch.milliseconds()));
    if (const auto note = engine->memory_note(); note) complain("memory for " + *note);
  }

  const Terminal terminal = standard_output_terminal();
  const bool as_table =
      options.format == Format::table || (options.format == Format::automatic && terminal.is_terminal);
  std::int64_t number = 0;
  LineWork work;
  work.batch = static_cast<std::size_t>(options.batch);
  work.complain = complain;
  work.answer = [&](std::span<const std::string> requests) {
    return options.timings ? timed_batch(*engine, requests) : engine->answer_batch(requests);
  };
  if (as_table) {
    work.format_answer = [&](const Engine::Answer& answer) { return table(answer, ++number, terminal); };
    work.format_error = [&](std::string_view message) { return table_error(message, ++number, terminal); };
  } else {
    work.format_answer = [&](const Engine::Answer& answer) { return json_answer_line(answer, options.logits); };
    work.format_error = json_error_line;
  }
  Output output(stdout);
  if (!asked.empty()) return answer_request(std::move(asked), work, output);
  if (options.inputs.empty()) options.inputs = {"-"};
  if (options.inputs == std::vector<std::string>{"-"} && ::isatty(STDIN_FILENO) == 1) {
    complain("reading requests from the terminal, one JSON object a line; end with Ctrl-D");
  }
  return answer_lines(options.inputs, work, output);
}

}  // namespace
}  // namespace clef::cli

int main(int argc, char** argv) {
  // A reader that goes away is a failure to write, reported like any other.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return clef::cli::run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("clef: out of memory\n", stderr);
    return EXIT_FAILURE;
  }
}
