#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "base/progress.h"
#include "clef-tool/commands.h"
#include "model/synthetic_snapshot.h"

namespace clef {

namespace {

struct Flags {
  SynthesizeOptions options;
  std::int64_t num_layers = 0;
  bool no_vision = false;
};

int run(const Flags& flags) {
  SynthesizeOptions options = flags.options;
  if (flags.num_layers > 0) options.num_layers = flags.num_layers;
  options.vision = !flags.no_vision;
  const auto start = std::chrono::steady_clock::now();
  Result<SynthesizeReport> report = [&] {
    ProgressBar bar("synth");
    return synthesize(options, bar.function());
  }();
  if (!report) return fail(report.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return print(fmt::format("{}: {} tensors, {:.3f} GB in {} files, {:.1f} s\n", options.out_folder.string(),
                           report->num_tensors, static_cast<double>(report->bytes) / 1e9, report->num_shards, seconds));
}

}  // namespace

void add_synth(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("synth", "Write a model folder whose weights come from a formula");
  command
      ->add_option("CONFIG_DIR", flags->options.config_folder,
                   "Folder with config.json, joint_head_config.json and the processor's and tokenizer's files")
      ->required();
  command->add_option("OUT_DIR", flags->options.out_folder, "Folder to write; made if it is not there")->required();
  command->add_option("--tokenizer", flags->options.tokenizer_folder,
                      "Folder to take tokenizer.json and tokenizer_config.json from, if not CONFIG_DIR");
  command->add_option("--layers", flags->num_layers, "Another number of layers than config.json's")
      ->check(CLI::Range(1, 128));
  command->add_flag("--no-vision", flags->no_vision, "Leave the vision tower out");
  command->add_option("--shard-bytes", flags->options.shard_bytes, "Most bytes of data in one file")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->footer(
      "The same folder gives the same bytes on every machine, so a model of any size can be tested and timed without\n"
      "its weights. The answers mean nothing.\n\n"
      "Examples:\n"
      "  clef-tool synth configs/clef-flash flash --tokenizer tests/golden/clef-tiny\n"
      "  clef-tool synth configs/clef-flash flash4 --layers 4 --no-vision --tokenizer tests/golden/clef-tiny");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
