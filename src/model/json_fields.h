// Members of a JSON object by name and type, with errors that name file, member, what was expected and what came.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json.h"

namespace clef {

// parse_json with the file's name in front of the message, as Errc::bad_model.
Result<Json> parse_json_file(std::string_view file, std::string_view text);

// A view of one object of a document; it owns only the words for messages.
class JsonFields {
 public:
  static Result<JsonFields> of(std::string_view file, const Json& value);

  const Json::Object& members() const { return *value_->if_object(); }
  bool has(std::string_view name) const;  // there, and not null

  Result<JsonFields> object(std::string_view name) const;
  Result<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most) const;
  Result<double> number(std::string_view name) const;
  Result<std::string> string(std::string_view name) const;
  Result<bool> boolean(std::string_view name) const;
  Result<std::vector<double>> numbers(std::string_view name) const;
  Result<std::vector<std::int64_t>> integers(std::string_view name) const;
  Result<std::vector<std::string>> strings(std::string_view name) const;

  // The same for a member that may be missing or null.
  Result<std::int64_t> integer_or(std::string_view name, std::int64_t least, std::int64_t most,
                                  std::int64_t fallback) const;
  Result<double> number_or(std::string_view name, double fallback) const;
  Result<std::string> string_or(std::string_view name, std::string_view fallback) const;
  Result<bool> boolean_or(std::string_view name, bool fallback) const;

  // Errc::bad_model: FILE: PATH.NAME: expected EXPECTED, got ...
  Error error(std::string_view name, std::string_view expected) const;
  // The same as Errc::unsupported: a valid value that we do not serve.
  Error unsupported(std::string_view name, std::string_view expected) const;

 private:
  JsonFields(std::string file, std::string path, const Json* value)
      : file_(std::move(file)), path_(std::move(path)), value_(value) {}
  std::string message(std::string_view name, std::string_view expected) const;

  std::string file_, path_;  // path_ ends in '.' unless empty
  const Json* value_;
};

}  // namespace clef
