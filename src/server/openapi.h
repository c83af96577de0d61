// The document served at /openapi.json.
#pragma once

#include <string>
#include <string_view>

namespace clef::server {

std::string openapi_document(std::string_view version);

}  // namespace clef::server
