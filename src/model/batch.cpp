#include "model/batch.h"

#include <algorithm>

#include "model/known_prefix.h"

namespace clef {

namespace {

// The batch's tables on the host, in the making.
struct Lists {
  std::vector<std::int32_t> ids, positions, precise_rows, precise_places, cu_seqlens{0}, question_spans, option_spans,
      last_token_spans;
  std::vector<std::int32_t> cu_questions{0}, cu_record_options{0}, cu_options{0}, question_of_option, question_types;

  std::size_t bytes() const {
    std::size_t sum = 0;
    for (const auto* list :
         {&ids, &positions, &precise_rows, &precise_places, &cu_seqlens, &question_spans, &option_spans,
          &last_token_spans, &cu_questions, &cu_record_options, &cu_options, &question_of_option, &question_types}) {
      sum += Arena::bytes_for(1, static_cast<std::int64_t>(list->size()), DType::i32);
    }
    return sum;
  }
};

std::int32_t i32(std::int64_t value) { return static_cast<std::int32_t>(value); }

void append_span(std::vector<std::int32_t>& spans, const Span& span, std::int64_t shift) {
  CHECK(span.count > 0 && span.first + shift >= 0);
  spans.push_back(i32(span.first + shift));
  spans.push_back(i32(span.count));
}

// Of the tokens from `known` on; the largest of all positions comes back.
std::int32_t append_positions(std::vector<std::int32_t>& positions, const EncodedRecord& record, std::int64_t known) {
  const auto count = static_cast<std::int64_t>(record.input_ids.size());
  std::int32_t most = 0;
  for (std::int64_t t = known; t < count; ++t) {
    const std::array position =
        record.positions.empty() ? std::array{i32(t), i32(t), i32(t)} : record.positions[static_cast<std::size_t>(t)];
    for (const std::int32_t p : position) {
      CHECK(p >= 0);
      most = std::max(most, p);
    }
    positions.insert(positions.end(), position.begin(), position.end());
  }
  return most;
}

// Without the record's first `known` tokens. Token t has row first + t, which may be negative for those.
std::int64_t append(Lists& lists, const EncodedRecord& record, std::int64_t known) {
  const std::int64_t first = static_cast<std::int64_t>(lists.ids.size()) - known;
  lists.ids.insert(lists.ids.end(), record.input_ids.begin() + known, record.input_ids.end());
  const auto end = static_cast<std::int64_t>(lists.ids.size());
  lists.precise_places.resize(static_cast<std::size_t>(first + record.schema_first), -1);
  for (std::int64_t t = first + record.schema_first; t < end; ++t) {
    lists.precise_places.push_back(i32(static_cast<std::int64_t>(lists.precise_rows.size())));
    lists.precise_rows.push_back(i32(t));
  }
  lists.cu_seqlens.push_back(lists.cu_seqlens.back() + i32(static_cast<std::int64_t>(record.input_ids.size())));
  for (const EncodedQuestion& question : record.questions) {
    const auto index = i32(static_cast<std::int64_t>(lists.question_types.size()));
    append_span(lists.question_spans, question.span, first);
    append_span(lists.last_token_spans, {.first = end - 1, .count = 1}, 0);
    lists.question_types.push_back(static_cast<std::int32_t>(question.type));
    for (const Span& span : question.option_spans) {
      append_span(lists.option_spans, span, first);
      lists.question_of_option.push_back(index);
    }
    lists.cu_options.push_back(i32(static_cast<std::int64_t>(lists.question_of_option.size())));
  }
  lists.cu_questions.push_back(i32(static_cast<std::int64_t>(lists.question_types.size())));
  lists.cu_record_options.push_back(i32(static_cast<std::int64_t>(lists.question_of_option.size())));
  return first;
}

}  // namespace

Result<Batch> pack(std::span<const EncodedRecord* const> records, const ModelConfig& model, Packing& packing,
                   const PrefixRows* known) {
  const std::int64_t known_tokens = known == nullptr ? 0 : known->tokens;
  const TextConfig& config = model.text;
  Lists lists;
  Batch batch;
  std::vector<std::int64_t> first_tokens;
  std::size_t all_tokens = 0;
  for (const EncodedRecord* record : records) all_tokens += record->input_ids.size();
  lists.positions.reserve(3 * all_tokens);
  std::int32_t last_position = 0;
  for (const EncodedRecord* record : records) {
    CHECK(!record->input_ids.empty() && !record->questions.empty());
    CHECK(record->schema_first >= known_tokens &&
          record->schema_first < static_cast<std::int64_t>(record->input_ids.size()));
    for (const std::int32_t id : record->input_ids) CHECK(id >= 0 && id < config.vocab_size, "token id {}", id);
    first_tokens.push_back(append(lists, *record, known_tokens));
    CHECK(record->positions.empty() || record->positions.size() == record->input_ids.size());
    CHECK(record->media.empty() || record->media_offset >= known_tokens);
    last_position = std::max(last_position, append_positions(lists.positions, *record, known_tokens));
    CHECK(record->media.empty() || model.vision);
    std::vector<std::int64_t>& counts = batch.num_options.emplace_back();
    for (const EncodedQuestion& question : record->questions) {
      counts.push_back(static_cast<std::int64_t>(question.option_spans.size()));
    }
  }
  const auto size = [](const auto& list) { return static_cast<std::int64_t>(list.size()); };
  batch.tokens = size(lists.ids);
  batch.all_tokens = lists.cu_seqlens.back();
  batch.known = known;
  batch.records = size(records);
  batch.questions = size(lists.question_types);
  batch.options = size(lists.question_of_option);
  TRY(packing.angles.reach(last_position));
  batch.cos = packing.angles.cos();
  batch.sin = packing.angles.sin();
  if (packing.tables == nullptr || packing.tables.use_count() > 1) {
    packing.tables = std::make_shared<DeviceTables>(packing.device);
  }
  batch.tables = packing.tables;
  DeviceTables& tables = *batch.tables;
  TRY(tables.start(lists.bytes()));
  const auto row = [&](const std::vector<std::int32_t>& list) { return tables.ints(list, size(list)); };
  batch.ids = TRY(row(lists.ids));
  batch.cu_seqlens = TRY(row(lists.cu_seqlens));
  batch.precise.rows = TRY(row(lists.precise_rows));
  batch.precise.places = TRY(row(lists.precise_places));
  batch.positions = TRY(tables.ints(lists.positions, 3));
  batch.question_spans = TRY(tables.ints(lists.question_spans, 2));
  batch.option_spans = TRY(tables.ints(lists.option_spans, 2));
  batch.last_token_spans = TRY(tables.ints(lists.last_token_spans, 2));
  batch.cu_questions = TRY(row(lists.cu_questions));
  batch.cu_record_options = TRY(row(lists.cu_record_options));
  batch.cu_options = TRY(row(lists.cu_options));
  batch.question_of_option = TRY(row(lists.question_of_option));
  batch.question_types = TRY(row(lists.question_types));
  if (model.vision) batch.vision = TRY(pack_vision(records, first_tokens, *model.vision, *packing.vision, tables));
  TRY(tables.finish());
  return batch;
}

}  // namespace clef
