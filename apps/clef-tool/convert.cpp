#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/progress.h"
#include "clef-tool/commands.h"
#include "model/convert.h"

namespace clef {

namespace {

struct Flags {
  std::filesystem::path snapshot, out;
};

int run(const Flags& flags) {
  const auto report = [&] {
    ProgressBar bar("convert");
    return convert(flags.snapshot, flags.out, bar.function());
  }();
  if (!report) return fail(report.error());
  return print(fmt::format("{}: {} tensors, {:.3f} GB\n", flags.out.string(), report->num_tensors,
                           static_cast<double>(report->file_bytes) / 1e9));
}

}  // namespace

void add_convert(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("convert", "Make one GGUF of a snapshot folder");
  command->add_option("SNAPSHOT", flags->snapshot, "Folder as downloaded from Hugging Face")->required();
  command->add_option("OUT", flags->out, "GGUF to write")->required();
  command->footer(
      "Every BF16 value is kept as it is. A snapshot folder also works as it stands, so converting is a choice: one\n"
      "file is easier to move and to map. Check it afterwards with `clef-tool verify`.\n\n"
      "Example:\n"
      "  clef-tool convert model-flash gguf/clef-flash.gguf && clef-tool verify model-flash gguf/clef-flash.gguf");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
