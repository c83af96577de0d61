#include "server/openapi.h"

namespace clef::server {

std::string openapi_document(std::string_view version) { return std::string(version); }

}  // namespace clef::server
