// What the request encoder needs to know of a model's tower.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "record/encode.h"

namespace clef {

// From the config and the video processor's definition; what that does not say is the reference's default.
// Errc::bad_model names the member.
Result<VisionInput> vision_input(const VisionConfig& config);

}  // namespace clef
