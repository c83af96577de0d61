// A snapshot's configs, separated by NUL bytes: config.json, joint_head_config.json, processor_config.json,
// synthetic.json. What is accepted must satisfy what every later stage relies on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "model/config.h"
#include "model/synthetic.h"
#include "model/weights_bind.h"

namespace {

std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : part.size());
  return part;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string_view config = take_part(rest), head = take_part(rest), processor = take_part(rest);
  (void)clef::parse_synthetic_options(rest);
  const auto parsed = clef::parse_config("f", {.config = config,
                                               .head_config = head,
                                               .processor = processor,
                                               .image_processor = processor,
                                               .video_processor = rest});
  if (!parsed) return 0;
  CHECK(clef::validate(*parsed).has_value());
  clef::ModelWeights weights;
  for (const clef::Binding& binding : clef::snapshot_bindings(*parsed, weights)) {
    CHECK(clef::count_of(binding.shape) > 0, "{}", binding.name);
  }
  for (const clef::Binding& binding : clef::gguf_bindings(*parsed, weights)) {
    CHECK(clef::count_of(binding.shape) > 0, "{}", binding.name);
  }
  return 0;
}
