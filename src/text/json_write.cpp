#include <algorithm>

#include "text/json.h"
#include "text/json_scan.h"

namespace clef {
namespace {

enum class Keys { as_they_stand, sorted };

void write(std::string& out, const Json& value, Keys keys);

void write_member(std::string& out, const Json::Member& member, Keys keys) {
  append_json_string(out, member.first);
  out += ':';
  write(out, member.second, keys);
}

void write_object(std::string& out, const Json::Object& object, Keys keys) {
  out += '{';
  const std::size_t begin = out.size();
  const auto separate = [&] {
    if (out.size() != begin) out += ',';
  };
  if (keys == Keys::sorted) {
    std::vector<const Json::Member*> members;
    members.reserve(object.size());
    for (const Json::Member& member : object) members.push_back(&member);
    // By byte, which for UTF-8 is by code point.
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    for (const Json::Member* member : members) separate(), write_member(out, *member, keys);
  } else {
    for (const Json::Member& member : object) separate(), write_member(out, member, keys);
  }
  out += '}';
}

void write_array(std::string& out, const Json::Array& array, Keys keys) {
  out += '[';
  bool first = true;
  for (const Json& element : array) {
    if (!first) out += ',';
    first = false;
    write(out, element, keys);
  }
  out += ']';
}

void write(std::string& out, const Json& value, Keys keys) {
  if (const auto* object = value.if_object()) {
    write_object(out, *object, keys);
  } else if (const auto* array = value.if_array()) {
    write_array(out, *array, keys);
  } else if (const auto* text = value.if_string()) {
    append_json_string(out, *text);
  } else if (const auto* integer = value.if_integer()) {
    out += integer->digits;
  } else if (const auto* number = value.if_double()) {
    out += float_repr(*number);
  } else if (const auto* boolean = value.if_bool()) {
    out += *boolean ? "true" : "false";
  } else {
    out += "null";
  }
}

}  // namespace

std::string to_compact_json(const Json& value) {
  std::string out;
  write(out, value, Keys::as_they_stand);
  return out;
}

std::string render(const Json& value) {
  if (const auto* text = value.if_string()) return *text;
  std::string out;
  append_sorted_json(out, value);
  return out;
}

void append_sorted_json(std::string& out, const Json& value) { write(out, value, Keys::sorted); }

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    const char* const special = skip_plain<HighBytes::plain>(at, end);
    out.append(at, special);
    if (special == end) break;
    switch (*special) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default: {
        constexpr std::string_view kHex = "0123456789abcdef";
        const auto byte = static_cast<unsigned char>(*special);
        out += "\\u00";
        out += kHex[byte >> 4];
        out += kHex[byte & 15];
      }
    }
    at = special + 1;
  }
  out += '"';
}

}  // namespace clef
