#include "clef/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "backend/open.h"
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

void add_text(CLI::App& app, const std::string& name, std::optional<std::string>& text) {
  app.add_option_function<std::string>(name, [&text](const std::string& given) { text = given; });
}

// May be given several times, with one value each.
void add_texts(CLI::App& app, const std::string& name, std::vector<std::string>& texts) {
  app.add_option(name, texts)->allow_extra_args(false);
}

void declare_asking(CLI::App& app, Options& options) {
  Asking& ask = options.ask;
  add_texts(app, "--ask", ask.questions);
  add_text(app, "--state", ask.state);
  add_text(app, "--state-file", ask.state_file);
  app.add_flag("--state-json", ask.state_is_json);
  add_texts(app, "--image", ask.images);
  add_text(app, "--frames", ask.frames);
  app.add_option_function<std::string>("--fps", [&ask](const std::string& text) {
    ask.fps = frame_rate(text);
    if (!ask.fps) {
      throw CLI::ValidationError(fmt::format("--fps: expected a number above 0 and up to 1000, got '{}'", text));
    }
  });
  app.add_flag("--print-request", options.print_request);
}

void declare(CLI::App& app, Options& options) {
  app.set_help_flag();  // help is text of ours, see below
  app.add_flag("-h,--help", options.help);
  app.add_flag("--version", options.version);
  app.add_option("-m,--model", options.model);
  app.add_option("inputs", options.inputs);
  declare_asking(app, options);
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
  app.add_option("--device", options.device);
  app.add_option_function<std::string>("--f32-layers", [&options](const std::string& text) {
    if (const Status status = check_f32_layers(text); !status) {
      throw CLI::ValidationError("--f32-layers: " + status.error().message);
    }
    options.f32_layers = text;
  });
  app.add_flag("!--no-token-table", options.token_table);
  add_whole_number(app, "--threads", 1, kMaxThreads,
                   [&](std::int64_t n) { options.num_threads = static_cast<int>(n); });
  add_whole_number(app, "--batch", 1, kMaxBatch, [&](std::int64_t n) { options.batch = n; });
  add_whole_number(app, "--max-length", 1, kMaxLength, [&](std::int64_t n) { options.max_length = n; });
  add_whole_number(app, "--max-tokens-in-flight", 1, kMaxLength,
                   [&](std::int64_t n) { options.max_tokens_in_flight = n; });
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

Error wrong(std::string message) { return {Errc::bad_request, std::move(message)}; }

// Which of the options about one question are there without the others that they need.
Status check_asking(const Options& options) {
  const Asking& ask = options.ask;
  if (ask.questions.empty()) {
    const std::pair<const char*, bool> all[] = {
        {"--state", ask.state.has_value()},        {"--state-file", ask.state_file.has_value()},
        {"--state-json", ask.state_is_json},       {"--image", !ask.images.empty()},
        {"--frames", ask.frames.has_value()},      {"--fps", ask.fps.has_value()},
        {"--print-request", options.print_request}};
    for (const auto& [name, is_given] : all) {
      if (is_given) return wrong(fmt::format("{} needs --ask", name));
    }
    return {};
  }
  if (!options.inputs.empty()) {
    return wrong(fmt::format("--ask makes the request: expected no file of requests, got '{}'", options.inputs[0]));
  }
  if (ask.state && ask.state_file) return wrong("expected --state or --state-file, got both");
  const bool has_state = ask.state || ask.state_file;
  if (ask.state_is_json && !has_state) return wrong("--state-json needs --state or --state-file");
  if (ask.frames.has_value() != ask.fps.has_value()) {
    return wrong(ask.frames ? "--frames needs --fps, the video's frames a second" : "--fps needs --frames");
  }
  if (!has_state && ask.images.empty() && !ask.frames) {
    return wrong("--ask needs what it is about: --state, --state-file, --image or --frames");
  }
  return {};
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
  TRY(check_asking(options));
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

Usage: clef [-m MODEL] [options] [requests.jsonl ...]
       clef [-m MODEL] [options] --ask QUESTION ... [--state TEXT] [--image FILE ...] [--frames DIR --fps F]
       clef doctor               says what this machine has, which models it can run, and about how fast

MODEL is a Hugging Face snapshot folder of a Clef model (clef-tool fetch brings one), one GGUF file made from it by
clef-tool, or ORG/NAME of a model that is already in the Hugging Face hub's cache on this machine. Requests are
JSON, one object a line, from the files given, or from standard input without one ("-" names it among files). Each
line gets one answer, in order; a line that cannot be answered gets {"error":"..."} and the others go on. With --ask
the request is made of the command line instead.

Examples:
  # Questions without JSON: yes or no, one of several options, a level of several from lowest to highest.
  clef -m clef-flash --state 'Checkout is down' --ask 'outage: Is this an outage?' \
    --ask 'team = web | payments (cards, refunds) | data: Who should take it?' \
    --ask 'urgency = whenever < this week < today < now: How urgent is it?'

  # About an image, or a video whose frames DIR holds.
  clef -m clef-flash --image receipt.jpg --ask 'legible: Is the total legible?'
  clef -m clef-flash --frames DIR --fps 24 --ask 'fall: Does somebody fall?'

  # One question in JSON. "noul" is a yes-or-no question; the answer is the probability of yes.
  echo '{"model":"clef","state":"Checkout is down","questions":{"outage":{"type":"noul"}}}' | clef -m clef-flash

  # "choice" picks one of the named options, "score" one level of a list from worst to best. Questions of one request
  # are decided jointly. The state may be any JSON value.
  echo '{"model":"clef","state":{"subject":"Refund?","body":"It never came."},"questions":{
    "intent":{"type":"choice","criteria":{"refund":"Wants money back","track":null}},
    "anger":{"type":"score","instructions":"How angry?","criteria":["calm","annoyed","furious"]}}}' |
    tr -d '\n' | clef -m clef-flash --format table

  # A file of requests, eight to a pass of the network, answers and the time they took.
  clef -m clef-flash --batch 8 --timings requests.jsonl > answers.jsonl

Asking without JSON:
  --ask QUESTION       ID: TEXT                   yes or no
                       ID = A | B (about B): TEXT one of the options; what stands in parentheses describes one
                       ID = LOW < HIGH: TEXT      one of the levels, lowest first
                       Without ": TEXT" the id is the text. Before it, "\" makes one of : = | < ( ) \ plain. May be
                       given several times: the questions of one request are decided jointly
  --state TEXT         what the questions are about
  --state-file FILE    the same from a file, "-" for standard input; a line end at its end does not count
  --state-json         the state is JSON, not text
  --image FILE         an image: PNG, JPEG, WebP, GIF or BMP. May be given several times
  --frames DIR         a video: every file of DIR is a frame, frame2 before frame10; hidden files are left out
  --fps F              frames a second of that video
  --print-request      write the request as JSON, images and all, and answer nothing; needs no model

Model and input:
  -m, --model MODEL    snapshot folder or GGUF file (default: the demo model that comes with cleffa, which is tiny and
                       no Clef model)
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
  --timings            tell on standard error how long loading and each pass took, and what memory passes need
  --trace FILE         write the layer outputs of the first request to FILE, in the safetensors format

Work:
  --batch N            requests packed in one pass of the network, 1 to 256 (default 1). The answers are the same
  --max-tokens-in-flight N
                       tokens of one pass of the network, and so of one request: on a GPU memory for so many has to be
                       free at the start (default: 16384, or --max-length when that is more)
  --device NAME        auto, cpu, cuda or cuda:N (default auto: the first GPU that can be used, or else the CPU)
  --f32-layers N       on a GPU: layers, from the first, whose activations keep f32's accuracy; all: every one. More is
                       slower and nearer to the CPU's answers (default 7; small models: all)
  --no-token-table     on a GPU: do not keep what the first layer makes of each token of the vocabulary (12 GB with
                       Clef-Flash), which is done where there is room, saves 1 % of the time and changes no answer
  --threads N          threads, 1 to 1024 (default: one a CPU that this process may use). The answers are the same

  -h, --help           this text
  --version            what this program was built from, and what it uses on this machine

Exit status: 0 when every line was answered or refused, 1 when reading, writing or the engine failed or what --ask
asked was refused, 2 for a wrong command line. NO_COLOR in the environment keeps tables plain.
)";
}

}  // namespace clef::cli
