#include "model/token_table.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace clef {

namespace {

// Tokens at a time: as many as keep a GPU busy.
constexpr std::int64_t kTogether = 4096;

}  // namespace

std::size_t TokenTable::bytes(const TextConfig& config, const Precision& precision) {
  if (config.layer_types.empty() || config.layer_types.front() != LayerType::linear_attention) return 0;
  return Arena::bytes_for(config.vocab_size, config.conv_width() + config.value_width(), precision.mixer_dtype(0)) +
         Arena::bytes_for(config.vocab_size, 2 * config.linear_num_value_heads);
}

Result<std::unique_ptr<TokenTable>> TokenTable::make(const Decoder& decoder, const TextConfig& config, Device& device) {
  const Precision precision = precision_for(config, device);
  const std::size_t bytes = TokenTable::bytes(config, precision);
  if (bytes == 0) return std::unique_ptr<TokenTable>();
  std::unique_ptr<TokenTable> table(new TokenTable(device, precision));
  TRY(table->arena_.reset(bytes));
  FirstProducts& rows = table->rows_;
  rows.qkvz =
      table->arena_.take(config.vocab_size, config.conv_width() + config.value_width(), precision.mixer_dtype(0));
  rows.ba = table->arena_.take(config.vocab_size, 2 * config.linear_num_value_heads);

  Arena scratch(device);
  for (std::int64_t first = 0; first < config.vocab_size; first += kTogether) {
    const std::int64_t count = std::min(kTogether, config.vocab_size - first);
    const TokenRows tokens{.tokens = count, .all_tokens = count};
    TRY(scratch.reset(DecoderMemory::bytes(config, tokens, precision)));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(first));
    DeviceTables tables(device);
    const Tensor ids_there = TRY(tables.ints(ids, count));
    const std::unique_ptr<Pass> pass = device.begin();
    decoder.project_tokens(*pass, ids_there, DecoderMemory::take(config, tokens, precision, scratch),
                           {.qkvz = rows.qkvz.row_range(first, count), .ba = rows.ba.row_range(first, count)});
    TRY(pass->finish());
  }
  return table;
}

}  // namespace clef
