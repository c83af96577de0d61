#include <filesystem>
#include <memory>

#include "clef-tool/commands.h"
#include "clef-tool/lines.h"
#include "model/describe.h"
#include "model/model_file.h"

namespace clef {

namespace {

struct Flags {
  std::filesystem::path model, input = "-";
  EncodeOptions options;
};

Status encode_lines(const Flags& flags) {
  const Tokenizer tokenizer = TRY(Tokenizer::create(TRY(open_tokenizer(flags.model))));
  return for_each_line(flags.input, [&](std::string_view line) {
    return write_stdout(to_compact_json(encode_line(line, tokenizer, flags.options)) + "\n");
  });
}

int run(const Flags& flags) {
  const Status status = encode_lines(flags);
  return status ? 0 : fail(status.error());
}

}  // namespace

void add_encode(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("encode", "Show what the network reads of a request");
  command->add_option("-m,--model", flags->model, "GGUF, or a folder with a tokenizer.json")->required();
  command->add_option("FILE", flags->input, "Requests, one JSON object a line; - is stdin")->capture_default_str();
  command->add_flag("--strict", flags->options.strict, "Request text never becomes a control token");
  command->add_flag("--truncate", flags->options.truncate, "Cut an over-long state at its end instead of refusing it");
  command->add_option("--max-length", flags->options.max_length, "Most tokens of one record")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  command->footer(
      "Prints one JSON object a request: token ids, and the spans of instructions and options; a request that is not\n"
      "valid gives {\"error\": ...}.\n\n"
      "Example:\n"
      "  clef-tool encode -m model-flash requests.jsonl | jq '.input_ids | length'");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
