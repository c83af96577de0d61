// JPEG by libjpeg-turbo at its defaults: accurate integer DCT, smooth chroma upsampling, its rules for colour spaces.
#include <cstdio>  // jpeglib.h needs FILE

#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "media/image_formats.h"

namespace clef::media {
namespace {

// What reading one more scan costs whatever it holds, as block visits: building its Huffman tables.
constexpr std::int64_t kVisitsPerScan = 64;

// One decode. libjpeg reports errors by calling fail(), which jumps back to the guarded() that is running; so nothing
// with a destructor may live between the two.
class JpegReader {
 public:
  explicit JpegReader(Bytes bytes) {
    info_.err = jpeg_std_error(&errors_);
    errors_.error_exit = fail;
    errors_.output_message = ignore;
    info_.client_data = this;
    source_.next_input_byte = bytes.data();
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = ignore_start;
    source_.fill_input_buffer = fill;
    source_.skip_input_data = skip;
    source_.resync_to_restart = jpeg_resync_to_restart;
    source_.term_source = ignore_start;
    progress_.progress_monitor = count_visits;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Up to the first scan.
  Status read_header() {
    return guarded([this] {
      jpeg_create_decompress(&info_);
      info_.src = &source_;
      jpeg_read_header(&info_, TRUE);
    });
  }
  Size size() const { return {info_.image_width, info_.image_height}; }
  int num_components() const { return info_.num_components; }

  // A file of several scans is read whole here, which `max_block_visits` bounds.
  Status start(std::int64_t max_block_visits) {
    return guarded([this, max_block_visits] {
      visits_left_ = max_block_visits;
      info_.out_color_space = info_.num_components == 4 ? JCS_CMYK : JCS_RGB;
      info_.progress = &progress_;
      jpeg_start_decompress(&info_);
      info_.progress = nullptr;
    });
  }
  Status read_rows(std::int64_t count, JSAMPROW* rows) {
    return guarded([this, count, rows] {
      for (JDIMENSION done = 0; done < count;) {
        done += jpeg_read_scanlines(&info_, rows + done, static_cast<JDIMENSION>(count) - done);
      }
    });
  }
  // Reads on to the end marker.
  Status finish() {
    return guarded([this] { jpeg_finish_decompress(&info_); });
  }

 private:
  template <typename Step>
  Status guarded(Step step) {
    if (setjmp(jump_) != 0) return invalid_image(ImageFormat::jpeg, reason_);
    step();
    return {};
  }

  static JpegReader& of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

  [[noreturn]] static void fail(j_common_ptr info) {
    JpegReader& reader = of(info);
    info->err->format_message(info, reader.reason_);
    std::longjmp(reader.jump_, 1);
  }
  static void ignore(j_common_ptr) {}  // damaged entropy data is no error: the library goes on as it can

  static void ignore_start(j_decompress_ptr) {}
  // The whole file stands in memory, so whoever wants more has come to its end. The library's own source would make up
  // an end marker here.
  static boolean fill(j_decompress_ptr info) {
    ERREXIT(info, JERR_INPUT_EOF);
    return FALSE;
  }
  static void skip(j_decompress_ptr info, long count) {
    if (count <= 0) return;
    const auto bytes = static_cast<std::size_t>(count);
    if (bytes > info->src->bytes_in_buffer) ERREXIT(info, JERR_INPUT_EOF);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= bytes;
  }

  // Called before each row of blocks of each scan.
  static void count_visits(j_common_ptr common) {
    JpegReader& reader = of(common);
    const jpeg_decompress_struct& info = reader.info_;
    // A scan of one component has a block an MCU, and as many rows of them as the component is sampled vertically.
    const int rows = info.comps_in_scan == 1 ? info.cur_comp_info[0]->v_samp_factor : 1;
    reader.visits_left_ -= std::int64_t{info.MCUs_per_row} * info.blocks_in_MCU * rows;
    if (info.input_scan_number != reader.last_scan_) {
      reader.last_scan_ = info.input_scan_number;
      reader.visits_left_ -= kVisitsPerScan;
    }
    if (reader.visits_left_ < 0) {
      std::strncpy(reader.reason_, "its scans go over its blocks too many times", sizeof reader.reason_ - 1);
      std::longjmp(reader.jump_, 1);
    }
  }

  jpeg_decompress_struct info_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::int64_t visits_left_ = 0;
  int last_scan_ = 0;
  std::jmp_buf jump_{};
  char reason_[JMSG_LENGTH_MAX] = {};
};

// x / 255 for a product of two bytes, rounded.
int divide_by_255(int product) {
  const int y = product + 128;
  return (y + (y >> 8)) >> 8;
}

// Four values a pixel, which count as inverted whether an Adobe marker says so or not, as in Pillow.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::int64_t width, std::uint8_t* rgb) {
  for (std::int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int channel = 0; channel < 3; ++channel) {
      rgb[channel] = static_cast<std::uint8_t>(white - divide_by_255((255 - cmyk[channel]) * white));
    }
  }
}

}  // namespace

Result<Size> probe_jpeg(Bytes bytes) {
  JpegReader reader(bytes);
  TRY(reader.read_header());
  return reader.size();
}

Status decode_jpeg(Bytes bytes, std::int64_t max_block_visits, Image& image) {
  JpegReader reader(bytes);
  TRY(reader.read_header());
  const int components = reader.num_components();
  if (components != 1 && components != 3 && components != 4) {
    return invalid_image(ImageFormat::jpeg, "neither one, three nor four components");
  }
  TRY(reader.start(max_block_visits));
  if (components != 4) {
    std::vector<JSAMPROW> rows(static_cast<std::size_t>(image.height));
    for (std::int64_t y = 0; y < image.height; ++y) rows[static_cast<std::size_t>(y)] = image.row(y);
    TRY(reader.read_rows(image.height, rows.data()));
  } else {
    std::vector<std::uint8_t> cmyk(static_cast<std::size_t>(image.width) * 4);
    JSAMPROW row = cmyk.data();
    for (std::int64_t y = 0; y < image.height; ++y) {
      TRY(reader.read_rows(1, &row));
      cmyk_to_rgb(row, image.width, image.row(y));
    }
  }
  return reader.finish();
}

}  // namespace clef::media
