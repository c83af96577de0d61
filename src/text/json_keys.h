// Repeated keys of an object, resolved as Python's dict does.
#pragma once

#include "text/json.h"

namespace clef {

// Leaves each key once, at its first position, with its last value. Linear in the members' text.
void resolve_repeated_keys(Json::Object& members);

}  // namespace clef
