// BMP stills: palettes of 1, 4 and 8 bits, 16, 24 and 32 bits a pixel with the usual bit fields, run-length coding.
//
// There is no common library for it, so this is a reader of our own. Every offset is checked against the bytes there
// are. Source: Microsoft, "Bitmap Storage" (BITMAPCOREHEADER, BITMAPINFOHEADER, BITMAPV4HEADER, BITMAPV5HEADER).
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "media/image_formats.h"

namespace clef::media {
namespace {

constexpr std::size_t kFileHeaderBytes = 14, kCoreHeaderBytes = 12, kInfoHeaderBytes = 40;

constexpr std::uint32_t kNone = 0, kRle8 = 1, kRle4 = 2, kBitFields = 3;  // compression

Error invalid(std::string_view reason) { return invalid_image(ImageFormat::bmp, reason); }

std::uint32_t u16(Bytes bytes, std::size_t at) { return bytes[at] | static_cast<std::uint32_t>(bytes[at + 1] << 8); }
std::uint32_t u32(Bytes bytes, std::size_t at) { return u16(bytes, at) | u16(bytes, at + 2) << 16; }

struct BmpHeader {
  std::int64_t width = 0, height = 0;
  bool top_down = false;
  std::uint32_t bits = 0;
  std::uint32_t compression = kNone;
  std::array<std::uint32_t, 3> masks{};  // red, green, blue; of bit fields
  std::size_t palette_at = 0, palette_entry_bytes = 4, num_colours = 0;
  std::size_t pixels_at = 0;
};

bool has_palette(const BmpHeader& header) { return header.bits <= 8; }

Status check_coding(const BmpHeader& header) {
  const std::uint32_t bits = header.bits;
  if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32) {
    return invalid("not 1, 4, 8, 16, 24 or 32 bits a pixel");
  }
  switch (header.compression) {
    case kNone:
      return {};
    case kRle8:
      return bits == 8 ? Status() : invalid("8-bit run-length coding of other than 8 bits a pixel");
    case kRle4:
      return bits == 4 ? Status() : invalid("4-bit run-length coding of other than 4 bits a pixel");
    case kBitFields:
      return bits >= 16 ? Status() : invalid("bit fields beside a palette");
    default:
      return invalid("unknown compression");
  }
}

Result<BmpHeader> read_header(Bytes bytes) {
  if (bytes.size() < kFileHeaderBytes + 4) return invalid("the file ends early");
  const std::size_t header_bytes = u32(bytes, kFileHeaderBytes);
  constexpr std::array<std::size_t, 7> kKnownHeaders = {kCoreHeaderBytes, kInfoHeaderBytes, 52, 56, 64, 108, 124};
  if (std::find(kKnownHeaders.begin(), kKnownHeaders.end(), header_bytes) == kKnownHeaders.end()) {
    return invalid("unknown header");
  }
  if (bytes.size() < kFileHeaderBytes + header_bytes) return invalid("the file ends early");
  const Bytes fields = bytes.subspan(kFileHeaderBytes, header_bytes);

  BmpHeader header;
  header.pixels_at = u32(bytes, 10);
  header.palette_at = kFileHeaderBytes + header_bytes;
  if (header_bytes == kCoreHeaderBytes) {
    header.width = u16(fields, 4);
    header.height = u16(fields, 6);
    header.bits = u16(fields, 10);
    header.palette_entry_bytes = 3;
  } else {
    header.width = static_cast<std::int32_t>(u32(fields, 4));
    header.height = static_cast<std::int32_t>(u32(fields, 8));
    header.top_down = header.height < 0;
    header.height = std::abs(header.height);
    header.bits = u16(fields, 14);
    header.compression = u32(fields, 16);
    header.num_colours = u32(fields, 32);
    if (header.compression == kBitFields) {
      // The shortest header is followed by the masks, the longer ones hold them, at the same place.
      if (bytes.size() < kFileHeaderBytes + kInfoHeaderBytes + 12) return invalid("the file ends early");
      for (std::size_t i = 0; i < 3; ++i) {
        header.masks[i] = u32(bytes, kFileHeaderBytes + kInfoHeaderBytes + 4 * i);
      }
    }
  }
  TRY(check_coding(header));
  if (has_palette(header) && header.num_colours == 0) header.num_colours = std::size_t{1} << header.bits;
  return header;
}

Result<Palette> read_palette(Bytes bytes, const BmpHeader& header) {
  Palette palette;
  const std::size_t count = std::min<std::size_t>(header.num_colours, 256);  // a byte reaches no further
  if (bytes.size() - header.palette_at < count * header.palette_entry_bytes) return invalid("the file ends early");
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* entry = bytes.data() + header.palette_at + i * header.palette_entry_bytes;
    palette.set(i, entry[2], entry[1], entry[0]);
  }
  return palette;
}

// One row's pixels from its bytes; colours as indices, to be expanded later, in the front of the row.
using ReadRow = void (*)(const std::uint8_t* in, std::int64_t width, std::uint8_t* out);

template <int kBits>
void read_indices(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  constexpr int kPerByte = 8 / kBits;
  for (std::int64_t x = 0; x < width; ++x) {
    const int shift = 8 - kBits * (1 + static_cast<int>(x % kPerByte));
    out[x] = static_cast<std::uint8_t>((in[x / kPerByte] >> shift) & ((1 << kBits) - 1));
  }
}

// Byte places of red, green and blue in a pixel.
template <int kBytes, int kRed, int kGreen, int kBlue>
void read_bytes(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x, in += kBytes, out += 3) {
    out[0] = in[kRed];
    out[1] = in[kGreen];
    out[2] = in[kBlue];
  }
}

// 5 bits of red, kGreenBits of green, 5 of blue; each scaled to 0..255, rounding down.
template <int kGreenBits>
void read_words(const std::uint8_t* in, std::int64_t width, std::uint8_t* out) {
  constexpr int kGreenMax = (1 << kGreenBits) - 1;
  for (std::int64_t x = 0; x < width; ++x, in += 2, out += 3) {
    const int pixel = in[0] | in[1] << 8;
    out[0] = static_cast<std::uint8_t>(((pixel >> (5 + kGreenBits)) & 31) * 255 / 31);
    out[1] = static_cast<std::uint8_t>(((pixel >> 5) & kGreenMax) * 255 / kGreenMax);
    out[2] = static_cast<std::uint8_t>((pixel & 31) * 255 / 31);
  }
}

// Null for bit fields that nobody writes.
ReadRow row_reader(const BmpHeader& header) {
  using Masks = std::array<std::uint32_t, 3>;
  const bool fields = header.compression == kBitFields;
  switch (header.bits) {
    case 1:
      return read_indices<1>;
    case 4:
      return read_indices<4>;
    case 8:
      return read_indices<8>;
    case 16:
      if (!fields || header.masks == Masks{0x7c00, 0x3e0, 0x1f}) return read_words<5>;
      return header.masks == Masks{0xf800, 0x7e0, 0x1f} ? read_words<6> : nullptr;
    case 24:
      return !fields || header.masks == Masks{0xff0000, 0xff00, 0xff} ? read_bytes<3, 2, 1, 0> : nullptr;
    default:
      if (!fields || header.masks == Masks{0xff0000, 0xff00, 0xff} || header.masks == Masks{}) {
        return read_bytes<4, 2, 1, 0>;
      }
      if (header.masks == Masks{0xff000000, 0xff0000, 0xff00}) return read_bytes<4, 3, 2, 1>;
      return header.masks == Masks{0xff, 0xff00, 0xff0000} ? read_bytes<4, 0, 1, 2> : nullptr;
  }
}

std::uint8_t* row_of(Image& image, const BmpHeader& header, std::int64_t y) {
  return image.row(header.top_down ? y : image.height - 1 - y);
}

Status read_rows(Bytes data, const BmpHeader& header, Image& image) {
  const ReadRow read = row_reader(header);
  if (read == nullptr) return invalid("unusual bit fields");
  const auto row_bits = static_cast<std::size_t>(header.width) * header.bits;
  const std::size_t row_bytes = (row_bits + 7) / 8, stride = (row_bits + 31) / 32 * 4;
  const auto height = static_cast<std::size_t>(header.height);
  if (data.size() < (height - 1) * stride + row_bytes) return invalid("the file ends early");  // before memory is used
  for (std::size_t y = 0; y < height; ++y) {
    read(data.data() + y * stride, header.width, row_of(image, header, static_cast<std::int64_t>(y)));
  }
  return {};
}

// Places indices along rows; what is left out is index 0.
class RunWriter {
 public:
  RunWriter(const BmpHeader& header, Image& image) : header_(header), image_(image) { start_row(); }
  bool is_done() const { return y_ >= image_.height; }
  bool is_full() const { return y_ >= image_.height || (y_ == image_.height - 1 && x_ == image_.width); }

  // Pixels past the row's end are dropped.
  void put(std::uint8_t index) {
    if (!is_done() && x_ < image_.width) row_of(image_, header_, y_)[x_++] = index;
  }
  void end_row() {
    x_ = 0;
    ++y_;
    start_row();
  }
  void move(int right, int up) {
    const std::int64_t x = std::min<std::int64_t>(image_.width, x_ + right);
    for (; up > 0 && !is_done(); --up) end_row();
    x_ = x;
  }

 private:
  void start_row() {
    if (!is_done()) std::memset(row_of(image_, header_, y_), 0, static_cast<std::size_t>(image_.width));
  }
  const BmpHeader& header_;
  Image& image_;
  std::int64_t x_ = 0, y_ = 0;
};

// Pairs of bytes: a count and what to repeat, or 0 and a command.
Status read_runs(Bytes data, const BmpHeader& header, Image& image) {
  constexpr int kEndOfRow = 0, kEndOfBitmap = 1, kMove = 2;  // commands; above: that many indices follow
  const bool nibbles = header.compression == kRle4;
  RunWriter out(header, image);
  std::size_t at = 0;
  while (!out.is_full()) {
    if (data.size() - at < 2) return invalid("the file ends early");
    const int count = data[at], value = data[at + 1];
    at += 2;
    if (count > 0) {
      for (int i = 0; i < count; ++i) {
        const int index = !nibbles ? value : i % 2 == 0 ? value >> 4 : value & 15;
        out.put(static_cast<std::uint8_t>(index));
      }
    } else if (value == kEndOfRow) {
      out.end_row();
    } else if (value == kEndOfBitmap) {
      return invalid("the bitmap ends before its last row");
    } else if (value == kMove) {
      if (data.size() - at < 2) return invalid("the file ends early");
      out.move(data[at], data[at + 1]);
      at += 2;
    } else {
      const auto bytes = static_cast<std::size_t>(nibbles ? (value + 1) / 2 : value);
      if (data.size() - at < bytes) return invalid("the file ends early");
      for (int i = 0; i < value; ++i) {
        const int byte = data[at + static_cast<std::size_t>(nibbles ? i / 2 : i)];
        const int index = !nibbles ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
        out.put(static_cast<std::uint8_t>(index));
      }
      at += std::min(bytes + bytes % 2, data.size() - at);  // runs begin at even places
    }
  }
  return {};
}

}  // namespace

Result<Size> probe_bmp(Bytes bytes) {
  const BmpHeader header = TRY(read_header(bytes));
  return Size{header.width, header.height};
}

Status decode_bmp(Bytes bytes, Image& image) {
  const BmpHeader header = TRY(read_header(bytes));
  std::size_t at = header.pixels_at;
  const std::size_t palette_end = header.palette_at + header.palette_entry_bytes * header.num_colours;
  if (has_palette(header) && at == header.palette_at) at = palette_end;  // a writer's mistake that readers forgive
  if (at > bytes.size()) return invalid("the file ends early");
  const Bytes data = bytes.subspan(at);
  if (header.compression == kRle8 || header.compression == kRle4) {
    TRY(read_runs(data, header, image));
  } else {
    TRY(read_rows(data, header, image));
  }
  if (!has_palette(header)) return {};
  const Palette palette = TRY(read_palette(bytes, header));
  for (std::int64_t y = 0; y < image.height; ++y) palette.expand(image.row(y), image.width, image.row(y));
  return {};
}

}  // namespace clef::media
