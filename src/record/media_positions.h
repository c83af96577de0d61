// Where tokens stand for the rotary embedding of a record with media.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "record/encode.h"

namespace clef {

// (temporal, height, width) of each of `num_tokens` tokens. Text counts on along all axes. The tokens of an image, or
// of one slice of a video, share their temporal place and spread over height and width; the text after them goes on
// past the longer side. Source: get_rope_index, modeling_qwen3_5.py.
std::vector<std::array<std::int32_t, 3>> media_positions(std::int64_t num_tokens, std::span<const EncodedMedia> media);

}  // namespace clef
