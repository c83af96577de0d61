// What the hub sends and what a fetch leaves behind: lists of files, manifests, Link fields, addresses. What is
// accepted must stay below its folder, and read back as it was written.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "fetch/fetch.h"
#include "fetch/hub.h"
#include "fetch/manifest.h"
#include "fetch/url.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace clef::fetch;
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::vector<ManifestFile> files;
  (void)parse_tree(text, files);
  for (const ManifestFile& file : files) CHECK(is_safe_path(file.path), "{}", file.path);
  if (const auto manifest = parse_manifest("fuzz", text)) {
    const auto again = parse_manifest("again", to_text(*manifest));
    CHECK(again.has_value() && again->files == manifest->files && again->repo == manifest->repo);
    CHECK(check_pins(*manifest, *manifest).has_value());
  }
  (void)next_link(text);
  const auto resolved = resolve_url("https://hub.example/a/b", text);
  if (resolved) CHECK(origin_of(*resolved).has_value(), "{}", *resolved);
  (void)find_source(text, "");
  HttpHead head;
  head.fields["retry-after"] = text;
  head.fields["ratelimit"] = text;
  (void)asked_delay(head, 0);
  return 0;
}
