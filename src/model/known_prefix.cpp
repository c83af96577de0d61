#include "model/known_prefix.h"

#include <algorithm>
#include <array>

namespace clef {

namespace {

std::span<const std::int32_t> first_ids(const EncodedRecord& record, std::int64_t tokens) {
  return std::span(record.input_ids).first(static_cast<std::size_t>(tokens));
}

// So many first tokens are neither the request's own nor read by the head one by one. (The schema's rows, where
// questions and options lie, may be precise, and so their bits others.)
std::int64_t fixed_tokens(const EncodedRecord& record) {
  std::int64_t tokens = std::min(record.media_offset, record.schema_first);
  for (const EncodedQuestion& question : record.questions) {
    tokens = std::min(tokens, question.span.first);
    for (const Span& span : question.option_spans) tokens = std::min(tokens, span.first);
  }
  return tokens;
}

// Calls take(tensor, rows, cols, dtype) for each.
template <typename Take>
void each_matrix(PrefixRows& rows, std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
                 const Precision& precision, Take take) {
  take(rows.cu_seqlens, 1, 2, DType::i32);
  rows.layers.resize(config.layer_types.size());
  for (std::int64_t i = 0; i < config.num_layers(); ++i) {
    PrefixRows::Layer& layer = rows.layers[static_cast<std::size_t>(i)];
    if (config.layer_types[static_cast<std::size_t>(i)] == LayerType::full_attention) {
      take(layer.kv, tokens, 2 * config.kv_width(), precision.activation);
    } else {
      take(layer.qkv, tokens, config.conv_width(), precision.mixer_dtype(i));
      take(layer.ba, tokens, 2 * config.linear_num_value_heads, DType::f32);
    }
  }
  take(rows.memory, tokens, head.width, DType::f32);
}

}  // namespace

std::size_t PrefixRows::bytes(std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
                              const Precision& precision) {
  PrefixRows unused;
  std::size_t bytes = 0;
  each_matrix(unused, tokens, config, head, precision, [&](Tensor&, std::int64_t rows, std::int64_t cols, DType dtype) {
    bytes += Arena::bytes_for(rows, cols, dtype);
  });
  return bytes;
}

PrefixRows PrefixRows::take(std::int64_t tokens, const TextConfig& config, const HeadConfig& head,
                            const Precision& precision, Arena& arena) {
  PrefixRows rows;
  rows.tokens = tokens;
  each_matrix(rows, tokens, config, head, precision,
              [&](Tensor& tensor, std::int64_t count, std::int64_t cols, DType dtype) {
                tensor = arena.take(count, cols, dtype);
              });
  return rows;
}

void PrefixRows::keep(Pass& pass, const Tensor& to, const Tensor& x) const {
  pass.run(PrependRows{.y = to, .x = x.row_range(0, tokens), .prefix = {}, .cu_seqlens = cu_seqlens});
}

std::int64_t KnownPrefix::tokens_of(std::span<const EncodedRecord* const> records) {
  std::int64_t tokens = kMostKnownTokens;
  for (const EncodedRecord* record : records) tokens = std::min(tokens, fixed_tokens(*record));
  const auto same = [&](const EncodedRecord* record) {
    return std::ranges::equal(first_ids(*record, tokens), first_ids(*records.front(), tokens));
  };
  return tokens > 0 && std::ranges::all_of(records, same) ? tokens : 0;
}

bool KnownPrefix::is_of(std::span<const EncodedRecord* const> records) const {
  return is_known_ && std::ranges::all_of(records, [&](const EncodedRecord* record) {
           const auto tokens = static_cast<std::int64_t>(ids_.size());
           return fixed_tokens(*record) >= tokens && std::ranges::equal(first_ids(*record, tokens), ids_);
         });
}

Status KnownPrefix::begin(const EncodedRecord& record, std::int64_t tokens, const TextConfig& config,
                          const HeadConfig& head, const Precision& precision) {
  is_known_ = false;
  const auto first = first_ids(record, tokens);
  ids_.assign(first.begin(), first.end());
  TRY(arena_.reset(PrefixRows::bytes(tokens, config, head, precision)));
  rows_ = PrefixRows::take(tokens, config, head, precision, arena_);
  const std::array<std::int32_t, 2> ends{0, static_cast<std::int32_t>(tokens)};
  return device_.upload(rows_.cu_seqlens, std::as_bytes(std::span(ends)));
}

}  // namespace clef
