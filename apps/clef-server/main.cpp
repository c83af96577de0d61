// clef-server: answers requests of a network with a model on this machine.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "clef-server/options.h"
#include "clef-server/serve.h"
#include "clef-server/version.h"
#include "model/default_model.h"
#include "server/openapi.h"

namespace clef::server_app {
namespace {

constexpr int kUsage = 2;

int run(const std::vector<std::string>& arguments) {
  auto parsed = parse_options(arguments);
  if (!parsed) {
    complain(parsed.error().message);
    complain("see clef-server --help");
    return kUsage;
  }
  Options options = std::move(parsed).value();
  const auto print = [](const std::string& text) {
    const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return is_written ? EXIT_SUCCESS : EXIT_FAILURE;
  };
  if (options.help) return print(help_text());
  if (options.version) return print(version_text());
  if (options.print_openapi) return print(server::openapi_document(version_number()));
  if (options.model.empty()) {
    const auto found = find_default_model();
    if (!found) {
      complain(found.error().message);
      return kUsage;
    }
    set_model(options, *found);
    complain(kDefaultModelNotice);
  }
  options.service.version = version_number();
  return serve(std::move(options));
}

}  // namespace
}  // namespace clef::server_app

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a client that goes away is an error of its connection alone
  try {
    return clef::server_app::run({argv + 1, argv + argc});
  } catch (const std::bad_alloc&) {
    std::fputs("clef-server: out of memory\n", stderr);
    return EXIT_FAILURE;
  }
}
