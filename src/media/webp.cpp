// WebP by libwebp: lossy, lossless, with alpha; of an animation the first frame.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "media/image_formats.h"

namespace clef::media {
namespace {

struct DeleteDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
using Demuxer = std::unique_ptr<WebPDemuxer, DeleteDemuxer>;

// Nothing unless the container is whole and its chunks agree with each other.
Demuxer open(Bytes bytes) {
  const WebPData data{bytes.data(), bytes.size()};
  return Demuxer(WebPDemux(&data));
}

class FirstFrame {
 public:
  explicit FirstFrame(const WebPDemuxer& demuxer) { found_ = WebPDemuxGetFrame(&demuxer, 1, &frame_) != 0; }
  ~FirstFrame() { WebPDemuxReleaseIterator(&frame_); }
  FirstFrame(const FirstFrame&) = delete;
  FirstFrame& operator=(const FirstFrame&) = delete;
  bool found() const { return found_; }
  const WebPIterator& operator*() const { return frame_; }

 private:
  WebPIterator frame_{};
  bool found_;
};

}  // namespace

Result<Size> probe_webp(Bytes bytes) {
  const Demuxer demuxer = open(bytes);
  if (demuxer == nullptr) return invalid_image(ImageFormat::webp, "the container is damaged or ends early");
  return Size{WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT)};
}

Status decode_webp(Bytes bytes, Image& image) {
  const Demuxer demuxer = open(bytes);
  if (demuxer == nullptr) return invalid_image(ImageFormat::webp, "the container is damaged or ends early");
  const FirstFrame frame(*demuxer);
  if (!frame.found()) return invalid_image(ImageFormat::webp, "no frame");
  const std::int64_t x = (*frame).x_offset, y = (*frame).y_offset;
  const std::int64_t width = (*frame).width, height = (*frame).height;
  if (x < 0 || y < 0 || width < 1 || height < 1 || x + width > image.width || y + height > image.height) {
    return invalid_image(ImageFormat::webp, "the first frame lies outside the canvas");
  }
  // An animation's canvas is transparent black before its first frame; the frame replaces what it covers.
  if (width != image.width || height != image.height) std::memset(image.rgb.get(), 0, image.size_bytes());
  std::uint8_t* const to = image.row(y) + 3 * x;
  const auto size = static_cast<std::size_t>((height - 1) * image.width * 3 + width * 3);
  const auto stride = static_cast<int>(image.width * 3);
  if (WebPDecodeRGBInto((*frame).fragment.bytes, (*frame).fragment.size, to, size, stride) == nullptr) {
    return invalid_image(ImageFormat::webp, "the pixel data is damaged or ends early");
  }
  return {};
}

}  // namespace clef::media
