#include "server/inflate.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

namespace clef::server {
namespace {

constexpr int kGzipWindow = 15 + 16;  // zlib.h, inflateInit2: the largest window, gzip's header only
constexpr std::size_t kStepBytes = 65536;

struct Stream {
  z_stream z{};
  bool is_open = false;
  Stream() { is_open = ::inflateInit2(&z, kGzipWindow) == Z_OK; }
  ~Stream() {
    if (is_open) ::inflateEnd(&z);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
};

}  // namespace

Result<std::string> gunzip(std::string_view compressed, std::size_t max_bytes) {
  if (compressed.size() > std::numeric_limits<uInt>::max()) return Error{Errc::too_large, "the body is too large"};
  Stream stream;
  if (!stream.is_open) return Error{Errc::out_of_memory, "no memory to decompress the body"};
  // zlib does not write to its input.
  stream.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
  stream.z.avail_in = static_cast<uInt>(compressed.size());
  std::string text;
  while (true) {
    const std::size_t before = text.size();
    text.resize(before + std::min(kStepBytes, max_bytes + 1 - before));  // one byte too many is enough to refuse
    stream.z.next_out = reinterpret_cast<Bytef*>(text.data() + before);
    stream.z.avail_out = static_cast<uInt>(text.size() - before);
    const int status = ::inflate(&stream.z, Z_NO_FLUSH);
    text.resize(text.size() - stream.z.avail_out);
    if (text.size() > max_bytes) {
      return Error{Errc::too_large, fmt::format("the body is larger than {} bytes when decompressed", max_bytes)};
    }
    if (status == Z_STREAM_END) break;
    if (status == Z_MEM_ERROR) return Error{Errc::out_of_memory, "no memory to decompress the body"};
    const bool can_go_on = status == Z_OK && (stream.z.avail_in > 0 || stream.z.avail_out == 0);
    if (!can_go_on) return Error{Errc::bad_request, "the body is no complete gzip stream"};
  }
  if (stream.z.avail_in > 0) return Error{Errc::bad_request, "bytes follow the body's gzip stream"};
  return text;
}

}  // namespace clef::server
