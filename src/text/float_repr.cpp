// Doubles as Python prints and rounds them; nothing here looks at the locale.
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "text/json.h"

namespace clef {

std::string float_repr(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";

  // Shortest digits as "d.ddde-XX", then placed by the rule of float.__repr__.
  std::array<char, 32> buffer;
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  CHECK(error == std::errc());
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);

  std::string out;
  std::string_view mantissa = text.substr(0, e);
  if (mantissa.front() == '-') {
    out += '-';
    mantissa.remove_prefix(1);
  }
  std::string digits(1, mantissa.front());
  if (mantissa.size() > 2) digits += mantissa.substr(2);
  if (exponent < 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-exponent - 1), '0');
    return out += digits;
  }
  const auto whole = static_cast<std::size_t>(exponent) + 1;  // digits before the point
  if (digits.size() <= whole) return (out += digits).append(whole - digits.size(), '0') += ".0";
  return (out.append(digits, 0, whole) += '.').append(digits, whole);
}

double round4(double value) {
  if (!std::isfinite(value)) return value;
  std::array<char, 320> buffer;  // a sign, 309 digits, the point and 4 decimals
  const auto [end, error] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed, 4);
  CHECK(error == std::errc());
  double rounded = value;
  std::from_chars(buffer.data(), end, rounded);
  return rounded;
}

}  // namespace clef
