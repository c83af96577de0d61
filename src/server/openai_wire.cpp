#include "server/openai_wire.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/check.h"

namespace clef::server {
namespace {

using Path = std::vector<Step>;

Path below(Path path, Step step) {
  path.push_back(std::move(step));
  return path;
}

std::optional<Failure> refusal(Path path, std::string message, std::string type = "value_error") {
  return invalid({{std::move(path), std::move(message), std::move(type)}});
}

std::string text_of(const Json* value) {
  const std::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? "" : *text;
}

// The criteria's label: booleans are told apart from the strings that spell them by the answer's `value`.
std::optional<std::string> label_of(const Json& value) {
  if (const std::string* text = value.if_string()) return *text;
  if (const bool* truth = value.if_bool()) return std::string(*truth ? "true" : "false");
  return std::nullopt;
}

std::optional<Failure> read_choices(const Json* choices, const Path& path, OpenAiQuestion& question, Json& criteria) {
  if (choices == nullptr || choices->if_array() == nullptr) return refusal(path, "expected a list of choices");
  Json::Object labels;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < choices->if_array()->size(); ++i) {
    const Json& choice = (*choices->if_array())[i];
    const Path here = below(path, static_cast<std::int64_t>(i));
    const Json* value = choice.find("value");
    const auto label = value == nullptr ? std::nullopt : label_of(*value);
    if (!label) return refusal(below(here, "value"), "expected a string or a boolean");
    if (!seen.insert(*label).second) return refusal(below(here, "value"), "is there already");
    const Json* description = choice.find("description");
    labels.emplace_back(*label, description == nullptr ? Json() : *description);
    question.values.push_back(*value);
  }
  criteria = std::move(labels);
  return std::nullopt;
}

std::optional<Failure> read_levels(const Json* levels, const Path& path, OpenAiQuestion& question, Json& criteria) {
  if (levels == nullptr || levels->if_array() == nullptr) return refusal(path, "expected a list of levels");
  Json::Array list;
  for (std::size_t i = 0; i < levels->if_array()->size(); ++i) {
    const Json& level = (*levels->if_array())[i];
    const Json* label = level.find("label");
    if (label == nullptr || label->if_string() == nullptr) {
      return refusal(below(below(path, static_cast<std::int64_t>(i)), "label"), "expected a string");
    }
    const Json* description = level.find("description");
    if (description == nullptr || description->is_null()) {
      list.push_back(*label);
    } else {
      list.emplace_back(Json::Object{{"label", *label}, {"description", *description}});
    }
    question.labels.push_back(*label);
  }
  criteria = std::move(list);
  return std::nullopt;
}

std::optional<Failure> read_question(const Json& sent, const Path& path, const ShapeLimits& limits,
                                     OpenAiQuestion& question, Json& asked) {
  if (sent.if_object() == nullptr) return refusal(path, "expected an object", "type_error");
  const std::string type = text_of(sent.find("type"));
  Json::Object object;
  Json criteria;
  std::optional<Failure> failure;
  if (type == "predicate") {
    object.emplace_back("type", "noul");
  } else if (type == "choice") {
    question.type = OpenAiQuestion::Type::choice;
    object.emplace_back("type", "choice");
    failure = read_choices(sent.find("choices"), below(path, "choices"), question, criteria);
    const std::size_t count = question.values.size();
    if (!failure && (count < limits.min_choices || count > limits.max_choices)) {
      failure = refusal(below(path, "choices"),
                        fmt::format("need {} to {} choices, got {}", limits.min_choices, limits.max_choices, count));
    }
  } else if (type == "score") {
    question.type = OpenAiQuestion::Type::score;
    object.emplace_back("type", "score");
    failure = read_levels(sent.find("levels"), below(path, "levels"), question, criteria);
    const std::size_t count = question.labels.size();
    if (!failure && (count < limits.min_levels || count > limits.max_levels)) {
      failure = refusal(below(path, "levels"),
                        fmt::format("need {} to {} levels, got {}", limits.min_levels, limits.max_levels, count));
    }
  } else {
    return refusal(below(path, "type"), "type must be predicate, choice, or score", "unknown_type");
  }
  if (failure) return failure;
  if (const Json* instructions = sent.find("instructions")) object.emplace_back("instructions", *instructions);
  if (!criteria.is_null()) object.emplace_back("criteria", std::move(criteria));
  asked = std::move(object);
  return std::nullopt;
}

// Takes the pictures out of a list of messages and parts.
void take_images(Json& value, Json::Array& images, int depth) {
  Json::Array* list = value.if_array();
  if (list == nullptr || depth > 2) return;  // messages, their parts
  Json::Array kept;
  for (Json& element : *list) {
    if (text_of(element.find("type")) == "input_image" && element.find("image_url") != nullptr) {
      images.push_back(std::move(*element.find("image_url")));
      continue;
    }
    if (Json* content = element.find("content")) take_images(*content, images, depth + 1);
    kept.push_back(std::move(element));
  }
  *list = std::move(kept);
}

Json probabilities_of(const OpenAiQuestion& question, const Json::Object& answered) {
  Json::Array list;
  for (std::size_t i = 0; i < answered.size(); ++i) {
    Json::Object entry;
    if (question.type == OpenAiQuestion::Type::choice) {
      entry.emplace_back("value", question.values.at(i));
    } else {
      entry.emplace_back("value", static_cast<std::int64_t>(i));
      entry.emplace_back("label", question.labels.at(i));
    }
    entry.emplace_back("probability", answered[i].second);
    list.emplace_back(std::move(entry));
  }
  return list;
}

Json chosen_value(const OpenAiQuestion& question, const std::string& label) {
  for (const Json& value : question.values) {
    if (label_of(value) == label) return value;
  }
  return label;
}

}  // namespace

std::optional<Failure> read_openai(Json body, const ShapeLimits& limits, OpenAiRequest& request) {
  if (body.if_object() == nullptr) return refusal({"body"}, "expected an object", "type_error");
  const Json* model = body.find("model");
  if (model == nullptr || model->if_string() == nullptr)
    return refusal({"body", "model"}, "expected a string", "missing");
  Json* input = body.find("input");
  if (input == nullptr || (input->if_string() == nullptr && input->if_array() == nullptr)) {
    return refusal({"body", "input"}, "expected a string or a list", "missing");
  }
  const Json* questions = body.find("questions");
  const Json::Array* list = questions == nullptr ? nullptr : questions->if_array();
  if (list == nullptr || list->empty() || list->size() > kMaxOpenAiQuestions) {
    return refusal({"body", "questions"}, fmt::format("expected a list of 1 to {} questions", kMaxOpenAiQuestions),
                   "missing_questions");
  }

  std::set<std::string> ids;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json* name = (*list)[i].find("name");
    if (name == nullptr || name->is_null()) continue;
    const Path path = {"body", "questions", static_cast<std::int64_t>(i), "name"};
    if (name->if_string() == nullptr || name->if_string()->empty()) return refusal(path, "expected a string");
    if (!ids.insert(*name->if_string()).second) return refusal(path, "another question has this name");
  }
  Json::Object asked;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& sent = (*list)[i];
    OpenAiQuestion question;
    Json body_question;
    if (auto failure =
            read_question(sent, {"body", "questions", static_cast<std::int64_t>(i)}, limits, question, body_question)) {
      return failure;
    }
    question.id = text_of(sent.find("name"));
    if (question.id.empty()) {
      question.id = fmt::format("question_{}", i + 1);
      while (!ids.insert(question.id).second) question.id += '_';
    } else {
      question.name = question.id;
    }
    asked.emplace_back(question.id, std::move(body_question));
    request.questions.push_back(std::move(question));
  }
  Json::Array images;
  take_images(*input, images, 0);
  Json::Object translated{{"model", *model}, {"state", std::move(*input)}, {"questions", std::move(asked)}};
  if (!images.empty()) translated.emplace_back("images", std::move(images));
  request.body = std::move(translated);
  return std::nullopt;
}

Json openai_response(const OpenAiRequest& request, const Json& response) {
  const Json::Object& answers = *response.find("answers")->if_object();
  CHECK(answers.size() == request.questions.size());
  Json::Array list;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const OpenAiQuestion& question = request.questions[i];
    const Json& answer = answers[i].second;
    Json::Object object;
    switch (question.type) {
      case OpenAiQuestion::Type::predicate:
        object = {{"type", "predicate"}, {"name", question.name}, {"probability", *answer.find("noul")}};
        break;
      case OpenAiQuestion::Type::choice:
        object = {{"type", "choice"},
                  {"name", question.name},
                  {"choice", chosen_value(question, *answer.find("choice")->if_string())},
                  {"confidence", *answer.find("confidence")},
                  {"probabilities", probabilities_of(question, *answer.find("probabilities")->if_object())}};
        break;
      case OpenAiQuestion::Type::score:
        object = {{"type", "score"},
                  {"name", question.name},
                  {"score", *answer.find("score")},
                  {"confidence", *answer.find("confidence")},
                  {"probabilities", probabilities_of(question, *answer.find("probabilities")->if_object())}};
        break;
    }
    list.emplace_back(std::move(object));
  }
  const Json& input_tokens = *response.find("usage")->find("input_tokens");
  return Json::Object{
      {"model", *response.find("model")},
      {"answers", std::move(list)},
      {"usage", Json::Object{{"input_tokens", input_tokens},
                             {"input_tokens_details", Json::Object{{"cached_tokens", 0}, {"cache_write_tokens", 0}}},
                             {"output_tokens", 0},
                             {"output_tokens_details", Json::Object{{"reasoning_tokens", 0}}},
                             {"total_tokens", input_tokens}}}};
}

}  // namespace clef::server
