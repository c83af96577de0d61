// Result<T>: a value, or an Error that says what went wrong with input or environment.
//
// Ours because std::expected is not in every compiler we build with. TRY unwraps or returns the error to the caller:
//   const Request request = TRY(parse_request(body, limits));
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace clef {

// What kind of failure; programs map it to an exit code and the server to an HTTP status, each in one table.
enum class Errc {
  bad_request,    // the request is not valid; the caller can mend it
  too_large,      // the request is valid but over a limit of ours
  bad_model,      // a model file is malformed, incomplete or of another kind
  unsupported,    // valid input that this build or this model cannot serve
  io,             // a file or socket could not be read or written
  out_of_memory,  // the device has no room
  device,         // the device failed
  device_lost,    // it is gone for this process: whatever it is asked for will fail
  non_finite,     // the network produced NaN or infinity
  busy,           // more work waits than is allowed; later there may be room
  unavailable,    // not serving: loading, or shutting down
  timeout,        // the caller's deadline passed first
  internal,
};

struct [[nodiscard]] Error {
  Errc code;
  std::string message;  // names the place, what was expected, what came
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // implicit by design
  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  const T& value() const& {
    CHECK(has_value());
    return std::get<0>(state_);
  }
  T&& value() && {
    CHECK(has_value());
    return std::move(std::get<0>(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() & {
    CHECK(!has_value());
    return std::get<1>(state_);
  }
  const Error& error() const& {
    CHECK(!has_value());
    return std::get<1>(state_);
  }
  Error&& error() && {
    CHECK(!has_value());
    return std::move(std::get<1>(state_));
  }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // implicit by design
  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  void value() const { CHECK(has_value()); }
  const Error& error() const& {
    CHECK(!has_value());
    return *error_;
  }
  Error&& error() && {
    CHECK(!has_value());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

#define CLEF_TRY_NAME2(line) clef_try_result_##line
#define CLEF_TRY_NAME(line) CLEF_TRY_NAME2(line)
#define CLEF_TRY(expression, name)             \
  __extension__({                              \
    auto&& name = (expression);                \
    if (!name) return std::move(name).error(); \
    std::move(name).value();                   \
  })
#define TRY(expression) CLEF_TRY(expression, CLEF_TRY_NAME(__COUNTER__))

}  // namespace clef
