// Bodies that came compressed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace clef::server {

// One gzip stream, no bytes after it. Errc::too_large as soon as it passes max_bytes, bad_request when it is none.
Result<std::string> gunzip(std::string_view compressed, std::size_t max_bytes);

}  // namespace clef::server
