#include "record/media_positions.h"

#include <algorithm>

#include "base/check.h"

namespace clef {

std::vector<std::array<std::int32_t, 3>> media_positions(std::int64_t num_tokens, std::span<const EncodedMedia> media) {
  std::vector<std::array<std::int32_t, 3>> positions;
  positions.reserve(static_cast<std::size_t>(num_tokens));
  std::int32_t next = 0;
  const auto text_until = [&](std::int64_t end) {
    CHECK(static_cast<std::int64_t>(positions.size()) <= end);
    for (; static_cast<std::int64_t>(positions.size()) < end; ++next) positions.push_back({next, next, next});
  };
  for (const EncodedMedia& item : media) {
    const auto rows = static_cast<std::int32_t>(item.grid_h / 2), columns = static_cast<std::int32_t>(item.grid_w / 2);
    for (const Span span : item.token_spans) {
      CHECK(span.count == std::int64_t{rows} * columns);
      text_until(span.first);
      for (std::int32_t row = 0; row < rows; ++row) {
        for (std::int32_t column = 0; column < columns; ++column)
          positions.push_back({next, next + row, next + column});
      }
      next += std::max(rows, columns);  // grids are even, so this is half of the longer side
    }
  }
  text_until(num_tokens);
  return positions;
}

}  // namespace clef
