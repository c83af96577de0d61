// The files of src/fetch/manifests as text; the definition is made by CMake.
#pragma once

#include <span>
#include <string_view>

namespace clef::fetch {

std::span<const std::string_view> manifest_texts();

}  // namespace clef::fetch
