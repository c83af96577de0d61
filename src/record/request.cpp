#include "record/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "record/prompt.h"
#include "text/utf8.h"

namespace clef {
namespace {

constexpr std::size_t kMaxQuotedIdBytes = 200;  // of a question's id in a message

Error bad_request(std::string message) { return {Errc::bad_request, std::move(message)}; }

Error bad_question(const Question& question, std::string_view message) {
  return bad_request(fmt::format("{}: {}", utf8_prefix(question.id, kMaxQuotedIdBytes), message));
}

bool is_falsy(const Json* value) { return value == nullptr || !value->is_truthy(); }

std::string take_rendered(Json& value) {
  if (std::string* text = value.if_string()) return std::move(*text);
  return render(value);
}

// Missing, null and the empty string ask for the question's id instead.
std::string take_instructions(Json* instructions, const std::string& id) {
  if (instructions == nullptr || instructions->is_null()) return id;
  std::string text = take_rendered(*instructions);
  return text.empty() ? id : text;
}

Status read_type(Question& question, const Json* type) {
  const std::string* name = type == nullptr ? nullptr : type->if_string();
  for (const QuestionType known : {QuestionType::noul, QuestionType::choice, QuestionType::score}) {
    if (name != nullptr && *name == name_of(known)) {
      question.type = known;
      return {};
    }
  }
  return bad_question(question, "type must be noul, choice, or score");
}

Status read_noul_options(Question& question, Json* criteria) {
  question.options = {{"true", std::string(prompt::kNoulTrue)}, {"false", std::string(prompt::kNoulFalse)}};
  if (is_falsy(criteria)) return {};
  if (criteria->if_object() == nullptr) {
    return bad_question(question, "noul criteria must be an object (deliberate: lists of pairs are not accepted)");
  }
  for (Option& option : question.options) {
    if (Json* description = criteria->find(option.id)) option.description = std::move(*description);
  }
  return {};
}

Status read_choice_options(Question& question, Json& criteria) {
  Json::Object* members = criteria.if_object();
  if (members == nullptr) return bad_question(question, "choice criteria must be an object");
  for (auto& [id, description] : *members) question.options.push_back({id, std::move(description)});
  return {};
}

Status read_score_options(Question& question, Json& criteria) {
  Json::Array* levels = criteria.if_array();
  if (levels == nullptr) return bad_question(question, "score criteria must be a list");
  for (Json& level : *levels) question.options.push_back({std::to_string(question.options.size()), std::move(level)});
  return {};
}

Status read_options(Question& question, Json* criteria) {
  if (question.type == QuestionType::noul) {
    TRY(read_noul_options(question, criteria));
  } else if (is_falsy(criteria)) {
    return bad_question(question, "criteria must not be empty");
  } else if (question.type == QuestionType::choice) {
    TRY(read_choice_options(question, *criteria));
  } else {
    TRY(read_score_options(question, *criteria));
  }
  for (const Option& option : question.options) question.caller_order.push_back(option.id);
  if (question.type == QuestionType::choice) {
    std::sort(question.options.begin(), question.options.end(),
              [](const Option& a, const Option& b) { return a.id < b.id; });  // by byte, so by code point
  }
  return {};
}

Result<Question> read_question(std::string id, Json& body) {
  Question question{.id = std::move(id), .type = {}, .instructions = {}, .options = {}, .caller_order = {}};
  if (body.if_object() == nullptr) return bad_question(question, "question must be an object");
  TRY(read_type(question, body.find("type")));
  TRY(read_options(question, body.find("criteria")));
  question.instructions = take_instructions(body.find("instructions"), question.id);
  // Differs: the reference means over no tokens, and every answer of the record is NaN.
  if (question.instructions.empty()) return bad_request("question with an empty id needs non-empty instructions");
  return question;
}

Status refuse_audio(const Json& body) {
  if (is_falsy(body.find("audio"))) return {};
  return Error{Errc::unsupported, "audio is not supported by this model file"};
}

}  // namespace

std::string_view name_of(QuestionType type) {
  switch (type) {
    case QuestionType::noul:
      return "noul";
    case QuestionType::choice:
      return "choice";
    case QuestionType::score:
      return "score";
  }
  return "";
}

Result<Request> parse_request(Json body) {
  if (body.if_object() == nullptr) return bad_request("request must be a JSON object");
  Json* model = body.find("model");
  Json* state = body.find("state");
  if (model == nullptr || model->if_string() == nullptr || state == nullptr) {
    return bad_request("model and state are required");
  }
  Json* questions = body.find("questions");
  if (is_falsy(questions) || questions->if_object() == nullptr) return bad_request("at least one question is required");

  Request request;
  for (auto& [id, question] : *questions->if_object()) {
    request.questions.push_back(TRY(read_question(std::move(id), question)));
  }
  TRY(refuse_audio(body));
  request.media = TRY(take_media(body));
  request.model = std::move(*model->if_string());
  request.state = take_rendered(*state);
  return request;
}

}  // namespace clef
