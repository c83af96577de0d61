// The Hugging Face hub: its addresses, its answers, and the environment variables that its own client reads.
// Source: huggingface.co/docs/hub (API, "Hub Local Cache", "Rate limits"); huggingface_hub's documented variables.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "fetch/http.h"
#include "fetch/manifest.h"
#include "fetch/retry.h"

namespace clef::fetch {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // no slash at the end
  std::string token;                                // empty: none
  std::string ca_file;
  bool is_offline = false;
};

// HF_ENDPOINT; HF_TOKEN, HUGGING_FACE_HUB_TOKEN, or the file HF_TOKEN_PATH or HF_HOME/token; HF_HUB_OFFLINE;
// SSL_CERT_FILE or CURL_CA_BUNDLE. `lookup` is the environment.
HubSettings hub_settings(const std::function<const char*(const char*)>& lookup);

// A repository that the hub may have: "ORG/NAME" of letters, digits, '-', '_' and '.'.
bool is_repo_name(std::string_view repo);
bool is_commit(std::string_view revision);  // 40 hexadecimal digits

// Errc::bad_request for an endpoint that is no address, or one that would show the token to the network.
Result<HttpOptions> http_options(const HubSettings& settings);

// Called before each wait of a retry, with what failed and how long the wait is. False gives up.
using WaitFunction = std::function<bool(const std::string& why, std::chrono::milliseconds)>;

// The hub's questions: a revision's commit, and the files of a commit. Errors say what to do about them.
class Hub {
 public:
  Hub(HubSettings settings, HttpOptions http, RetryPolicy retry, WaitFunction wait);

  Result<std::string> commit_of(const std::string& repo, const std::string& revision);
  Result<Manifest> list(const std::string& repo, const std::string& commit);

 private:
  Result<HttpResponse> get_json(const std::string& url, const std::string& what, std::string& body);

  HubSettings settings_;
  HttpSession session_;
  RetryPolicy retry_;
  WaitFunction wait_;
};

std::string file_url(const HubSettings& settings, const Manifest& manifest, std::string_view path);

// The error that an answer stands for: `what` is what was asked for, "Cloudflare/clef at main".
Error status_error(const HubSettings& settings, const std::string& what, const HttpResponse& response);

// One page of the tree API added to `files`. Errc::bad_model for what is no such page.
Status parse_tree(std::string_view text, std::vector<ManifestFile>& files);

// The address after `rel="next"` of a Link field; empty when there is none.
std::string next_link(std::string_view link);

}  // namespace clef::fetch
