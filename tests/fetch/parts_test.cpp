// The parts of fetching that need no network: manifests, digests, addresses, the hub's lists, waits.
#include <gtest/gtest.h>

#include <fstream>

#include "fetch/digest.h"
#include "fetch/fetch.h"
#include "fetch/hub.h"
#include "fetch/manifest.h"
#include "fetch/retry.h"
#include "fetch/url.h"
#include "support/scratch.h"

namespace clef::fetch {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string digest_of(DigestKind kind, std::string_view text) {
  Digest digest(kind, text.size());
  digest.update(bytes_of(text));
  return digest.hex();
}

// FIPS 180-2, appendix B.1; `printf abc | git hash-object --stdin`; the empty ones of both.
TEST(Digest, AgreesWithPublishedValues) {
  EXPECT_EQ(digest_of(DigestKind::sha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of(DigestKind::git_sha1, "abc"), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f");
  EXPECT_EQ(digest_of(DigestKind::sha256, ""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of(DigestKind::git_sha1, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}

TEST(Digest, TellsItsKindByItsDigits) {
  EXPECT_EQ(digest_kind(std::string(64, 'a')), DigestKind::sha256);
  EXPECT_EQ(digest_kind(std::string(40, '0')), DigestKind::git_sha1);
  EXPECT_FALSE(digest_kind(std::string(64, 'A')));
  EXPECT_FALSE(digest_kind(std::string(39, 'a')));
  EXPECT_FALSE(digest_kind(std::string(40, 'g')));
}

TEST(Digest, OfAFileDoesNotFollowALink) {
  const test::ScratchFolder scratch;
  const auto path = scratch.write("file", "abc");
  EXPECT_EQ(digest_file(path, DigestKind::sha256, 3, {}).value(), digest_of(DigestKind::sha256, "abc"));
  std::filesystem::create_symlink(path, scratch.path() / "link");
  EXPECT_FALSE(digest_file(scratch.path() / "link", DigestKind::sha256, 3, {}));
  EXPECT_EQ(digest_file(path, DigestKind::sha256, 3, [](std::uint64_t) { return false; }).error().code,
            Errc::unavailable);
}

TEST(Manifest, OfEachReleaseIsBuiltIn) {
  for (const Release& release : releases()) {
    const Manifest* manifest = known_manifest(release.repo, release.revision);
    ASSERT_NE(manifest, nullptr) << release.name;
    EXPECT_NE(manifest->find("config.json"), nullptr);
  }
  // 17 files, whose sizes the release's page shows.
  const Manifest* flash = known_manifest("Cloudflare/clef-flash", "17f0b0ad64efb65d273590632833508766b2aae6");
  EXPECT_EQ(flash->files.size(), 17U);
  EXPECT_EQ(flash->find("joint_head.safetensors")->size, 243'538'016U);
  EXPECT_EQ(flash->find("model-00004-of-00004.safetensors")->size, 3'934'446'832U);
  EXPECT_TRUE(flash->is_complete);
  EXPECT_EQ(known_manifest("Cloudflare/clef", "2f3de3dd85f379784083b0814d997ab627200f0c")->files.size(), 25U);
  EXPECT_FALSE(known_manifest("Cloudflare/clef-omni", "0db1cd2607d76a7bdb2a382f659e7b313079f84b")->is_complete);
}

TEST(Manifest, ReadsWhatItWrites) {
  const Manifest& flash = known_manifests().front();
  const Manifest again = parse_manifest("again", to_text(flash)).value();
  EXPECT_EQ(again.repo, flash.repo);
  EXPECT_EQ(again.revision, flash.revision);
  EXPECT_EQ(again.is_complete, flash.is_complete);
  EXPECT_EQ(again.files, flash.files);
}

TEST(Manifest, RefusesWhatIsNone) {
  const std::string head = R"({"repo":"a/b","revision":"0123456789abcdef0123456789abcdef01234567","files":)";
  const auto error = [&](const std::string& text) {
    const auto parsed = parse_manifest("m.json", text);
    return parsed ? std::string("accepted") : parsed.error().message;
  };
  EXPECT_NE(error("[").find("m.json: json:"), std::string::npos);
  EXPECT_EQ(error("[]"), "m.json: expected an object");
  EXPECT_EQ(error(R"({"repo":1})"), "m.json: expected a string \"repo\"");
  EXPECT_NE(error(R"({"repo":"a/b","revision":"main","files":{}})").find("got 'main'"), std::string::npos);
  EXPECT_NE(error(head + R"({"../x":{"size":1,"hash":"00"}}})").find("not a path below"), std::string::npos);
  EXPECT_NE(error(head + R"({"x":{"size":-1,"hash":"00"}}})").find("\"size\""), std::string::npos);
  EXPECT_NE(error(head + R"({"x":{"size":99999999999999999999999,"hash":"00"}}})").find("\"size\""), std::string::npos);
  EXPECT_NE(error(head + R"({"x":{"size":1,"hash":"00"}}})").find("\"hash\""), std::string::npos);
  EXPECT_EQ(error(head + "{}}"), "accepted");
}

TEST(Manifest, PathsStayBelowTheFolder) {
  for (const char* good :
       {"a", "a/b", "model-00001-of-00004.safetensors", "a b#c%20é", "..a", "a..", ".gitattributes"}) {
    EXPECT_TRUE(is_safe_path(good)) << good;
  }
  for (const char* bad : {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/../b", "a/./b", "a\\b", "c:x", "a\nb",
                          ".cache", ".cache/cleffa/manifest.json"}) {
    EXPECT_FALSE(is_safe_path(bad)) << bad;
  }
  EXPECT_FALSE(is_safe_path(std::string(300, 'a')));
}

TEST(Manifest, PinsAreHeldTo) {
  Manifest pins = known_manifests().front();
  EXPECT_TRUE(check_pins(pins, pins));
  Manifest changed = pins;
  changed.files[0].size += 1;
  EXPECT_FALSE(check_pins(changed, pins));
  Manifest less = pins;
  less.files.pop_back();
  EXPECT_FALSE(check_pins(less, pins));
  EXPECT_EQ(check_pins(pins, less).has_value(), !less.is_complete);
  less.is_complete = false;
  EXPECT_TRUE(check_pins(pins, less));
}

TEST(Source, KnowsTheReleasesAndOtherNames) {
  EXPECT_EQ(find_source("clef-flash", "")->revision, "17f0b0ad64efb65d273590632833508766b2aae6");
  EXPECT_EQ(find_source("Cloudflare/clef", "")->revision, "2f3de3dd85f379784083b0814d997ab627200f0c");
  EXPECT_EQ(find_source("Cloudflare/clef", "main")->revision, "main");
  EXPECT_EQ(find_source("a/b", "")->revision, "main");
  EXPECT_EQ(find_source("a/b", "")->name, "b");
  for (const char* bad : {"", "a", "a/b/c", "../b", "a/..", "a/b?c", "a--b/c", "/b", "a/", "-a/b"}) {
    EXPECT_FALSE(find_source(bad, "")) << bad;
  }
}

TEST(Url, OriginsTellHostsApart) {
  EXPECT_EQ(origin_of("https://Hub.example/x?y").value(), "https://hub.example:443");
  EXPECT_EQ(origin_of("http://127.0.0.1:8080").value(), "http://127.0.0.1:8080");
  EXPECT_EQ(origin_of("https://user:secret@hub.example:443/").value(), origin_of("https://hub.example").value());
  EXPECT_NE(origin_of("https://hub.example.evil").value(), origin_of("https://hub.example").value());
  EXPECT_NE(origin_of("https://hub.example:444").value(), origin_of("https://hub.example").value());
  EXPECT_NE(origin_of("http://hub.example:443").value(), origin_of("https://hub.example").value());
  for (const char* bad : {"", "hub", "ftp://hub", "file:///etc/passwd", "https://"}) {
    EXPECT_FALSE(origin_of(bad)) << bad;
  }
}

TEST(Url, TheTokenGoesToItsOriginAlone) {
  const HttpOptions options{.token = "t", .token_origin = "https://hub.example:443", .ca_file = {}};
  EXPECT_TRUE(sends_token(options, "https://hub.example/a/b"));
  for (const char* other : {"http://hub.example/a", "https://cdn.example/a", "https://hub.example.evil/a",
                            "https://hub.example:8443/", "https://hub.example@evil.example/"}) {
    EXPECT_FALSE(sends_token(options, other)) << other;
  }
}

TEST(Url, ReferencesAndQuoting) {
  EXPECT_EQ(resolve_url("https://h.example/a/b?c", "/d").value(), "https://h.example/d");
  EXPECT_EQ(resolve_url("https://h.example/a", "https://o.example/x?y=z").value(), "https://o.example/x?y=z");
  EXPECT_FALSE(resolve_url("https://h.example/a", "file:///etc/passwd"));
  EXPECT_EQ(quote_url("a/b c%é", true), "a/b%20c%25%C3%A9");
  EXPECT_EQ(quote_url("refs/pr/1", false), "refs%2Fpr%2F1");
  EXPECT_EQ(public_url("https://u:p@h.example/x?X-Signature=secret#f"), "https://h.example/x");
}

TEST(Hub, SettingsComeFromTheEnvironment) {
  const test::ScratchFolder scratch;
  scratch.write("token", "hf_file\n");
  std::map<std::string, std::string> variables = {{"HF_HOME", scratch.path().string()}};
  const auto lookup = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  EXPECT_EQ(hub_settings(lookup).endpoint, "https://huggingface.co");
  EXPECT_EQ(hub_settings(lookup).token, "hf_file");
  variables["HF_TOKEN"] = " hf_variable ";
  variables["HF_ENDPOINT"] = "https://mirror.example/";
  EXPECT_EQ(hub_settings(lookup).token, "hf_variable");
  EXPECT_EQ(hub_settings(lookup).endpoint, "https://mirror.example");
  EXPECT_FALSE(hub_settings(lookup).is_offline);
  variables["HF_HUB_OFFLINE"] = "1";
  EXPECT_TRUE(hub_settings(lookup).is_offline);
}

TEST(Hub, ATokenNeedsEncryption) {
  HubSettings settings{.endpoint = "http://hub.example", .token = "hf_x", .ca_file = {}};
  EXPECT_FALSE(http_options(settings));
  settings.endpoint = "http://127.0.0.1:1";
  EXPECT_TRUE(http_options(settings));
  settings.endpoint = "https://hub.example";
  EXPECT_TRUE(http_options(settings));
  settings.token = "hf_x\nX-Other: y";
  EXPECT_FALSE(http_options(settings));
}

TEST(Hub, ReadsItsLists) {
  std::vector<ManifestFile> files;
  const std::string oid(40, 'a'), sha(64, 'b');
  EXPECT_TRUE(parse_tree(R"([{"type":"directory","oid":"x","size":0,"path":"d"},
    {"type":"file","oid":")" +
                             oid + R"(","size":3,"path":"d/a"},
    {"type":"file","oid":")" +
                             oid + R"(","size":9,"path":"w","lfs":{"oid":")" + sha +
                             R"(","size":9,"pointerSize":134}}])",
                         files));
  EXPECT_EQ(files, (std::vector<ManifestFile>{{"d/a", 3, oid}, {"w", 9, sha}}));
  EXPECT_FALSE(parse_tree(R"([{"type":"file","path":"../a","oid":")" + oid + R"(","size":1}])", files));
  EXPECT_FALSE(parse_tree(R"([{"type":"symlink","path":"a"}])", files));
  EXPECT_FALSE(parse_tree(R"([1])", files));
}

TEST(Hub, FindsTheNextPage) {
  EXPECT_EQ(next_link(R"(<https://h.example/p?cursor=2>; rel="next")"), "https://h.example/p?cursor=2");
  EXPECT_EQ(next_link(R"(<https://h.example/1>; rel="first", <https://h.example/3>; rel="next")"),
            "https://h.example/3");
  EXPECT_EQ(next_link(R"(<https://h.example/1>; rel="first")"), "");
  EXPECT_EQ(next_link("<x"), "");
  EXPECT_EQ(next_link(""), "");
}

TEST(Retry, WaitsAsTheServerAsks) {
  HttpHead head;
  EXPECT_FALSE(asked_delay(head, 0));
  head.fields["ratelimit"] = R"("resolvers";r=0;t=42)";
  EXPECT_EQ(asked_delay(head, 0), std::chrono::seconds(42));
  head.fields["retry-after"] = "7";
  EXPECT_EQ(asked_delay(head, 0), std::chrono::seconds(7));
  head.fields["retry-after"] = "Sun, 06 Nov 1994 08:49:37 GMT";  // RFC 9110, 5.6.7: 784111777 s
  EXPECT_EQ(asked_delay(head, 784111767), std::chrono::seconds(10));
  EXPECT_EQ(asked_delay(head, 784111790), std::chrono::seconds(0));
}

TEST(Retry, BacksOffUpToALimit) {
  const RetryPolicy policy;
  EXPECT_EQ(backoff(policy, 1, 1.0), policy.first);
  EXPECT_EQ(backoff(policy, 3, 1.0), 4 * policy.first);
  EXPECT_EQ(backoff(policy, 3, 0.0), 2 * policy.first);
  EXPECT_EQ(backoff(policy, 1000, 1.0), policy.longest);
  EXPECT_TRUE(is_passing(429) && is_passing(503) && !is_passing(404) && !is_passing(401) && !is_passing(200));
}

}  // namespace
}  // namespace clef::fetch
