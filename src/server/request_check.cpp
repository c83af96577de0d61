#include "server/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "text/utf8.h"

namespace clef::server {
namespace {

constexpr std::size_t kMaxStepBytes = 200;    // of a member's name in a path: enough to find it again
constexpr std::size_t kHostedQuestions = 64;  // Workers AI, request schema
constexpr std::size_t kHostedIdBytes = 100;

Step step(std::string_view name) { return std::string(utf8_prefix(name, kMaxStepBytes)); }

class Checker {
 public:
  explicit Checker(const ShapeLimits& limits) : limits_(limits) {}

  std::vector<Violation> check(const Json& body) {
    if (body.if_object() == nullptr) {
      add(fmt::format("expected an object, got {}", body.type_name()), "type_error");
      return std::move(violations_);
    }
    check_model(body.find("model"));
    if (body.find("state") == nullptr) add_at("state", "field required", "missing");
    check_questions(body.find("questions"));
    if (limits_.is_hosted) check_members(*body.if_object());
    check_numbers(body);
    return std::move(violations_);
  }

 private:
  void add(std::string message, std::string type) {
    if (violations_.size() < kMaxViolations) violations_.push_back({path_, std::move(message), std::move(type)});
  }
  void add_at(std::string_view name, std::string message, std::string type) {
    path_.push_back(step(name));
    add(std::move(message), std::move(type));
    path_.pop_back();
  }

  void check_model(const Json* model) {
    if (model == nullptr) {
      add_at("model", "field required", "missing");
    } else if (model->if_string() == nullptr) {
      add_at("model", fmt::format("expected a string, got {}", model->type_name()), "type_error");
    }
  }

  void check_questions(const Json* questions) {
    if (questions == nullptr) return add_at("questions", "field required", "missing_questions");
    const Json::Object* members = questions->if_object();
    if (members == nullptr) {
      return add_at("questions", fmt::format("expected an object, got {}", questions->type_name()), "type_error");
    }
    if (members->empty()) return add_at("questions", "at least one question is required", "missing_questions");
    const std::size_t most = limits_.max_questions;
    if (members->size() > most) {
      return add_at("questions", fmt::format("{} questions, at most {} are taken", members->size(), most), "too_long");
    }
    path_.push_back(step("questions"));
    for (const auto& [id, question] : *members) {
      path_.push_back(step(id));
      check_question(id, question);
      path_.pop_back();
    }
    path_.pop_back();
  }

  void check_question(const std::string& id, const Json& question) {
    if (limits_.is_hosted) check_id(id);
    if (question.if_object() == nullptr) {
      return add(fmt::format("expected an object, got {}", question.type_name()), "type_error");
    }
    const Json* instructions = question.find("instructions");
    const bool has_instructions = instructions != nullptr && !instructions->is_null() &&
                                  (instructions->if_string() == nullptr || !instructions->if_string()->empty());
    if (!has_instructions && (limits_.is_hosted || id.empty())) {
      add_at("instructions", id.empty() ? "a question with an empty id needs instructions" : "must not be empty",
             "missing");
    }
    const Json* type = question.find("type");
    const std::string* name = type == nullptr ? nullptr : type->if_string();
    const Json* criteria = question.find("criteria");
    if (name != nullptr && *name == "noul") {
      check_noul(criteria);
    } else if (name != nullptr && *name == "choice") {
      check_choice(criteria);
    } else if (name != nullptr && *name == "score") {
      check_score(criteria);
    } else if (type == nullptr) {
      add_at("type", "field required: noul, choice or score", "unknown_type");
    } else {
      const std::string got =
          name == nullptr ? std::string(type->type_name()) : fmt::format("'{}'", utf8_prefix(*name, kMaxStepBytes));
      add_at("type", fmt::format("type must be noul, choice, or score, got {}", got), "unknown_type");
    }
  }

  void check_id(const std::string& id) {
    const bool is_plain = std::all_of(id.begin(), id.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '.' ||
             c == '-';
    });
    if (id.empty() || id.size() > kHostedIdBytes || !is_plain) {
      add(fmt::format("an id has 1 to {} of the characters A-Z a-z 0-9 _ . -", kHostedIdBytes), "value_error");
    }
  }

  void check_noul(const Json* criteria) {
    if (criteria == nullptr || criteria->is_null() || criteria->if_object() != nullptr) return;
    add_at("criteria", fmt::format("expected an object with true and false, got {}", criteria->type_name()),
           "type_error");
  }

  void check_choice(const Json* criteria) {
    if (criteria == nullptr || criteria->is_null()) return add_at("criteria", "field required", "missing");
    const Json::Object* labels = criteria->if_object();
    if (labels == nullptr) {
      return add_at("criteria", fmt::format("expected an object of labels, got {}", criteria->type_name()),
                    "type_error");
    }
    if (labels->size() < limits_.min_choices || labels->size() > limits_.max_choices) {
      add_at("criteria",
             fmt::format("need {} to {} options, got {}", limits_.min_choices, limits_.max_choices, labels->size()),
             labels->size() < limits_.min_choices ? "too_short" : "too_long");
    }
  }

  void check_score(const Json* criteria) {
    if (criteria == nullptr || criteria->is_null()) return add_at("criteria", "field required", "missing");
    const Json::Array* levels = criteria->if_array();
    if (levels == nullptr) {
      return add_at("criteria", fmt::format("expected a list of levels, got {}", criteria->type_name()), "type_error");
    }
    if (levels->size() < limits_.min_levels || levels->size() > limits_.max_levels) {
      add_at("criteria",
             fmt::format("need {} to {} levels, got {}", limits_.min_levels, limits_.max_levels, levels->size()),
             levels->size() < limits_.min_levels ? "too_short" : "too_long");
    }
  }

  void check_members(const Json::Object& body) {
    for (const auto& member : body) {
      const bool is_known = std::any_of(std::begin(kHostedMembers), std::end(kHostedMembers),
                                        [&](std::string_view known) { return known == member.first; });
      if (!is_known) add_at(member.first, "unknown field", "extra_forbidden");
    }
  }

  // The parser reads NaN and Infinity, and reads 1e999 as infinity, as Python does; JSON has no such numbers.
  void check_numbers(const Json& value) {
    if (const double* number = value.if_double()) {
      if (!std::isfinite(*number)) add("a number that is not finite", "finite_number");
    } else if (const Json::Array* list = value.if_array()) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        path_.emplace_back(static_cast<std::int64_t>(i));
        check_numbers((*list)[i]);
        path_.pop_back();
      }
    } else if (const Json::Object* object = value.if_object()) {
      for (const auto& [name, member] : *object) {
        path_.push_back(step(name));
        check_numbers(member);
        path_.pop_back();
      }
    }
  }

  static constexpr std::string_view kHostedMembers[] = {"model",  "state", "questions",   "images",
                                                        "videos", "audio", "media_kwargs"};
  const ShapeLimits& limits_;
  std::vector<Step> path_ = {"body"};
  std::vector<Violation> violations_;
};

}  // namespace

ShapeLimits hosted(ShapeLimits limits) {
  limits.max_questions = std::min(limits.max_questions, kHostedQuestions);
  limits.is_hosted = true;
  return limits;
}

std::vector<Violation> check_shape(const Json& body, const ShapeLimits& limits) { return Checker(limits).check(body); }

}  // namespace clef::server
