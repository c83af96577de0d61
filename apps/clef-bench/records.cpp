// Records whose lengths are chosen; what they say does not touch the speed.
#include <algorithm>

#include "clef-bench/bench.h"

namespace clef::bench {

namespace {
constexpr std::int64_t kFixedTokens = 36;  // with which Clef's prompts begin
}

EncodedRecord make_record(std::int64_t tokens, std::int64_t vocab_size, std::uint32_t seed) {
  EncodedRecord record;
  std::uint32_t state = seed;
  for (std::int64_t t = 0; t < kFixedTokens; ++t) record.input_ids.push_back(static_cast<std::int32_t>(t));
  for (std::int64_t t = kFixedTokens; t < tokens; ++t) {
    state = state * 1664525U + 1013904223U;
    record.input_ids.push_back(static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(vocab_size)));
  }
  EncodedQuestion question;
  question.id = "q";
  question.type = QuestionType::choice;
  question.span = {.first = tokens - 60, .count = 8};
  for (std::int64_t k = 0; k < 3; ++k) {
    question.option_spans.push_back({.first = tokens - 50 + 12 * k, .count = 8});
    question.option_ids.push_back(std::to_string(k));
  }
  record.questions.push_back(std::move(question));
  record.media_offset = kFixedTokens;
  record.schema_first = std::max(tokens - 64, kFixedTokens);
  return record;
}

EncodedMedia make_image(std::int64_t patches, const VisionConfig& config) {
  EncodedMedia image;
  image.grid_h = 2;
  for (std::int64_t h = 2; h * h <= patches; h += 2) {
    if (patches % (2 * h) == 0) image.grid_h = h;
  }
  image.grid_w = patches / image.grid_h;
  image.token_spans = {{.first = kFixedTokens, .count = patches / 4}};
  image.patches.resize(static_cast<std::size_t>(patches * config.patch_width()));
  std::uint32_t state = 1;
  for (std::uint8_t& level : image.patches) {
    level = static_cast<std::uint8_t>((state = state * 1664525U + 1013904223U) >> 24);
  }
  return image;
}

EncodedRecord make_image_record(std::int64_t patches, std::int64_t tokens, const VisionConfig& config,
                                std::int64_t vocab_size) {
  EncodedRecord record = make_record(patches / 4 + tokens, vocab_size, 1);
  record.media.push_back(make_image(patches, config));
  return record;
}

}  // namespace clef::bench
