// The cache that the Hugging Face hub's clients share: `-m ORG/NAME` opens a snapshot that one of them has fetched.
// Source: huggingface.co/docs/hub/local-cache.
//
//   HUB/models--ORG--NAME/refs/REF              a commit as text
//   HUB/models--ORG--NAME/snapshots/COMMIT/...  links into blobs/
//   HUB/models--ORG--NAME/blobs/DIGEST          and DIGEST.incomplete while one arrives
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"

namespace clef {

// HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub; empty without any of them.
std::filesystem::path hub_cache_folder(const std::function<const char*(const char*)>& lookup);

// What `-m` names: a path that is there, as it is; or else ORG/NAME, ORG/NAME@REVISION or a release's short name in the
// cache, as its snapshot's folder. Errc::io tells where was looked, and how to fetch it.
Result<std::filesystem::path> find_model(const std::filesystem::path& named, const std::filesystem::path& hub_cache);

// ORG/NAME of a folder HUB/models--ORG--NAME/snapshots/COMMIT; nothing for any other.
std::optional<std::string> cached_repo(const std::filesystem::path& folder);

}  // namespace clef
