// A JSON value with the semantics of Python's json module, which the reference inherits.
//
// Objects keep the order of their members; of a repeated key the first position and the last value count. Integers are
// unbounded and keep their digits; a number with '.', 'e' or 'E' is a double. NaN, Infinity and -Infinity are read.
// Source: spec of the reference's request, section 1.1 and 3; CPython 3.12 json, float.__repr__.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace clef {

class Json {
 public:
  // Decimal digits with an optional '-', no leading zeros, "-0" already turned into "0".
  struct Integer {
    std::string digits;
    bool operator==(const Integer&) const = default;
  };
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in order, keys unique

  Json() = default;        // null
  Json(std::nullptr_t) {}  // implicit by design
  Json(bool value) : value_(value) {}
  Json(double value) : value_(value) {}
  Json(std::int64_t value) : value_(Integer{std::to_string(value)}) {}
  Json(int value) : Json(static_cast<std::int64_t>(value)) {}
  Json(Integer value) : value_(std::move(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value) : value_(std::move(value)) {}

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  const bool* if_bool() const { return std::get_if<bool>(&value_); }
  const Integer* if_integer() const { return std::get_if<Integer>(&value_); }
  const double* if_double() const { return std::get_if<double>(&value_); }
  const std::string* if_string() const { return std::get_if<std::string>(&value_); }
  const Array* if_array() const { return std::get_if<Array>(&value_); }
  const Object* if_object() const { return std::get_if<Object>(&value_); }
  std::string* if_string() { return std::get_if<std::string>(&value_); }
  Array* if_array() { return std::get_if<Array>(&value_); }
  Object* if_object() { return std::get_if<Object>(&value_); }

  // The member called `key` of an object; null pointer when this is no object or has no such member. Linear in the
  // number of members.
  const Json* find(std::string_view key) const;
  Json* find(std::string_view key) { return const_cast<Json*>(std::as_const(*this).find(key)); }

  // "null", "boolean", "integer", "number", "string", "list", "object": for messages.
  std::string_view type_name() const;

  // Python's truth: null, false, 0, 0.0, "", [] and {} are false.
  bool is_truthy() const;

  bool operator==(const Json&) const = default;

 private:
  std::variant<std::monostate, bool, Integer, double, std::string, Array, Object> value_;
};

inline constexpr int kMaxJsonDepth = 512;            // nesting; ours, the reference stops near Python's recursion limit
inline constexpr std::size_t kMaxJsonDigits = 4300;  // Python 3.11's limit on integer text

// Errc::bad_request with `json: MSG at byte N`, MSG as listed in docs/usage.md. Linear time in the input.
Result<Json> parse_json(std::string_view text);

// Compact: no spaces, members in their own order, non-ASCII raw. What answers are written in.
std::string to_compact_json(const Json& value);

// What the network reads: a string as it stands, anything else compact with the keys of every object sorted by code
// point. Python: json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).
std::string render(const Json& value);

// Appends `value` as render() writes what is inside a list or object: strings too are quoted.
void append_sorted_json(std::string& out, const Json& value);

// Appends the JSON string literal of `text`, as Python writes it with ensure_ascii=False.
void append_json_string(std::string& out, std::string_view text);

// Python's repr of a double: shortest digits that read back the same, always with ".0" or an exponent.
std::string float_repr(double value);

// Python's round(value, 4): the double nearest to the exact value rounded to 4 decimals, ties to even.
double round4(double value);

}  // namespace clef
