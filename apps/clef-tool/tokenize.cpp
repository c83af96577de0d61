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
  bool strict = false, pattern = false, raw = false, pieces = false;
};

Status tokenize(const Flags& flags) {
  const Tokenizer tokenizer = TRY(Tokenizer::create(TRY(open_tokenizer(flags.model))));
  if (flags.pattern) {
    return write_stdout(tokenizer.definition().pattern == SplitPattern::qwen2 ? "qwen2\n" : "qwen35\n");
  }
  const auto answer = [&](std::string_view text) {
    return write_stdout(to_compact_json(tokenize_text(text, tokenizer, flags.strict, flags.pieces)) + "\n");
  };
  if (flags.raw) {
    const std::string text = TRY(read_all(flags.input));
    TRY(require_utf8(text));
    return answer(text);
  }
  return for_each_line(flags.input, [&](std::string_view line) -> Status {
    const Json value = TRY(parse_json(line));
    const std::string* text = value.if_string();
    if (text == nullptr) {
      return Error{
          Errc::bad_request,
          fmt::format("expected a JSON string on every line, got {} (--raw takes plain text)", value.type_name())};
    }
    return answer(*text);
  });
}

int run(const Flags& flags) {
  const Status status = tokenize(flags);
  return status ? 0 : fail(status.error());
}

}  // namespace

void add_tokenize(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into token ids");
  command->add_option("-m,--model", flags->model, "GGUF, or a folder with a tokenizer.json")->required();
  command->add_option("FILE", flags->input, "Input; - is stdin")->capture_default_str();
  command->add_flag("--raw", flags->raw, "The input is one plain text, not a JSON string a line");
  command->add_flag("--strict", flags->strict, "Control strings in the text stay text");
  command->add_flag("--pieces", flags->pieces, "Show the words the text is split into, not ids");
  command->add_flag("--pattern", flags->pattern, "Show which split pattern the model uses, and stop");
  command->footer(
      "Prints one JSON list for each text.\n\n"
      "Examples:\n"
      "  echo '\"Checkout is down\"' | clef-tool tokenize -m model-flash\n"
      "  clef-tool tokenize -m clef-flash.gguf --raw --pieces README.md");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
