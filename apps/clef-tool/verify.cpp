#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/progress.h"
#include "clef-tool/commands.h"
#include "model/verify.h"

namespace clef {

namespace {

struct Flags {
  std::filesystem::path snapshot, gguf;
};

int run(const Flags& flags) {
  const auto report = [&] {
    ProgressBar bar("verify");
    return verify(flags.snapshot, flags.gguf, bar.function());
  }();
  if (!report) return fail(report.error());
  std::string out;
  for (const std::string& difference : report->differences) out += difference + "\n";
  out += fmt::format("{}/{} tensors exact ({:.2f} GB compared)\n", report->num_exact, report->num_expected,
                     static_cast<double>(report->bytes_compared) / 1e9);
  const int status = print(out);
  return report->is_exact() ? status : kExitFailure;
}

}  // namespace

void add_verify(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("verify", "Compare a GGUF with the snapshot it was made from");
  command->add_option("SNAPSHOT", flags->snapshot, "Folder as downloaded from Hugging Face")->required();
  command->add_option("GGUF", flags->gguf, "GGUF to check")->required();
  command->footer(
      "Reads both files whole and compares every value, and the metadata. Prints a line for each difference, then the\n"
      "count. Exit code 0 when all is exact, 1 otherwise.\n\n"
      "Example:\n"
      "  clef-tool verify model-flash gguf/clef-flash.gguf");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
