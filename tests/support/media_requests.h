// Requests with the golden pictures and clips in them.
#pragma once

#include <string>
#include <vector>

#include "text/json.h"

namespace clef::test {

// The request of a golden record, with its images as data URLs and the clips `videos` as frames.
Json media_request(const Json& record, const std::vector<std::string>& videos);

// The clips of a golden record: those it lists, or, in video.jsonl, the one it is named after.
std::vector<std::string> videos_of(const Json& record);

}  // namespace clef::test
