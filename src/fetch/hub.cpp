#include "fetch/hub.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <utility>

#include "fetch/digest.h"
#include "fetch/url.h"
#include "text/json.h"

namespace clef::fetch {

namespace {

constexpr std::size_t kMaxJsonBytes = std::size_t{32} << 20;
constexpr std::size_t kMaxTokenBytes = 4096;

std::string trimmed(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  while (!text.empty() && is_space(text.front())) text.erase(text.begin());
  return text;
}

std::string read_token(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTokenBytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof()) return "";
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return trimmed(std::move(text));
}

bool is_true(const char* text) {
  if (text == nullptr) return false;
  std::string upper(text);
  for (char& c : upper) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return upper == "1" || upper == "ON" || upper == "YES" || upper == "TRUE";
}

// What a server wrote, fit for a terminal: one line, no control characters, not long.
std::string said(std::string text) {
  constexpr std::size_t kMost = 300;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string detail(const HttpResponse& response) {
  if (const std::string* message = response.head.find("x-error-message")) return ": " + said(*message);
  const auto body = parse_json(response.body);
  const Json* error = body && body->if_object() != nullptr ? body->find("error") : nullptr;
  return error != nullptr && error->if_string() != nullptr ? ": " + said(*error->if_string()) : "";
}

double jitter() {
  thread_local std::minstd_rand random(std::random_device{}());
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

HubSettings hub_settings(const std::function<const char*(const char*)>& lookup) {
  const auto value = [&](const char* name) {
    const char* text = lookup(name);
    return text == nullptr ? std::string() : trimmed(text);
  };
  HubSettings settings;
  if (std::string endpoint = value("HF_ENDPOINT"); !endpoint.empty()) settings.endpoint = std::move(endpoint);
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  settings.token = value("HF_TOKEN");
  if (settings.token.empty()) settings.token = value("HUGGING_FACE_HUB_TOKEN");
  if (settings.token.empty()) {
    std::filesystem::path path = value("HF_TOKEN_PATH");
    if (path.empty()) {
      std::filesystem::path home = value("HF_HOME");
      if (home.empty() && !value("XDG_CACHE_HOME").empty()) {
        home = std::filesystem::path(value("XDG_CACHE_HOME")) / "huggingface";
      }
      if (home.empty() && !value("HOME").empty()) home = std::filesystem::path(value("HOME")) / ".cache/huggingface";
      if (!home.empty()) path = home / "token";
    }
    if (!path.empty()) settings.token = read_token(path);
  }
  settings.ca_file = value("SSL_CERT_FILE");
  if (settings.ca_file.empty()) settings.ca_file = value("CURL_CA_BUNDLE");
  settings.is_offline = is_true(lookup("HF_HUB_OFFLINE"));
  return settings;
}

bool is_repo_name(std::string_view repo) {
  const std::size_t slash = repo.find('/');
  if (slash == std::string_view::npos || repo.size() > 200) return false;
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' && part.find("..") == std::string_view::npos &&
           part.find("--") == std::string_view::npos && std::all_of(part.begin(), part.end(), [](char c) {
             return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.';
           });
  };
  return is_part(repo.substr(0, slash)) && is_part(repo.substr(slash + 1));
}

bool is_commit(std::string_view revision) { return digest_kind(revision) == DigestKind::git_sha1; }

Result<HttpOptions> http_options(const HubSettings& settings) {
  HttpOptions options;
  options.token_origin = TRY(origin_of(settings.endpoint));
  options.token = settings.token;
  options.ca_file = settings.ca_file;
  const bool is_odd = std::any_of(options.token.begin(), options.token.end(),
                                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
  if (is_odd)
    return Error{Errc::bad_request, "the token holds a space or a control character: is it whole, and alone?"};
  if (!options.token.empty() && options.token_origin.starts_with("http:") &&
      !is_loopback_origin(options.token_origin)) {
    return Error{Errc::bad_request,
                 fmt::format("{}: a token would cross the network unencrypted; use an https address, "
                             "or unset HF_TOKEN",
                             settings.endpoint)};
  }
  return options;
}

Hub::Hub(HubSettings settings, HttpOptions http, RetryPolicy retry, WaitFunction wait)
    : settings_(std::move(settings)), session_(std::move(http)), retry_(retry), wait_(std::move(wait)) {}

Result<HttpResponse> Hub::get_json(const std::string& url, const std::string& what, std::string& body) {
  for (int tries = 1;; ++tries) {
    body.clear();
    bool is_too_long = false;
    const auto outcome = session_.get({.url = url}, {}, [&](std::span<const std::byte> bytes) {
      is_too_long = is_too_long || body.size() + bytes.size() > kMaxJsonBytes;
      if (!is_too_long) body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return !is_too_long;
    });
    if (is_too_long) {
      return Error{Errc::bad_model, fmt::format("{}: an answer of more than {} bytes", public_url(url), kMaxJsonBytes)};
    }
    const long status = outcome.response.head.status;
    if (!outcome.failure && status == 200) return outcome.response;
    const Error error =
        outcome.failure ? Error{Errc::io, outcome.failure->message} : status_error(settings_, what, outcome.response);
    const bool is_lasting = outcome.failure ? outcome.failure->is_lasting : !is_passing(status);
    if (is_lasting || tries >= retry_.max_tries) return error;
    const auto asked = asked_delay(outcome.response.head, std::time(nullptr));
    if (asked && *asked > retry_.longest_asked) return error;
    if (!wait_(error.message, asked ? *asked : backoff(retry_, tries, jitter()))) return error;
  }
}

Result<std::string> Hub::commit_of(const std::string& repo, const std::string& revision) {
  std::string body;
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}", settings_.endpoint, repo, quote_url(revision, false));
  TRY(get_json(url, fmt::format("{} at {}", repo, revision), body));
  const auto document = parse_json(body);
  const Json* sha = document && document->if_object() != nullptr ? document->find("sha") : nullptr;
  const std::string* commit = sha == nullptr ? nullptr : sha->if_string();
  if (commit == nullptr || !is_commit(*commit)) {
    return Error{
        Errc::bad_model,
        fmt::format("{}: expected JSON with a commit of 40 digits as \"sha\"; is HF_ENDPOINT a hub?", public_url(url))};
  }
  return *commit;
}

Result<Manifest> Hub::list(const std::string& repo, const std::string& commit) {
  Manifest manifest{.repo = repo, .revision = commit, .is_complete = true, .files = {}};
  std::string url = fmt::format("{}/api/models/{}/tree/{}?recursive=true", settings_.endpoint, repo, commit);
  const std::string origin = TRY(origin_of(url));
  while (!url.empty()) {
    std::string body;
    const HttpResponse response = TRY(get_json(url, fmt::format("{} at {}", repo, commit), body));
    const std::size_t before = manifest.files.size();
    TRY(parse_tree(body, manifest.files));
    const std::string* link = response.head.find("link");
    const std::string next = link == nullptr ? "" : next_link(*link);
    if (next.empty()) break;
    if (manifest.files.size() == before) {
      return Error{Errc::bad_model, fmt::format("{}: a page without files that names another", public_url(url))};
    }
    url = TRY(resolve_url(url, next));
    if (TRY(origin_of(url)) != origin) {
      return Error{Errc::bad_model, fmt::format("{}: the next page of a list lies on another host", public_url(url))};
    }
  }
  std::sort(manifest.files.begin(), manifest.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  const auto twice = std::adjacent_find(manifest.files.begin(), manifest.files.end(),
                                        [](const auto& a, const auto& b) { return a.path == b.path; });
  if (twice != manifest.files.end()) {
    return Error{Errc::bad_model, fmt::format("{} at {}: lists {} twice", repo, commit, twice->path)};
  }
  if (manifest.files.empty()) return Error{Errc::bad_model, fmt::format("{} at {}: has no files", repo, commit)};
  return manifest;
}

std::string file_url(const HubSettings& settings, const Manifest& manifest, std::string_view path) {
  return fmt::format("{}/{}/resolve/{}/{}", settings.endpoint, manifest.repo, manifest.revision, quote_url(path, true));
}

Error status_error(const HubSettings& settings, const std::string& what, const HttpResponse& response) {
  const long status = response.head.status;
  const std::string* code = response.head.find("x-error-code");
  const bool has_token = !settings.token.empty();
  std::string advice;
  Errc kind = Errc::io;
  if (code != nullptr && *code == "GatedRepo") {
    advice = has_token ? "the token's account has not been granted access: ask for it on the model's page"
                       : "the model asks for a login: accept its terms on its page, then give a token (HF_TOKEN)";
  } else if (code != nullptr && *code == "RevisionNotFound") {
    advice = "the repository has no such revision";
  } else if (status == 401) {
    advice = has_token ? "the token was not accepted, or the repository does not exist"
                       : "no such public repository; if it is private, give a token (HF_TOKEN)";
  } else if (status == 403) {
    advice = has_token ? "the token does not allow it" : "access is refused; give a token (HF_TOKEN)";
  } else if (status == 404) {
    advice = "not found: is the name right?";
  } else if (status == 429) {
    advice = has_token ? "too many requests: try again later"
                       : "too many requests: try again later; a token (HF_TOKEN) has a limit of its own";
    kind = Errc::busy;
  } else {
    advice = status >= 500 ? "the server failed; try again later" : "an unexpected answer";
  }
  return Error{
      kind, fmt::format("{}: HTTP {} from {}: {}{}", what, status, public_url(response.url), advice, detail(response))};
}

Status parse_tree(std::string_view text, std::vector<ManifestFile>& files) {
  const auto wrong = [](const std::string& what) {
    return Error{Errc::bad_model, fmt::format("the hub's list of files: {}", what)};
  };
  const auto document = parse_json(text);
  if (!document) return wrong(document.error().message);
  const Json::Array* entries = document->if_array();
  if (entries == nullptr) return wrong(fmt::format("expected a list, got {}", document->type_name()));
  for (const Json& entry : *entries) {
    if (entry.if_object() == nullptr) return wrong(fmt::format("expected objects, got {}", entry.type_name()));
    const auto text_of = [](const Json* object, std::string_view key) -> const std::string* {
      const Json* member = object == nullptr || object->if_object() == nullptr ? nullptr : object->find(key);
      return member == nullptr ? nullptr : member->if_string();
    };
    const std::string* type = text_of(&entry, "type");
    const std::string* path = text_of(&entry, "path");
    if (type == nullptr || path == nullptr) return wrong("an entry without \"type\" and \"path\"");
    if (*type == "directory") continue;
    if (*type != "file") return wrong(fmt::format("entry of type '{}'", said(*type)));
    if (!is_safe_path(*path)) return wrong(fmt::format("'{}' is not a path below a folder", said(*path)));
    const Json* lfs = entry.find("lfs");
    const std::string* digest = text_of(lfs, "oid");
    if (digest == nullptr) digest = text_of(&entry, "oid");
    const Json* size = entry.find("size");
    const Json::Integer* number = size == nullptr ? nullptr : size->if_integer();
    ManifestFile file{.path = *path, .size = 0, .digest = digest == nullptr ? "" : *digest};
    if (number == nullptr || !digest_kind(file.digest)) {
      return wrong(fmt::format("{}: expected \"size\" and \"oid\"", *path));
    }
    const std::string& digits = number->digits;
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), file.size);
    constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 46;
    if (failure != std::errc{} || end != digits.data() + digits.size() || file.size > kMaxFileBytes) {
      return wrong(fmt::format("{}: has a size of {}", *path, said(digits)));
    }
    if (files.size() >= kMaxManifestFiles) return wrong(fmt::format("more than {} files", kMaxManifestFiles));
    files.push_back(std::move(file));
  }
  return {};
}

std::string next_link(std::string_view link) {
  for (std::size_t at = 0; (at = link.find('<', at)) != std::string_view::npos;) {
    const std::size_t end = link.find('>', at);
    if (end == std::string_view::npos) return "";
    const std::size_t following = link.find('<', end);
    const std::string_view parameters =
        link.substr(end + 1, following == std::string_view::npos ? std::string_view::npos : following - end - 1);
    if (parameters.find("rel=\"next\"") != std::string_view::npos ||
        parameters.find("rel=next") != std::string_view::npos) {
      return std::string(link.substr(at + 1, end - at - 1));
    }
    at = end;
  }
  return "";
}

}  // namespace clef::fetch
