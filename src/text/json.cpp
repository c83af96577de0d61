#include "text/json.h"

namespace clef {

const Json* Json::find(std::string_view key) const {
  const Object* object = if_object();
  if (object == nullptr) return nullptr;
  for (const auto& [name, value] : *object) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string_view Json::type_name() const {
  constexpr std::string_view kNames[] = {"null", "boolean", "integer", "number", "string", "list", "object"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(value_)>);
  return kNames[value_.index()];
}

bool Json::is_truthy() const {
  struct Truth {
    bool operator()(std::monostate) const { return false; }
    bool operator()(bool value) const { return value; }
    bool operator()(const Integer& value) const { return value.digits != "0"; }
    bool operator()(double value) const { return value != 0; }  // NaN is true
    bool operator()(const std::string& value) const { return !value.empty(); }
    bool operator()(const Array& value) const { return !value.empty(); }
    bool operator()(const Object& value) const { return !value.empty(); }
  };
  return std::visit(Truth{}, value_);
}

}  // namespace clef
