#include "model/json_fields.h"

#include <charconv>
#include <optional>

namespace clef {

namespace {

std::optional<std::int64_t> int64_of(const Json& value) {
  const Json::Integer* integer = value.if_integer();
  if (integer == nullptr) return std::nullopt;
  std::int64_t out = 0;
  const std::string& digits = integer->digits;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (failure != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return out;
}

std::optional<double> double_of(const Json& value) {
  if (const double* number = value.if_double()) return *number;
  if (const auto integer = int64_of(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

// The value itself when it is short, otherwise its type.
std::string describe(const Json& value) {
  constexpr std::size_t kLongest = 60;
  if (value.if_array() == nullptr && value.if_object() == nullptr) {
    std::string text = to_compact_json(value);
    if (text.size() <= kLongest) return text;
  }
  return std::string(value.type_name());
}

}  // namespace

Result<Json> parse_json_file(std::string_view file, std::string_view text) {
  auto parsed = parse_json(text);
  if (!parsed) return Error{Errc::bad_model, fmt::format("{}: {}", file, parsed.error().message)};
  return parsed;
}

Result<JsonFields> JsonFields::of(std::string_view file, const Json& value) {
  if (value.if_object() == nullptr) {
    return Error{Errc::bad_model, fmt::format("{}: expected an object, got {}", file, value.type_name())};
  }
  return JsonFields(std::string(file), "", &value);
}

bool JsonFields::has(std::string_view name) const {
  const Json* member = value_->find(name);
  return member != nullptr && !member->is_null();
}

std::string JsonFields::message(std::string_view name, std::string_view expected) const {
  const Json* member = value_->find(name);
  return fmt::format("{}: {}{}: expected {}, got {}", file_, path_, name, expected,
                     member == nullptr ? "nothing" : describe(*member));
}

Error JsonFields::error(std::string_view name, std::string_view expected) const {
  return Error{Errc::bad_model, message(name, expected)};
}

Error JsonFields::unsupported(std::string_view name, std::string_view expected) const {
  return Error{Errc::unsupported, message(name, expected)};
}

Result<JsonFields> JsonFields::object(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_object() == nullptr) return error(name, "an object");
  return JsonFields(file_, fmt::format("{}{}.", path_, name), member);
}

Result<std::int64_t> JsonFields::integer(std::string_view name, std::int64_t least, std::int64_t most) const {
  const Json* member = value_->find(name);
  const auto value = member == nullptr ? std::nullopt : int64_of(*member);
  if (!value || *value < least || *value > most) {
    return error(name, fmt::format("an integer from {} to {}", least, most));
  }
  return *value;
}

Result<double> JsonFields::number(std::string_view name) const {
  const Json* member = value_->find(name);
  const auto value = member == nullptr ? std::nullopt : double_of(*member);
  if (!value) return error(name, "a number");
  return *value;
}

Result<std::string> JsonFields::string(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_string() == nullptr) return error(name, "a string");
  return *member->if_string();
}

Result<bool> JsonFields::boolean(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_bool() == nullptr) return error(name, "true or false");
  return *member->if_bool();
}

Result<std::vector<double>> JsonFields::numbers(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_array() == nullptr) return error(name, "a list of numbers");
  std::vector<double> values;
  for (const Json& item : *member->if_array()) {
    const auto value = double_of(item);
    if (!value) return error(name, "a list of numbers");
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<std::int64_t>> JsonFields::integers(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_array() == nullptr) return error(name, "a list of integers");
  std::vector<std::int64_t> values;
  for (const Json& item : *member->if_array()) {
    const auto value = int64_of(item);
    if (!value) return error(name, "a list of integers");
    values.push_back(*value);
  }
  return values;
}

Result<std::vector<std::string>> JsonFields::strings(std::string_view name) const {
  const Json* member = value_->find(name);
  if (member == nullptr || member->if_array() == nullptr) return error(name, "a list of strings");
  std::vector<std::string> values;
  for (const Json& item : *member->if_array()) {
    if (item.if_string() == nullptr) return error(name, "a list of strings");
    values.push_back(*item.if_string());
  }
  return values;
}

Result<std::int64_t> JsonFields::integer_or(std::string_view name, std::int64_t least, std::int64_t most,
                                            std::int64_t fallback) const {
  return has(name) ? integer(name, least, most) : fallback;
}

Result<double> JsonFields::number_or(std::string_view name, double fallback) const {
  return has(name) ? number(name) : fallback;
}

Result<std::string> JsonFields::string_or(std::string_view name, std::string_view fallback) const {
  return has(name) ? string(name) : Result<std::string>(std::string(fallback));
}

Result<bool> JsonFields::boolean_or(std::string_view name, bool fallback) const {
  return has(name) ? boolean(name) : fallback;
}

}  // namespace clef
