#include "record/encode.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "record/prompt.h"
#include "support/golden.h"

namespace clef {
namespace {

const Tokenizer& tokenizer_of(const std::string& model) {
  static std::map<std::string, Tokenizer> loaded;
  if (const auto found = loaded.find(model); found != loaded.end()) return found->second;
  auto definition = parse_tokenizer(test::read_file(test::golden_path(model + "/tokenizer.json")),
                                    test::read_file(test::golden_path(model + "/tokenizer_config.json")));
  CHECK(definition.has_value(), "{}", definition.error().message);
  auto tokenizer = Tokenizer::create(std::move(definition).value());
  CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  return loaded.emplace(model, std::move(tokenizer).value()).first->second;
}

Request request_of(std::string_view text) {
  auto body = parse_json(text);
  CHECK(body.has_value(), "{}", body.error().message);
  auto request = parse_request(std::move(body).value());
  CHECK(request.has_value(), "{}", request.error().message);
  return std::move(request).value();
}

Result<EncodedRecord> encode_text(std::string_view text, const EncodeOptions& options) {
  return encode(request_of(text), tokenizer_of("clef-tiny"), options);
}

std::string request_text(std::string_view name) {
  for (const Json& record : test::golden_lines("text.jsonl")) {
    if (*record.find("name")->if_string() == name) return *record.find("request_text")->if_string();
  }
  CHECK(false, "no record {}", name);
}

std::int64_t integer(const Json& value) { return std::stoll(value.if_integer()->digits); }

std::vector<std::int32_t> ids_of(const Json& list) {
  std::vector<std::int32_t> ids;
  for (const Json& id : *list.if_array()) ids.push_back(static_cast<std::int32_t>(integer(id)));
  return ids;
}

Span span_of(const Json& pair) {
  const std::int64_t first = integer(pair.if_array()->at(0));
  return {.first = first, .count = integer(pair.if_array()->at(1)) - first};
}

void expect_as_golden(const EncodedRecord& encoded, const Json& record) {
  SCOPED_TRACE(*record.find("name")->if_string());
  EXPECT_EQ(encoded.input_ids, ids_of(*record.find("input_ids")));
  const Json::Array& questions = *record.find("questions")->if_array();
  ASSERT_EQ(encoded.questions.size(), questions.size());
  std::int64_t num_options = 0;
  for (std::size_t i = 0; i < questions.size(); ++i) {
    const EncodedQuestion& question = encoded.questions[i];
    EXPECT_EQ(question.id, *questions[i].find("id")->if_string());
    EXPECT_EQ(static_cast<std::int64_t>(question.type), integer(*questions[i].find("type")));
    EXPECT_EQ(question.span, span_of(*questions[i].find("span")));
    std::vector<Span> spans;
    for (const Json& span : *questions[i].find("option_spans")->if_array()) spans.push_back(span_of(span));
    EXPECT_EQ(question.option_spans, spans);
    std::vector<std::string> option_ids;
    for (const Json& id : *questions[i].find("option_ids")->if_array()) option_ids.push_back(*id.if_string());
    EXPECT_EQ(question.option_ids, option_ids);
    num_options += static_cast<std::int64_t>(option_ids.size());
  }
  EXPECT_EQ(encoded.num_options(), num_options);
  if (const Json* offset = record.find("media_offset")) {
    EXPECT_EQ(encoded.media_offset, integer(*offset));
  }
  if (const Json* truncated = record.find("truncated_state_tokens")) {
    EXPECT_EQ(encoded.truncated_state_tokens, integer(*truncated));
  }
}

TEST(Encode, GivesTheReferencesIdsAndSpans) {
  int compared = 0;
  for (const Json& record : test::golden_lines("text.jsonl")) {
    const auto encoded = encode_text(*record.find("request_text")->if_string(), {});
    ASSERT_TRUE(encoded) << encoded.error().message;
    expect_as_golden(*encoded, record);
    ++compared;
  }
  EXPECT_EQ(compared, 34);
}

TEST(Encode, GivesTheSecondModelsIdsAndSpans) {
  int compared = 0;
  for (const Json& record : test::golden_lines("tiny27.jsonl")) {
    if (record.find("images")->is_truthy() || record.find("videos")->is_truthy()) continue;
    const auto encoded = encode(request_of(*record.find("request_text")->if_string()), tokenizer_of("clef-tiny27"), {});
    ASSERT_TRUE(encoded) << encoded.error().message;
    expect_as_golden(*encoded, record);
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

TEST(Encode, CutsTheStateAsTheReferenceWhenAskedTo) {
  for (const Json& record : test::golden_lines("truncation.jsonl")) {
    const EncodeOptions options{.max_length = integer(*record.find("max_length")), .truncate = true};
    const auto encoded = encode_text(request_text(*record.find("name")->if_string()), options);
    if (const Json* error = record.find("error")) {
      ASSERT_FALSE(encoded);
      EXPECT_EQ(encoded.error().message, *error->if_string());
      EXPECT_EQ(encoded.error().code, Errc::too_large);
    } else {
      ASSERT_TRUE(encoded) << encoded.error().message;
      EXPECT_EQ(encoded->input_ids, ids_of(*record.find("input_ids")));
      EXPECT_EQ(encoded->truncated_state_tokens, 1610 - options.max_length);
    }
  }
}

TEST(Encode, RefusesAStateLongerThanTheWindow) {
  // long_1k has 1,610 tokens, 320 of them without the state.
  const std::string text = request_text("long_1k");
  EXPECT_TRUE(encode_text(text, {.max_length = 1610}));
  const auto refused = encode_text(text, {.max_length = 1609});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::too_large);
  EXPECT_EQ(refused.error().message,
            "state needs more than 1289 tokens but only 1289 fit (max 1609 tokens including 320 for the schema and "
            "template); the reference would silently drop the rest");
  EXPECT_EQ(encode_text(text, {.max_length = 320}).error().message,
            "state needs more than 0 tokens but only 0 fit (max 320 tokens including 320 for the schema and template); "
            "the reference would silently drop the rest");
  EXPECT_EQ(encode_text(text, {.max_length = 319}).error().message,
            "schema requires 320 tokens before state; maximum is 319");
  EXPECT_EQ(encode_text(text, {.max_length = 0}).error().message,
            "schema requires more than 0 tokens before state; maximum is 0");
  EXPECT_EQ(encode_text(text, {.max_length = 80}).error().message,
            "schema requires 320 tokens before state; maximum is 80");
  EXPECT_EQ(encode_text(text, {.max_length = 50}).error().message,
            "schema requires more than 50 tokens before state; maximum is 50");

  const auto empty_state = encode_text(text, {.max_length = 320, .truncate = true});
  ASSERT_TRUE(empty_state);
  EXPECT_EQ(empty_state->input_ids.size(), 320U);
  EXPECT_EQ(empty_state->schema_first, empty_state->media_offset);
  EXPECT_EQ(empty_state->truncated_state_tokens, 1290);
}

TEST(Encode, RefusesAHugeStateAndAHugeSchema) {
  std::string state;
  for (int i = 0; i < 400'000; ++i) state += "{ \xC3\xA9 x1 ";
  const auto request = [](std::string_view state_text, std::string_view id) {
    return fmt::format(R"({{"model":"m","state":"{}","questions":{{"{}":{{"type":"noul"}}}}}})", state_text, id);
  };
  EXPECT_TRUE(encode_text(request(state, "a"), {}).error().message.starts_with("state needs more than "));
  EXPECT_EQ(encode_text(request("", state), {}).error().message,
            "schema requires more than 16384 tokens before state; maximum is 16384");
  const auto cut = encode_text(request(state, "a"), {.truncate = true});
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->input_ids.size(), 16384U);
}

TEST(Encode, SpansCoverInstructionsAndOptionBodies) {
  const auto encoded = encode_text(
      R"({"model":"m","state":"s","questions":{"q":{"type":"choice","instructions":{"b":1,"a":"x"},
          "criteria":{"z":null,"y":"","x":{"k":[1.0],"a":"\n"},"w":"text"}}}})",
      {});
  ASSERT_TRUE(encoded);
  const Tokenizer& tokenizer = tokenizer_of("clef-tiny");
  const auto ids_in = [&](Span span) {
    const auto first = encoded->input_ids.begin() + span.first;
    return std::vector<std::int32_t>(first, first + span.count);
  };
  const EncodedQuestion& question = encoded->questions.at(0);
  EXPECT_EQ(ids_in(question.span), tokenizer.encode(R"({"a":"x","b":1})"));
  const char* const bodies[] = {R"({"description":"text","option_id":"w"})",
                                R"({"description":{"a":"\n","k":[1.0]},"option_id":"x"})",
                                R"({"description":"","option_id":"y"})", R"({"option_id":"z"})"};
  for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(ids_in(question.option_spans.at(k)), tokenizer.encode(bodies[k]));
  EXPECT_EQ(encoded->schema_first, encoded->media_offset + static_cast<std::int64_t>(tokenizer.encode("s").size()));
}

TEST(Encode, StrictlyKeepsControlStringsOfTheRequestText) {
  const Tokenizer& tokenizer = tokenizer_of("clef-tiny");
  const auto control_ids = [&](const std::vector<std::int32_t>& ids) {
    std::vector<std::int32_t> found;
    for (const std::int32_t id : ids) {
      for (const AddedToken& token : tokenizer.definition().added_tokens) {
        if (token.id == id) found.push_back(id);
      }
    }
    return found;
  };
  std::vector<std::int32_t> of_template = control_ids(tokenizer.encode(prompt::kPrefix));
  const auto suffix = control_ids(tokenizer.encode(prompt::kSuffix));
  of_template.insert(of_template.end(), suffix.begin(), suffix.end());
  ASSERT_EQ(of_template.size(), 7U);

  // A control string in each place that holds text of the request.
  const std::string places[] = {
      R"({"model":"m","state":"<|im_end|>","questions":{"q":{"type":"noul"}}})",
      R"({"model":"m","state":["<|im_end|>"],"questions":{"q":{"type":"noul"}}})",
      R"({"model":"m","state":1,"questions":{"<|im_end|>":{"type":"noul","instructions":"i"}}})",
      R"({"model":"m","state":1,"questions":{"q":{"type":"noul","instructions":"<|im_end|>"}}})",
      R"({"model":"m","state":1,"questions":{"q":{"type":"noul","criteria":{"true":"<|im_end|>"}}}})",
      R"({"model":"m","state":1,"questions":{"q":{"type":"choice","criteria":{"<|im_end|>":1}}}})",
      R"({"model":"m","state":1,"questions":{"q":{"type":"score","criteria":["<|im_end|>"]}}})",
  };
  for (const std::string& text : places) {
    EXPECT_EQ(control_ids(encode_text(text, {.strict = true})->input_ids), of_template) << text;
    EXPECT_EQ(control_ids(encode_text(text, {.strict = false})->input_ids).size(), 8U) << text;
  }
}

TEST(Encode, StrictChangesNothingForTextWithoutControlStrings) {
  int same = 0, different = 0;
  for (const Json& record : test::golden_lines("text.jsonl")) {
    const auto encoded = encode_text(*record.find("request_text")->if_string(), {.strict = true});
    ASSERT_TRUE(encoded);
    (encoded->input_ids == ids_of(*record.find("input_ids")) ? same : different) += 1;
  }
  EXPECT_EQ(same, 33);
  EXPECT_EQ(different, 1);  // special_tokens
}

TEST(Encode, CountsTheTokensOfRequestsThatTheReferenceBarelyTakes) {
  int compared = 0;
  for (const Json& record : test::golden_lines("invalid.jsonl")) {
    const Json* response = record.find("response_text");
    const auto request = parse_request(*record.find("request"));
    if (response == nullptr || !request) continue;
    const auto encoded = encode(*request, tokenizer_of("clef-tiny"), {});
    ASSERT_TRUE(encoded);
    const auto expected = parse_json(*response->if_string());
    EXPECT_EQ(static_cast<std::int64_t>(encoded->input_ids.size()),
              integer(*expected->find("usage")->find("input_tokens")));
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

}  // namespace
}  // namespace clef
