// clef-tool: model files fetched, made, converted, checked and looked at.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

#include "clef-tool/commands.h"

namespace clef {
namespace {

int run(int argc, char** argv) {
  CLI::App app(
      "Fetches, makes, converts, checks and shows Clef model files.\n"
      "`clef-tool COMMAND --help` explains a command, with examples.",
      "clef-tool");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  int status = 0;
  add_fetch(app, status);
  add_convert(app, status);
  add_verify(app, status);
  add_inspect(app, status);
  add_tokenize(app, status);
  add_encode(app, status);
  add_synth(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  return status;
}

}  // namespace
}  // namespace clef

int main(int argc, char** argv) {
  try {
    return clef::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("clef-tool: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "clef-tool: %s\n", error.what());
  }
  return clef::kExitFailure;
}
