#include "fetch/fetch.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "clef-tool/commands.h"
#include "model/convert.h"
#include "model/verify.h"

namespace clef {

namespace {

struct Flags {
  std::string model, revision, token;
  std::filesystem::path dir, convert_to;
  fetch::FetchOptions options;
  double retry_delay_s = 1;
  bool verify = false;
};

// Lines for people and a bar below them, on stderr. Without a terminal there are lines alone.
class Display {
 public:
  void progress(const char* label, std::uint64_t done, std::uint64_t total) {
    const std::lock_guard lock(mutex_);
    if (!bar_ || label_ != label) {
      bar_.emplace(label);
      label_ = label;
    }
    bar_->update(done, total);
    if (done >= total) bar_.reset();
  }
  void note(const std::string& line) {
    const std::lock_guard lock(mutex_);
    bar_.reset();  // ends its line; the next step draws another
    std::fputs(fmt::format("clef-tool: {}\n", line).c_str(), stderr);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    bar_.reset();
  }

 private:
  std::mutex mutex_;
  std::optional<ProgressBar> bar_;
  std::string label_;
};

Status prepare(Flags& flags) {
  fetch::FetchOptions& options = flags.options;
  options.source = TRY(fetch::find_source(flags.model, flags.revision));
  options.folder = flags.dir.empty() ? std::filesystem::path(options.source.name) : flags.dir;
  if (flags.verify && flags.convert_to.empty()) {
    return Error{Errc::bad_request, "--verify needs --convert OUT.gguf"};
  }
  fetch::DownloadOptions& download = options.download;
  download.hub = fetch::hub_settings([](const char* name) { return std::getenv(name); });
  if (!flags.token.empty()) download.hub.token = flags.token;
  const long stall_timeout_s = download.http.stall_timeout_s;
  download.http = TRY(fetch::http_options(download.hub));
  download.http.stall_timeout_s = stall_timeout_s;
  download.retry.first = std::chrono::milliseconds(static_cast<std::int64_t>(flags.retry_delay_s * 1000));
  options.hash_threads = std::max(1, std::min(available_cpus(), 8));
  return {};
}

std::string summary(const Flags& flags, const fetch::FetchReport& report, double seconds) {
  const fetch::Manifest& manifest = report.manifest;
  std::string out = fmt::format("{}: {} files of {} at {}, {:.2f} GB, every byte checked",
                                flags.options.folder.string(), manifest.files.size(), manifest.repo, manifest.revision,
                                static_cast<double>(manifest.total_bytes()) / 1e9);
  if (report.totals.fetched_bytes > 0) {
    out +=
        fmt::format("; {:.2f} GB fetched in {:.1f} s", static_cast<double>(report.totals.fetched_bytes) / 1e9, seconds);
  }
  out += '\n';
  if (report.is_first_use) {
    out += fmt::format(
        "The digests of this revision are not built into this program. These are what the hub stated, and the files\n"
        "agree with them; {} keeps them, and later fetches hold the folder to them:\n",
        (flags.options.folder / ".cache/cleffa/manifest.json").string());
    for (const fetch::ManifestFile& file : manifest.files) {
      out += fmt::format("  {}  {}  {}\n", file.digest, file.size, file.path);
    }
  }
  return out;
}

Status convert_after(const Flags& flags) {
  {
    ProgressBar bar("convert");
    TRY(convert(flags.options.folder, flags.convert_to, bar.function()));
  }
  if (!flags.verify) return {};
  ProgressBar bar("verify");
  const VerifyReport report = TRY(verify(flags.options.folder, flags.convert_to, bar.function()));
  if (report.is_exact()) return {};
  std::string differences;
  for (const std::string& difference : report.differences) differences += "\n" + difference;
  return Error{Errc::bad_model,
               fmt::format("{}: differs from the snapshot:{}", flags.convert_to.string(), differences)};
}

int run(Flags& flags) {
  if (const Status ready = prepare(flags); !ready) {
    fail(ready.error());
    return ready.error().code == Errc::bad_request ? kExitUsage : kExitFailure;
  }
  const auto start = std::chrono::steady_clock::now();
  Display display;
  const auto report = fetch::fetch(
      flags.options,
      {.checking = [&](std::uint64_t done, std::uint64_t total) { display.progress("check", done, total); },
       .fetching = [&](std::uint64_t done, std::uint64_t total) { display.progress("fetch", done, total); },
       .note = [&](const std::string& line) { display.note(line); }});
  display.end();
  if (!report) return fail(report.error());
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const int printed = print(summary(flags, *report, seconds));
  if (printed != 0 || flags.convert_to.empty()) return printed;
  if (const Status converted = convert_after(flags); !converted) return fail(converted.error());
  return print(fmt::format("{}: made{}\n", flags.convert_to.string(), flags.verify ? ", and exact" : ""));
}

}  // namespace

void add_fetch(CLI::App& app, int& status) {
  auto flags = std::make_shared<Flags>();
  fetch::DownloadOptions& download = flags->options.download;
  CLI::App* command = app.add_subcommand("fetch", "Bring a model from the Hugging Face hub, every byte checked");
  command->add_option("MODEL", flags->model, "clef-flash, clef, clef-omni, or ORG/NAME on the hub")->required();
  command->add_option("--dir", flags->dir, "Folder to put it in; without it, the model's name");
  command->add_option("--revision", flags->revision, "Commit, branch or tag; without it, the pinned one, or main");
  command->add_option("--token", flags->token, "Token for the hub; HF_TOKEN does not show in the list of processes");
  command->add_flag("--skip-download", flags->options.skip_download, "Check what is there, without the network");
  command->add_flag("--repair", flags->options.repair, "Fetch files that differ again, instead of refusing them");
  command->add_option("--convert", flags->convert_to, "Then make this GGUF of it");
  command->add_flag("--verify", flags->verify, "Then compare the GGUF with the snapshot, value by value");
  command->add_option("--connections", download.connections, "Transfers at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--tries", download.retry.max_tries, "Tries in a row that bring nothing before giving up")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--retry-delay", flags->retry_delay_s, "Seconds before the second try; doubled for each further one")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--stall-timeout", download.http.stall_timeout_s,
                   "Seconds without data before a transfer is tried anew")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command->footer(
      "Files are hashed while they arrive and take their names only when they are whole and right; stopped at any "
      "point,\n"
      "the same command goes on where it was. A folder with other files, links or changed files is refused, each "
      "named.\n"
      "HF_TOKEN, HF_ENDPOINT, HF_HOME and the proxy variables (https_proxy, no_proxy) count. The token is sent to the\n"
      "hub alone.\n\n"
      "Examples:\n"
      "  clef-tool fetch clef-flash                                     # 19 GB into ./clef-flash\n"
      "  clef-tool fetch clef --dir /models/clef --convert /models/clef.gguf --verify\n"
      "  clef-tool fetch clef-flash --skip-download                     # check every byte of what is there");
  command->callback([flags, &status] { status = run(*flags); });
}

}  // namespace clef
