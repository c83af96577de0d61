// Numbers of a request that have bounds.
#pragma once

#include <cstdint>
#include <optional>

#include "text/json.h"

namespace clef {

// An integer within [least, most]; nothing for another value or type.
std::optional<std::int64_t> small_integer(const Json& value, std::int64_t least, std::int64_t most);

// An integer or a double; infinite where a double cannot hold it.
std::optional<double> number(const Json& value);

}  // namespace clef
