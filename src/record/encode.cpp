#include "record/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "record/media_encode.h"
#include "record/media_positions.h"
#include "record/prompt.h"

namespace clef {
namespace {

// How far past the window a schema is counted. A request of a few megabytes could otherwise ask for minutes of work
// only to be told how much too long it is.
constexpr std::int64_t kCountedWindows = 4;

// Appends pieces to a list of ids, each tokenised on its own, until there are more than `enough`.
class PieceWriter {
 public:
  PieceWriter(const Tokenizer& tokenizer, bool strict, std::int64_t enough)
      : tokenizer_(tokenizer), match_asked_(!strict), enough_(enough) {}

  // Our own text, whose control strings are control tokens.
  void write_fixed(std::string_view text) { write(text, true); }
  // Text that holds something of the request.
  Span write_asked(std::string_view text) {
    const std::int64_t first = size();
    write(text, match_asked_);
    return {.first = first, .count = size() - first};
  }

  bool has_enough() const { return size() > enough_; }
  std::int64_t size() const { return static_cast<std::int64_t>(ids_.size()); }
  const std::vector<std::int32_t>& ids() const { return ids_; }

 private:
  void write(std::string_view text, bool match_added_tokens) {
    if (has_enough()) return;
    const auto wanted = static_cast<std::size_t>(enough_ + 1 - size());
    tokenizer_.encode(text, {.match_added_tokens = match_added_tokens, .max_tokens = wanted}, ids_);
  }

  const Tokenizer& tokenizer_;
  const bool match_asked_;
  const std::int64_t enough_;
  std::vector<std::int32_t> ids_;
};

// The object {"description": ..., "option_id": ...} rendered; a null description is left out.
std::string option_body(const Option& option) {
  std::string text = "{";
  if (!option.description.is_null()) {
    text += "\"description\":";
    append_sorted_json(text, option.description);
    text += ',';
  }
  text += "\"option_id\":";
  append_json_string(text, option.id);
  text += '}';
  return text;
}

// `number` counts from 1. The spans count from the schema's own start.
EncodedQuestion write_question(PieceWriter& schema, const Question& question, std::size_t number) {
  EncodedQuestion encoded;
  encoded.id = question.id;
  encoded.type = question.type;
  schema.write_asked(
      fmt::format("\nFIELD {}\nID: {}\nTYPE: {}\nINSTRUCTION: ", number, question.id, name_of(question.type)));
  encoded.span = schema.write_asked(question.instructions);
  schema.write_fixed(prompt::kOptionsHead);
  for (const Option& option : question.options) {
    if (schema.has_enough()) break;
    encoded.option_ids.push_back(option.id);
    schema.write_fixed(fmt::format("OPTION {}: ", encoded.option_ids.size()));
    encoded.option_spans.push_back(schema.write_asked(option_body(option)));
    schema.write_fixed(prompt::kOptionEnd);
  }
  schema.write_fixed(prompt::kFieldEnd);
  return encoded;
}

void shift_spans(EncodedQuestion& question, std::int64_t by) {
  question.span.first += by;
  for (Span& span : question.option_spans) span.first += by;
}

struct State {
  std::vector<std::int32_t> ids;
  std::int64_t truncated = 0;  // tokens cut off its end
};

// `fixed` tokens are taken by everything else.
Result<State> encode_state(const Request& request, const Tokenizer& tokenizer, const EncodeOptions& options,
                           std::int64_t fixed) {
  const auto room = static_cast<std::size_t>(options.max_length - fixed);
  Tokenizer::Options asked{.match_added_tokens = !options.strict};
  if (!options.truncate) asked.max_tokens = room + 1;  // one too many is enough to refuse
  State state;
  tokenizer.encode(request.state, asked, state.ids);
  if (state.ids.size() <= room) return state;
  if (!options.truncate) {
    return Error{
        Errc::too_large,
        fmt::format("state needs more than {} tokens but only {} fit (max {} tokens including {} for the schema "
                    "and template); the reference would silently drop the rest",
                    room, room, options.max_length, fixed)};
  }
  state.truncated = static_cast<std::int64_t>(state.ids.size() - room);
  state.ids.resize(room);
  return state;
}

// Text that spells a pad would stand among those of the media. The reference notices by their number.
Status check_no_pads(const std::vector<std::int32_t>& ids, const VisionInput& vision) {
  const auto is_pad = [&](std::int32_t id) { return id == vision.image_token_id || id == vision.video_token_id; };
  if (std::none_of(ids.begin(), ids.end(), is_pad)) return {};
  return Error{Errc::bad_request, "image placeholder tokens in request content do not match features"};
}

}  // namespace

std::int64_t EncodedRecord::num_options() const {
  std::size_t count = 0;
  for (const EncodedQuestion& question : questions) count += question.option_ids.size();
  return static_cast<std::int64_t>(count);
}

Result<EncodedRecord> encode(const Request& request, const Tokenizer& tokenizer, const EncodeOptions& options) {
  TRY(check_media_counts(request.media, options));
  const std::vector<std::int32_t> prefix = tokenizer.encode(prompt::kPrefix),
                                  suffix = tokenizer.encode(prompt::kSuffix);
  EncodedRecord record;
  PieceWriter schema(tokenizer, options.strict, kCountedWindows * options.max_length);
  schema.write_fixed(prompt::kSchemaHead);
  for (const Question& question : request.questions) {
    if (schema.has_enough()) break;
    record.questions.push_back(write_question(schema, question, record.questions.size() + 1));
  }
  const std::int64_t fixed = static_cast<std::int64_t>(prefix.size() + suffix.size()) + schema.size();
  if (fixed > options.max_length) {
    return Error{Errc::too_large, fmt::format("schema requires {} tokens before state; maximum is {}",
                                              schema.has_enough() ? fmt::format("more than {}", options.max_length)
                                                                  : std::to_string(fixed),
                                              options.max_length)};
  }
  // A state that may not be cut has its place before media have theirs; one that may takes what they leave.
  State state;
  if (!options.truncate) state = TRY(encode_state(request, tokenizer, options, fixed));
  MediaPlan plan =
      TRY(plan_media(request.media, tokenizer, options, fixed + static_cast<std::int64_t>(state.ids.size())));
  const std::vector<std::int32_t> media_ids = std::move(plan.ids);
  if (options.truncate) {
    state = TRY(encode_state(request, tokenizer, options, fixed + static_cast<std::int64_t>(media_ids.size())));
  }
  if (!request.media.empty()) {
    TRY(check_no_pads(state.ids, *options.vision));
    TRY(check_no_pads(schema.ids(), *options.vision));
  }

  record.input_ids.reserve(static_cast<std::size_t>(fixed) + media_ids.size() + state.ids.size());
  const auto append = [&](const std::vector<std::int32_t>& ids) {
    record.input_ids.insert(record.input_ids.end(), ids.begin(), ids.end());
  };
  append(prefix);
  append(media_ids);
  append(state.ids);
  append(schema.ids());
  append(suffix);
  record.media_offset = static_cast<std::int64_t>(prefix.size());
  record.schema_first = static_cast<std::int64_t>(prefix.size() + media_ids.size() + state.ids.size());
  record.truncated_state_tokens = state.truncated;
  for (EncodedQuestion& question : record.questions) shift_spans(question, record.schema_first);
  if (!request.media.empty()) {
    record.media = TRY(load_media(std::move(plan), options.media_limits, record.media_offset));
    record.positions = media_positions(static_cast<std::int64_t>(record.input_ids.size()), record.media);
  }
  return record;
}

}  // namespace clef
