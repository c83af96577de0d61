#include "model/default_model.h"

#include <string>
#include <vector>

#include "base/paths.h"
#include "base/program_path.h"

namespace clef {

namespace {

constexpr int kMaxFoldersUp = 4;  // build/release/bin/clef lies three below its source tree

}  // namespace

Result<std::filesystem::path> find_default_model(const std::filesystem::path& program) {
  const std::filesystem::path folder = program.parent_path();
  std::vector<std::filesystem::path> places = {folder.parent_path() / "share" / "cleffa" / "models"};
  std::filesystem::path above = folder;
  for (int i = 0; i < kMaxFoldersUp && above.has_relative_path(); ++i) {
    above = above.parent_path();
    places.push_back(above / "models");
  }
  std::string looked_at;
  for (const std::filesystem::path& place : places) {
    const std::filesystem::path file = place / kDefaultModelFile;
    if (path_exists(file)) return file;
    looked_at += (looked_at.empty() ? "" : ", ") + place.string();
  }
  return Error{Errc::io,
               fmt::format("-m MODEL is required: no demo model {} was found in {}", kDefaultModelFile, looked_at)};
}

Result<std::filesystem::path> find_default_model() { return find_default_model(TRY(program_path())); }

}  // namespace clef
