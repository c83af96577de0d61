// Where the fetching of a model keeps its own files inside the model's folder, for those who fetch and those who open.
#pragma once

#include <string_view>

namespace clef {

inline constexpr std::string_view kDownloadFolder = ".cache/cleffa";
inline constexpr std::string_view kManifestFile = ".cache/cleffa/manifest.json";  // what the folder has to hold
// There from a download's first byte until every file is whole, checked and in its place.
inline constexpr std::string_view kIncompleteFolder = ".cache/cleffa/incomplete";

}  // namespace clef
