#include "model/tensor_table.h"

#include <fmt/ranges.h>

namespace clef {

std::string to_string(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::int64_t count_of(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size < 0) return -1;
    if (size != 0 && count > (std::int64_t{1} << 62) / size) return -1;
    count *= size;
  }
  return count;
}

}  // namespace clef
