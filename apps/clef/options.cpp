#include "clef/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <map>

#include "base/whole_number.h"

namespace clef::cli {
namespace {

constexpr std::int64_t kMaxThreads = 1024;
constexpr std::int64_t kMaxBatch = 256;
constexpr std::int64_t kMaxLength = 1 << 20;  // tokens; past any context that the models were trained for

void add_whole_number(CLI::App& app, const std::string& name, std::int64_t first, std::int64_t last,
                      const std::function<void(std::int64_t)>& set) {
  app.add_option_function<std::string>(name, [=](const std::string& text) {
    const auto number = whole_number(text, first, last);
    if (!number) {
      throw CLI::ValidationError(
          fmt::format("{}: expected a whole number from {} to {}, got '{}'", name, first, last, text));
    }
    set(*number);
  });
}

void declare(CLI::App& app, Options& options) {
  app.set_help_flag();  // help is text of ours, see below
  app.add_flag("-h,--help", options.help);
  app.add_flag("--version", options.version);
  app.add_option("-m,--model", options.model);
  app.add_option("inputs", options.inputs);
  const std::map<std::string, Format> formats = {
      {"auto", Format::automatic}, {"json", Format::json}, {"table", Format::table}};
  app.add_option_function<std::string>("--format", [&options, formats](const std::string& text) {
    const auto found = formats.find(text);
    if (found == formats.end()) {
      throw CLI::ValidationError(fmt::format("--format: expected auto, json or table, got '{}'", text));
    }
    options.format = found->second;
  });
  app.add_flag("--logits", options.logits);
  app.add_flag("--timings", options.timings);
  app.add_flag("--strict", options.strict);
  app.add_flag("--truncate,!--no-truncate", options.truncate);
  add_whole_number(app, "--threads", 1, kMaxThreads,
                   [&](std::int64_t n) { options.num_threads = static_cast<int>(n); });
  add_whole_number(app, "--batch", 1, kMaxBatch, [&](std::int64_t n) { options.batch = n; });
  add_whole_number(app, "--max-length", 1, kMaxLength, [&](std::int64_t n) { options.max_length = n; });
  app.add_option("--trace", options.trace);
  const auto add_limit = [&app](const std::string& name, std::int64_t& limit) {
    add_whole_number(app, name, 0, std::numeric_limits<std::int32_t>::max(), [&limit](std::int64_t n) { limit = n; });
  };
  add_limit("--max-images", options.media_limits.max_images);
  add_limit("--max-image-tokens", options.media_limits.max_image_tokens);
  add_limit("--max-image-pixels", options.media_limits.max_image_pixels);
  add_limit("--max-videos", options.media_limits.max_videos);
  add_limit("--max-video-frames", options.media_limits.max_video_frames);
  add_limit("--max-video-tokens", options.media_limits.max_video_tokens);
}

}  // namespace

Result<Options> parse_options(const std::vector<std::string>& arguments) {
  Options options;
  CLI::App app;
  declare(app, options);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order CLI11 takes
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return Error{Errc::bad_request, error.what()};
  }
  if (options.help || options.version) return options;
  if (options.model.empty()) return Error{Errc::bad_request, "-m MODEL is required"};
  return options;
}

std::vector<std::string> option_names() {
  Options options;
  CLI::App app;
  declare(app, options);
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string_view help_text() {
  return R"(clef - answers typed questions about a state, with a probability for every option

Usage: clef -m MODEL [options] [requests.jsonl ...]

MODEL is a Hugging Face snapshot folder of a Clef model, or one GGUF file made from it by clef-tool. Requests are
JSON, one object a line, from the files given, or from standard input without one ("-" names it among files). Each
line gets one answer, in order; a line that cannot be answered gets {"error":"..."} and the others go on.

Examples:
  # One question. "noul" is a yes-or-no question; the answer is the probability of yes.
  echo '{"model":"clef","state":"Checkout is down","questions":{"outage":{"type":"noul"}}}' | clef -m clef-flash

  # "choice" picks one of the named options, "score" one level of a list from worst to best. Questions of one request
  # are decided jointly. The state may be any JSON value.
  echo '{"model":"clef","state":{"subject":"Refund?","body":"It never came."},"questions":{
    "intent":{"type":"choice","criteria":{"refund":"Wants money back","track":null}},
    "anger":{"type":"score","instructions":"How angry?","criteria":["calm","annoyed","furious"]}}}' |
    tr -d '\n' | clef -m clef-flash --format table

  # A file of requests, eight to a pass of the network, answers and the time they took.
  clef -m clef-flash --batch 8 --timings requests.jsonl > answers.jsonl

Model and input:
  -m, --model MODEL    snapshot folder or GGUF file
  --strict             text of the request never becomes a control token of the model, whatever it spells
  --truncate           cut a state that does not fit at its end, as the reference does
  --no-truncate        refuse it instead, with both counts (default); of the two, the last one given counts
  --max-length N       tokens that a request may have in all (default 16384)

Images and videos, in each request (default 0: whatever fits the tokens; docs/usage.md has their form):
  --max-images N          images
  --max-image-tokens N    tokens of one image; an image has one for every 32 x 32 pixels after resizing
  --max-image-pixels N    pixels of one image or frame before resizing
  --max-videos N          videos
  --max-video-frames N    frames taken of one video
  --max-video-tokens N    tokens of one video

Output:
  --format FORMAT      json: one line an answer. table: for people, with bars. auto: table on a terminal, else json
  --logits             add "x_logits": {QUESTION: {OPTION: number}} to each answer: the numbers before the softmax
  --timings            tell on standard error how long loading and each pass took
  --trace FILE         write the layer outputs of the first request to FILE, in the safetensors format

Work:
  --batch N            requests packed in one pass of the network, 1 to 256 (default 1). The answers are the same
  --threads N          threads, 1 to 1024 (default: one a CPU that this process may use). The answers are the same

  -h, --help           this text
  --version            what this program was built from, and what it uses on this machine

Exit status: 0 when every line was answered or refused, 1 when reading, writing or the engine failed, 2 for a wrong
command line. NO_COLOR in the environment keeps tables plain.
)";
}

}  // namespace clef::cli
