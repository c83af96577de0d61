#include "clef/ask_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <system_error>
#include <utility>

#include "clef/ask.h"
#include "clef/input.h"
#include "media/base64.h"
#include "media/image.h"
#include "record/media.h"
#include "record/media_numbers.h"

namespace clef::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxFps = 1000;

Error at(std::string_view place, const Error& error) {
  return {error.code, fmt::format("{}: {}", place, error.message)};
}

// A file's text ends before its last line end, so that it reads as the same text would on the command line.
void drop_line_end(std::string& text) {
  if (!text.empty() && text.back() == '\n') text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
}

Result<Json> parse_state(std::string text, bool is_json) {
  if (is_json) return parse_json(text);
  TRY(check_utf8(text));
  return Json(std::move(text));
}

Result<Json> read_state(const Asking& asking) {
  if (asking.state_file) {
    std::string text = TRY(read_whole(*asking.state_file, kMaxStateBytes));
    drop_line_end(text);
    auto state = parse_state(std::move(text), asking.state_is_json);
    if (state) return state;
    return Error{Errc::io, fmt::format("{}: {}", *asking.state_file, state.error().message)};
  }
  auto state = parse_state(asking.state.value_or(""), asking.state_is_json);
  return state ? std::move(state) : Result<Json>(at("--state", state.error()));
}

// Image files as data URLs, as long as all together are not too large.
class Images {
 public:
  explicit Images(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  Result<Json> read(const std::string& name) {
    const std::size_t left = max_bytes_ - num_bytes_;
    const auto file = read_whole(name, std::min(kMaxImageBytes, left));
    if (!file && file.error().code == Errc::too_large && left < kMaxImageBytes) {
      return Error{Errc::too_large, fmt::format("{}: with this the images are over the {} bytes that a request may "
                                                "have in all",
                                                name, max_bytes_)};
    }
    if (!file) return file.error();
    num_bytes_ += file->size();
    const std::span bytes(reinterpret_cast<const std::uint8_t*>(file->data()), file->size());
    // Looked at here, since the engine's messages cannot name the file.
    const auto header = probe_image(bytes);
    if (!header) return Error{Errc::io, fmt::format("{}: {}", name, header.error().message)};
    std::string url = fmt::format("data:{};base64,", media_type_of(header->format));
    append_base64(url, bytes);
    return Json(std::move(url));
  }

 private:
  std::size_t max_bytes_;
  std::size_t num_bytes_ = 0;
};

Result<Json> read_video(const std::string& folder, const Json& fps, Images& images) {
  const std::vector<fs::path> files = TRY(frame_files(folder));
  if (files.empty() || files.size() > static_cast<std::size_t>(kMaxClipFrames)) {
    return Error{Errc::io, fmt::format("{}: expected 1 to {} images, got {}", folder, kMaxClipFrames, files.size())};
  }
  Json::Array frames;
  for (const fs::path& file : files) frames.push_back(TRY(images.read(file.string())));
  return Json(Json::Object{{"frames", std::move(frames)}, {"fps", fps}});
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The digits that `text` begins with, without leading zeros, and what follows them.
std::pair<std::string_view, std::string_view> split_number(std::string_view text) {
  const auto end = static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  std::string_view digits = text.substr(0, end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return {digits, text.substr(end)};
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const auto [number_a, rest_a] = split_number(a);
      const auto [number_b, rest_b] = split_number(b);
      if (number_a.size() != number_b.size()) return number_a.size() < number_b.size();
      if (number_a != number_b) return number_a < number_b;
      a = rest_a;
      b = rest_b;
    } else {
      if (a.front() != b.front()) return a < b;
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // the same numbers, with other leading zeros
}

std::optional<Json> frame_rate(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::nullopt;
  const auto rate = number(*value);
  if (!rate || !(*rate > 0 && *rate <= kMaxFps)) return std::nullopt;
  return std::move(value).value();
}

Result<std::vector<fs::path>> frame_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failure;
  fs::directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    if (entry->path().filename().string().front() == '.') continue;
    std::error_code gone;
    if (!entry->is_directory(gone)) files.push_back(entry->path());
  }
  if (failure) return Error{Errc::io, fmt::format("{}: {}", folder.string(), failure.message())};
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  return files;
}

Result<Json> make_request(const Asking& asking, std::size_t max_media_bytes) {
  auto questions = parse_questions(asking.questions);
  if (!questions) return at("--ask", questions.error());
  Json state = TRY(read_state(asking));
  Json::Object body = {{"model", "clef"}, {"state", std::move(state)}, {"questions", std::move(questions).value()}};
  Images images(max_media_bytes);
  if (!asking.images.empty()) {
    Json::Array urls;
    for (const std::string& name : asking.images) urls.push_back(TRY(images.read(name)));
    body.emplace_back("images", std::move(urls));
  }
  if (asking.frames) {
    Json video = TRY(read_video(*asking.frames, asking.fps.value_or(Json()), images));
    body.emplace_back("videos", Json::Array{std::move(video)});
  }
  return Json(std::move(body));
}

}  // namespace clef::cli
