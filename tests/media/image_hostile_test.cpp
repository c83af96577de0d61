// Pictures that are damaged, cut off, or claim more than they hold.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "media/image.h"
#include "support/golden.h"
#include "support/pictures.h"

namespace clef {
namespace {

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string golden(const std::string& name) { return test::read_file(test::golden_path("images/" + name)); }

std::string error_of(const std::string& file, std::int64_t max_pixels = kMaxImagePixels) {
  const auto image = decode_image(bytes_of(file), max_pixels);
  return image ? "none" : image.error().message;
}

std::string little_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 255);
  return out;
}

// The most memory this process has held, in bytes.
std::int64_t peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}
#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kLittle = 1 << 30;  // AddressSanitizer marks what is allocated, whether it is used or not
#else
constexpr std::int64_t kLittle = 24 << 20;
#endif

constexpr std::string_view kEachFormat[] = {"rgb.png",    "q75_420.jpg", "progressive.jpg", "cmyk.jpg",
                                            "lossy.webp", "alpha.webp",  "still.gif",       "still.bmp"};

TEST(HostileImage, EndingEarlyIsAnErrorInEveryFormat) {
  for (const std::string_view name : kEachFormat) {
    const std::string file = golden(std::string(name));
    for (std::size_t eighths = 0; eighths < 8; ++eighths) {
      const std::string cut = file.substr(0, file.size() * eighths / 8);
      const std::string error = error_of(cut);
      EXPECT_NE(error, "none") << name << " cut at " << cut.size();
      if (eighths > 0) {
        EXPECT_EQ(error.find("invalid or unsupported "), 0U) << error;
      }
    }
  }
}

TEST(HostileImage, SaysWhatIsWrong) {
  EXPECT_EQ(error_of(""), "empty");
  EXPECT_EQ(error_of("hello"), "not a PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(error_of("<svg></svg>"), "not a PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(error_of(golden("rgb.png").substr(0, 30)), "invalid or unsupported PNG: the file ends early");
  EXPECT_EQ(error_of(golden("q75_420.jpg").substr(0, 2000)),
            "invalid or unsupported JPEG: Premature end of input file");
  EXPECT_EQ(error_of(golden("lossy.webp").substr(0, 2000)),
            "invalid or unsupported WebP: the container is damaged or ends early");
  EXPECT_EQ(error_of(golden("still.bmp").substr(0, 2000)), "invalid or unsupported BMP: the file ends early");
  EXPECT_EQ(error_of(golden("still.gif").substr(0, 13)).find("invalid or unsupported GIF: "), 0U);
}

TEST(HostileImage, DamagedEntropyDataOfAJpegIsNoError) {
  std::string file = golden("q90_444.jpg");
  for (std::size_t i = file.size() / 2; i < file.size() / 2 + 40; ++i) file[i] = static_cast<char>(i * 37 & 127);
  EXPECT_EQ(error_of(file), "none");
}

TEST(HostileImage, DamagedCompressionOfAPngIsAnError) {
  std::string file = golden("rgb.png");
  for (std::size_t i = file.size() / 2; i < file.size() / 2 + 40; ++i) file[i] = '\x55';
  EXPECT_EQ(error_of(file).find("invalid or unsupported PNG: "), 0U);
}

TEST(HostileImage, SizesOverTheCapsAreRefusedByTheHeader) {
  const std::int64_t before = peak_bytes();
  const auto png = [](std::uint32_t width, std::uint32_t height) {
    return test::png_of({.width = width, .height = height}, test::png_chunk("IDAT", "x"));
  };
  EXPECT_EQ(error_of(png(16385, 1)), "16385x1: a side exceeds 16384 pixels");
  EXPECT_EQ(error_of(png(1, 2147483647)), "1x2147483647: a side exceeds 16384 pixels");
  EXPECT_EQ(error_of(png(8192, 8193)), "8192x8193 is 67117056 pixels, above the limit of 67108864 per image");
  EXPECT_EQ(error_of(png(300, 200), 59999), "300x200 is 60000 pixels, above the limit of 59999 per image");

  std::string jpeg = golden("q75_420.jpg");  // SOF0: marker, length, precision, height, width
  const std::size_t sof = jpeg.find("\xff\xc0");
  ASSERT_NE(sof, std::string::npos);
  jpeg.replace(sof + 5, 4, std::string("\xff\xff\xff\xff", 4));
  EXPECT_EQ(error_of(jpeg).find("invalid or unsupported JPEG: Maximum supported image dimension is 65500"), 0U);
  jpeg.replace(sof + 5, 4, std::string("\x80\x01\x80\x01", 4));
  EXPECT_EQ(error_of(jpeg), "32769x32769: a side exceeds 16384 pixels");

  std::string gif = golden("still.gif");
  gif.replace(6, 4, std::string("\xff\xff\xff\xff", 4));
  EXPECT_EQ(error_of(gif), "65535x65535: a side exceeds 16384 pixels");

  std::string bmp = golden("still.bmp");
  bmp.replace(18, 8, little_endian(16384, 4) + little_endian(4097, 4));
  EXPECT_EQ(error_of(bmp), "16384x4097 is 67125248 pixels, above the limit of 67108864 per image");
  bmp.replace(18, 8, little_endian(0xffffffff, 4) + little_endian(0x80000000, 4));
  EXPECT_EQ(error_of(bmp), "invalid or unsupported BMP: no pixels");

  std::string webp = golden("alpha.webp");
  if (const std::size_t vp8x = webp.find("VP8X"); vp8x != std::string::npos) {
    webp.replace(vp8x + 12, 6, "\xff\x3f\x00\xff\x3f\x00", 6);  // the canvas, less one
    EXPECT_NE(error_of(webp), "none");
  }
  EXPECT_LT(peak_bytes() - before, kLittle);
}

// The largest size that is taken, and next to nothing behind it: costs what is there, not what is claimed.
TEST(HostileImage, ClaimingMuchCostsLittle) {
  const std::int64_t before = peak_bytes();
  const std::string rows = test::zlib_compressed(std::string(10 * (1 + 3 * 8192), '\0'));
  for (const bool interlaced : {false, true}) {
    const std::string png =
        test::png_of({.width = 8192, .height = 8192, .interlaced = interlaced}, test::png_chunk("IDAT", rows));
    EXPECT_EQ(error_of(png).find("invalid or unsupported PNG: "), 0U) << error_of(png);
  }
  std::string jpeg = golden("q75_420.jpg");
  jpeg.replace(jpeg.find("\xff\xc0") + 5, 4, std::string("\x20\x00\x20\x00", 4));
  jpeg.resize(jpeg.size() / 2);
  EXPECT_EQ(error_of(jpeg), "invalid or unsupported JPEG: Premature end of input file");
  std::string bmp = golden("still.bmp");
  bmp.replace(18, 8, little_endian(8192, 4) + little_endian(8192, 4));
  EXPECT_EQ(error_of(bmp), "invalid or unsupported BMP: the file ends early");
  EXPECT_LT(peak_bytes() - before, kLittle);
}

// A few kilobytes that unpack to 8192 x 8192: over a server's limit they are refused before the first row.
TEST(HostileImage, AZipBombIsRefusedBeforeItIsUnpacked) {
  const std::string rows = test::zlib_compressed(std::string(8192 * 1025, '\0'));
  const std::string png =
      test::png_of({.width = 8192, .height = 8192, .bit_depth = 1, .colour_type = 0}, test::png_chunk("IDAT", rows));
  ASSERT_LT(png.size(), 16U << 10);
  const std::int64_t before = peak_bytes();
  EXPECT_EQ(error_of(png, 16777216), "8192x8192 is 67108864 pixels, above the limit of 16777216 per image");
  EXPECT_LT(peak_bytes() - before, kLittle);
}

// A compressed profile or text of any size is skipped, not unpacked.
TEST(HostileImage, APngsTextAndProfileAreNotRead) {
  const std::string bomb = test::zlib_compressed(std::string(32 << 20, '\0'));
  const std::string pixel = test::png_chunk("IDAT", test::zlib_compressed(std::string("\0\1\2\3", 4)));
  const std::int64_t before = peak_bytes();
  const auto image =
      decode_image(bytes_of(test::png_of({}, test::png_chunk("iCCP", std::string("x\0\0", 3) + bomb) +
                                                 test::png_chunk("zTXt", std::string("x\0\0", 3) + bomb) + pixel)));
  EXPECT_LT(peak_bytes() - before, kLittle);
  ASSERT_TRUE(image.has_value()) << image.error().message;
  EXPECT_EQ(image->rgb[0], 1);
  EXPECT_EQ(image->rgb[2], 3);
}

// The file's last scan, over and over, on a picture whose header claims 8192 x 8192.
TEST(HostileImage, AProgressiveJpegMayNotGoOverItsBlocksForever) {
  std::string jpeg = golden("progressive.jpg");
  const std::size_t sof = jpeg.find("\xff\xc2"), scan = jpeg.rfind("\xff\xda");
  ASSERT_NE(sof, std::string::npos);
  ASSERT_NE(scan, std::string::npos);
  const std::string header = jpeg.substr(scan, 2 + static_cast<std::size_t>(jpeg[scan + 3]));
  std::string bomb = jpeg.substr(0, scan);
  bomb.replace(sof + 5, 4, std::string("\x20\x00\x20\x00", 4));
  for (int i = 0; i < 400; ++i) bomb += header;
  bomb += "\xff\xd9";
  ASSERT_LT(bomb.size(), 32U << 10);
  EXPECT_EQ(error_of(bomb), "invalid or unsupported JPEG: its scans go over its blocks too many times");
  EXPECT_EQ(error_of(jpeg, 300 * 200), "none");  // the same limit lets an honest file of the limit's size pass
}

}  // namespace
}  // namespace clef
