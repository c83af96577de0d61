// PNG by libpng: every colour type and depth, interlaced or not.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <vector>

#include "media/image_formats.h"

namespace clef::media {
namespace {

// One decode. libpng reports errors by calling fail(), which jumps back to the guarded() that is running; so nothing
// with a destructor may live between the two.
class PngReader {
 public:
  explicit PngReader(Bytes bytes) : bytes_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    CHECK(png_ != nullptr, "libpng is of another version than its header, or out of memory");
    info_ = png_create_info_struct(png_);
    png_set_read_fn(png_, this, read);
    // Chunks that change no pixel are skipped unread: text and profiles may be compressed bombs.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // ours are checked by the caller, with their message
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Up to the first byte of pixel data.
  Status read_info() {
    return guarded([this] { png_read_info(png_, info_); });
  }
  Size size() const { return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)}; }

  // Pixels as three bytes of colour, or one of grey or palette index, or two of 16-bit grey; see bytes_per_pixel().
  Status read_pixels(png_bytepp rows) {
    return guarded([this, rows] {
      if (keeps_16_bits()) {
        // as it stands
      } else if (png_get_bit_depth(png_, info_) == 16) {
        png_set_strip_16(png_);
      } else if (has_palette()) {
        png_set_packing(png_);  // indices, one a byte; Palette does the rest, as it differs from libpng past the end
      } else if (png_get_bit_depth(png_, info_) < 8) {
        png_set_expand_gray_1_2_4_to_8(png_);
      }
      png_set_strip_alpha(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      png_read_image(png_, rows);
    });
  }

  bool has_palette() const { return colour_type() == PNG_COLOR_TYPE_PALETTE; }
  bool is_colour() const { return colour_type() == PNG_COLOR_TYPE_RGB || colour_type() == PNG_COLOR_TYPE_RGB_ALPHA; }
  // Grey of 16 bits without alpha: min(v, 255) rather than the high byte, as Pillow has it.
  bool keeps_16_bits() const { return colour_type() == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png_, info_) == 16; }

  Palette palette() const {
    Palette palette;
    png_colorp colours = nullptr;
    int count = 0;
    if (has_palette() && png_get_PLTE(png_, info_, &colours, &count) != 0) {
      for (int i = 0; i < count; ++i) {
        palette.set(static_cast<std::size_t>(i), colours[i].red, colours[i].green, colours[i].blue);
      }
    }
    return palette;
  }

 private:
  int colour_type() const { return png_get_color_type(png_, info_); }

  template <typename Step>
  Status guarded(Step step) {
    if (setjmp(jump_) != 0) return invalid_image(ImageFormat::png, reason_);
    step();
    return {};
  }

  [[noreturn]] static void fail(png_structp png, png_const_charp reason) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader->reason_, reason, sizeof reader->reason_ - 1);
    std::longjmp(reader->jump_, 1);
  }
  static void ignore(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader->bytes_.size()) png_error(png, "the file ends early");
    std::memcpy(to, reader->bytes_.data(), count);
    reader->bytes_ = reader->bytes_.subspan(count);
  }

  Bytes bytes_;  // not yet read
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf jump_{};
  char reason_[128] = {};
};

}  // namespace

Result<Size> probe_png(Bytes bytes) {
  PngReader reader(bytes);
  TRY(reader.read_info());
  return reader.size();
}

Status decode_png(Bytes bytes, Image& image) {
  PngReader reader(bytes);
  TRY(reader.read_info());
  std::vector<png_bytep> rows(static_cast<std::size_t>(image.height));
  for (std::int64_t y = 0; y < image.height; ++y) rows[static_cast<std::size_t>(y)] = image.row(y);
  TRY(reader.read_pixels(rows.data()));
  if (reader.is_colour()) return {};
  const Palette palette = reader.palette();
  for (std::uint8_t* row : rows) {
    if (reader.keeps_16_bits()) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        row[x] = row[2 * x] != 0 ? std::uint8_t{255} : row[2 * x + 1];
      }
    }
    palette.expand(row, image.width, row);
  }
  return {};
}

}  // namespace clef::media
