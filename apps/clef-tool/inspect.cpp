#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "clef-tool/commands.h"
#include "model/inspect.h"

namespace clef {

namespace {

struct Flags {
  std::filesystem::path path;
  bool tensors = false, json = false;
};

int run(const Flags& flags) {
  const auto inspection = inspect(flags.path);
  if (!inspection) return fail(inspection.error());
  return print(flags.json ? to_compact_json(to_json(*inspection, flags.tensors)) + "\n"
                          : to_text(*inspection, flags.tensors));
}

}  // namespace

void add_inspect(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("inspect", "Show what a model file or folder holds");
  command->add_option("PATH", flags->path, "GGUF, snapshot folder or one .safetensors file")->required();
  command->add_flag("--tensors", flags->tensors, "List every tensor");
  command->add_flag("--json", flags->json, "One JSON object in place of the table");
  command->footer(
      "Says also whether the engine would open it, and if not, why.\n\n"
      "Examples:\n"
      "  clef-tool inspect gguf/clef-flash.gguf\n"
      "  clef-tool inspect model-flash --tensors --json | jq '.tensors[].name'");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
