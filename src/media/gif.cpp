// GIF by giflib: the first frame, on the canvas it is drawn on.
#include <gif_lib.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "media/image_formats.h"

namespace clef::media {
namespace {

class GifReader {
 public:
  explicit GifReader(Bytes bytes) : bytes_(bytes) { gif_ = DGifOpen(this, read, &error_); }
  ~GifReader() {
    if (gif_ != nullptr) DGifCloseFile(gif_, nullptr);
  }
  GifReader(const GifReader&) = delete;
  GifReader& operator=(const GifReader&) = delete;

  // Up to the first frame's pixels.
  Status read_header() {
    if (gif_ == nullptr) return fail(error_);
    for (;;) {
      GifRecordType type = UNDEFINED_RECORD_TYPE;
      if (DGifGetRecordType(gif_, &type) != GIF_OK) return fail(gif_->Error);
      if (type == IMAGE_DESC_RECORD_TYPE) break;
      if (type == TERMINATE_RECORD_TYPE) return invalid_image(ImageFormat::gif, "no frame");
      TRY(read_extension());
    }
    if (DGifGetImageDesc(gif_) != GIF_OK) return fail(gif_->Error);
    return {};
  }

  const GifImageDesc& frame() const { return gif_->Image; }
  // The screen, enlarged where the first frame reaches past it.
  Size canvas() const {
    return {std::max<std::int64_t>(gif_->SWidth, std::int64_t{frame().Left} + frame().Width),
            std::max<std::int64_t>(gif_->SHeight, std::int64_t{frame().Top} + frame().Height)};
  }
  // Where the frame does not reach: the transparent index, or the first.
  std::uint8_t background() const { return background_; }

  Palette palette() const {
    Palette palette;
    const ColorMapObject* map = frame().ColorMap != nullptr ? frame().ColorMap : gif_->SColorMap;
    for (int i = 0; map != nullptr && i < map->ColorCount; ++i) {
      const GifColorType& colour = map->Colors[i];
      palette.set(static_cast<std::size_t>(i), colour.Red, colour.Green, colour.Blue);
    }
    return palette;
  }

  // `width` of the frame's indices, in the file's order of rows.
  Status read_row(std::uint8_t* to) {
    if (DGifGetLine(gif_, to, frame().Width) != GIF_OK) return fail(gif_->Error);
    return {};
  }

 private:
  Status read_extension() {
    int code = 0;
    GifByteType* block = nullptr;
    if (DGifGetExtension(gif_, &code, &block) != GIF_OK) return fail(gif_->Error);
    if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr && block[0] >= 4) {
      const bool transparent = (block[1] & 1) != 0;
      if (transparent) background_ = block[4];
    }
    while (block != nullptr) {
      if (DGifGetExtensionNext(gif_, &block) != GIF_OK) return fail(gif_->Error);
    }
    return {};
  }

  Error fail(int code) const {
    const char* reason = GifErrorString(code);
    return invalid_image(ImageFormat::gif, reason != nullptr ? reason : "the file ends early");
  }

  static int read(GifFileType* gif, GifByteType* to, int count) {
    auto* reader = static_cast<GifReader*>(gif->UserData);
    const std::size_t bytes = std::min(static_cast<std::size_t>(std::max(count, 0)), reader->bytes_.size());
    std::memcpy(to, reader->bytes_.data(), bytes);
    reader->bytes_ = reader->bytes_.subspan(bytes);
    return static_cast<int>(bytes);
  }

  Bytes bytes_;  // not yet read
  int error_ = 0;
  GifFileType* gif_ = nullptr;
  std::uint8_t background_ = 0;
};

}  // namespace

Result<Size> probe_gif(Bytes bytes) {
  GifReader reader(bytes);
  TRY(reader.read_header());
  return reader.canvas();
}

Status decode_gif(Bytes bytes, Image& image) {
  GifReader reader(bytes);
  TRY(reader.read_header());
  const GifImageDesc& frame = reader.frame();
  if (frame.Width < 1 || frame.Height < 1) return invalid_image(ImageFormat::gif, "no pixels");
  // Indices first, each row in the front of its pixels' place.
  if (frame.Width != image.width || frame.Height != image.height) {
    for (std::int64_t y = 0; y < image.height; ++y) {
      std::memset(image.row(y), reader.background(), static_cast<std::size_t>(image.width));
    }
  }
  const auto row = [&](std::int64_t y) { return image.row(frame.Top + y) + frame.Left; };
  if (!frame.Interlace) {
    for (std::int64_t y = 0; y < frame.Height; ++y) TRY(reader.read_row(row(y)));
  } else {
    constexpr struct { std::int64_t first, step; } kPasses[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    for (const auto& pass : kPasses) {
      for (std::int64_t y = pass.first; y < frame.Height; y += pass.step) TRY(reader.read_row(row(y)));
    }
  }
  const Palette palette = reader.palette();
  for (std::int64_t y = 0; y < image.height; ++y) palette.expand(image.row(y), image.width, image.row(y));
  return {};
}

}  // namespace clef::media
