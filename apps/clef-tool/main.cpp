// clef-tool: model files made, converted, checked and looked at.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

#include "clef-tool/commands.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Makes, converts, checks and shows Clef model files.\n"
      "`clef-tool COMMAND --help` explains a command, with examples.",
      "clef-tool");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of every command");
  int status = 0;
  clef::add_convert(app, status);
  clef::add_verify(app, status);
  clef::add_inspect(app, status);
  clef::add_tokenize(app, status);
  clef::add_encode(app, status);
  clef::add_synth(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? 0 : clef::kExitUsage;
  } catch (const std::bad_alloc&) {
    std::fputs("clef-tool: out of memory\n", stderr);
    return clef::kExitFailure;
  }
  return status;
}
