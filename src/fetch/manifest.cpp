#include "fetch/manifest.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "fetch/digest.h"
#include "fetch/manifest_texts.h"
#include "text/json.h"

namespace clef::fetch {

namespace {

Error wrong(std::string_view label, std::string_view what) {
  return Error{Errc::bad_model, fmt::format("{}: {}", label, what)};
}

Result<std::string> text_member(std::string_view label, const Json& object, std::string_view key) {
  const Json* member = object.find(key);
  const std::string* text = member == nullptr ? nullptr : member->if_string();
  if (text == nullptr) return wrong(label, fmt::format("expected a string \"{}\"", key));
  return *text;
}

Result<ManifestFile> parse_file(std::string_view label, const std::string& path, const Json& entry) {
  if (!is_safe_path(path)) return wrong(label, fmt::format("file '{}': not a path below a folder", path));
  const Json* size = entry.find("size");
  const Json::Integer* number = size == nullptr ? nullptr : size->if_integer();
  ManifestFile file{.path = path, .size = 0, .digest = {}};
  if (number != nullptr) {
    const std::string& digits = number->digits;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), file.size);
    if (failure != std::errc{} || end != digits.data() + digits.size()) number = nullptr;
  }
  if (number == nullptr) return wrong(label, fmt::format("file '{}': expected a whole number \"size\"", path));
  file.digest = TRY(text_member(label, entry, "hash"));
  if (!digest_kind(file.digest)) {
    return wrong(label, fmt::format("file '{}': expected 40 or 64 hexadecimal digits as \"hash\"", path));
  }
  return file;
}

}  // namespace

std::uint64_t Manifest::total_bytes() const {
  std::uint64_t total = 0;
  for (const ManifestFile& file : files) total += file.size;
  return total;
}

const ManifestFile* Manifest::find(std::string_view path) const {
  const auto found = std::lower_bound(files.begin(), files.end(), path,
                                      [](const ManifestFile& file, std::string_view name) { return file.path < name; });
  return found != files.end() && found->path == path ? &*found : nullptr;
}

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024) return false;
  const bool has_odd = std::any_of(path.begin(), path.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\' || c == ':';
  });
  if (has_odd) return false;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (slash == rest.size() - 1) return false;
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  }
  return path != ".cache" && !path.starts_with(".cache/");  // ours, and the hub's own client's
}

Result<Manifest> parse_manifest(std::string_view label, std::string_view text) {
  const auto parsed = parse_json(text);
  if (!parsed) return wrong(label, parsed.error().message);
  if (parsed->if_object() == nullptr) return wrong(label, "expected an object");
  Manifest manifest;
  manifest.repo = TRY(text_member(label, *parsed, "repo"));
  manifest.revision = TRY(text_member(label, *parsed, "revision"));
  if (digest_kind(manifest.revision) != DigestKind::git_sha1) {
    return wrong(label, fmt::format("\"revision\": expected a commit of 40 digits, got '{}'", manifest.revision));
  }
  if (const Json* complete = parsed->find("complete"); complete != nullptr) {
    if (complete->if_bool() == nullptr) return wrong(label, "expected true or false as \"complete\"");
    manifest.is_complete = *complete->if_bool();
  }
  const Json* files = parsed->find("files");
  if (files == nullptr || files->if_object() == nullptr) return wrong(label, "expected an object \"files\"");
  if (files->if_object()->size() > kMaxManifestFiles) {
    return wrong(label, fmt::format("{} files, at most {}", files->if_object()->size(), kMaxManifestFiles));
  }
  for (const auto& [path, entry] : *files->if_object()) {
    manifest.files.push_back(TRY(parse_file(label, path, entry)));
  }
  std::sort(manifest.files.begin(), manifest.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return manifest;
}

std::string to_text(const Manifest& manifest) {
  std::string out = "{\n  \"repo\": ";
  append_json_string(out, manifest.repo);
  out += ",\n  \"revision\": ";
  append_json_string(out, manifest.revision);
  if (!manifest.is_complete) out += ",\n  \"complete\": false";
  out += ",\n  \"files\": {";
  for (const ManifestFile& file : manifest.files) {
    out += &file == manifest.files.data() ? "\n    " : ",\n    ";
    append_json_string(out, file.path);
    out += fmt::format(": {{\"size\": {}, \"hash\": \"{}\"}}", file.size, file.digest);
  }
  return out + "\n  }\n}\n";
}

Status check_pins(const Manifest& manifest, const Manifest& pins) {
  std::vector<std::string> differences;
  for (const ManifestFile& pin : pins.files) {
    const ManifestFile* file = manifest.find(pin.path);
    if (file == nullptr) {
      differences.push_back(fmt::format("{} is missing", pin.path));
    } else if (file->size != pin.size || (file->digest.size() == pin.digest.size() && file->digest != pin.digest)) {
      differences.push_back(fmt::format("{}: pinned {} bytes {}, the hub has {} bytes {}", pin.path, pin.size,
                                        pin.digest, file->size, file->digest));
    }
  }
  if (pins.is_complete) {
    for (const ManifestFile& file : manifest.files) {
      if (pins.find(file.path) == nullptr) differences.push_back(fmt::format("{} is not pinned", file.path));
    }
  }
  if (differences.empty()) return {};
  return Error{Errc::bad_model, fmt::format("{} at {} is not what was pinned: {}", manifest.repo, manifest.revision,
                                            fmt::join(differences, "; "))};
}

std::span<const Manifest> known_manifests() {
  static const std::vector<Manifest> manifests = [] {
    std::vector<Manifest> parsed;
    for (const std::string_view text : manifest_texts()) {
      auto manifest = parse_manifest("built-in manifest", text);
      CHECK(manifest.has_value(), "{}", manifest.error().message);
      parsed.push_back(std::move(manifest).value());
    }
    return parsed;
  }();
  return manifests;
}

const Manifest* known_manifest(std::string_view repo, std::string_view revision) {
  for (const Manifest& manifest : known_manifests()) {
    if (manifest.repo == repo && manifest.revision == revision) return &manifest;
  }
  return nullptr;
}

std::span<const Release> releases() {
  static constexpr std::array<Release, 3> kAll = {{
      {"clef-flash", "Cloudflare/clef-flash", "17f0b0ad64efb65d273590632833508766b2aae6"},
      {"clef", "Cloudflare/clef", "2f3de3dd85f379784083b0814d997ab627200f0c"},
      {"clef-omni", "Cloudflare/clef-omni", "0db1cd2607d76a7bdb2a382f659e7b313079f84b"},
  }};
  return kAll;
}

}  // namespace clef::fetch
