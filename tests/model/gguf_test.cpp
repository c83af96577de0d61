#include "model/gguf.h"

#include <gtest/gtest.h>

#include <cstring>

namespace clef {
namespace {

// A GGUF put together byte by byte, right or wrong.
struct Bytes {
  std::string out;
  Bytes& u32(std::uint32_t value) { return number(value, 4); }
  Bytes& u64(std::uint64_t value) { return number(value, 8); }
  Bytes& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  Bytes& string(std::string_view text) {
    u64(text.size());
    out += text;
    return *this;
  }
  Bytes& header(std::uint64_t num_tensors, std::uint64_t num_keys, std::uint32_t version = 3) {
    out += "GGUF";
    return u32(version).u64(num_tensors).u64(num_keys);
  }
  // One row of the tensor table; dimensions innermost first.
  Bytes& tensor(std::string_view name, std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
    string(name).u32(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t size : dims) u64(size);
    return u32(type).u64(offset);
  }
  Bytes& data(std::size_t bytes) {
    while (out.size() % 32 != 0) out += '\0';
    out.append(bytes, '\x02');
    return *this;
  }
};

constexpr std::uint32_t kU32 = 4, kBool = 7, kString = 8, kArray = 9, kF32 = 0, kBf16 = 30;

Result<Gguf> parse(const Bytes& bytes) { return parse_gguf("m.gguf", std::as_bytes(std::span(bytes.out))); }

TEST(Gguf, ReadsEveryTypeOfValue) {
  Bytes bytes;
  bytes.header(0, 13);
  bytes.string("u8").u32(0).number(200, 1);
  bytes.string("i8").u32(1).number(0xff, 1);
  bytes.string("u16").u32(2).number(60000, 2);
  bytes.string("i16").u32(3).number(0xfffe, 2);
  bytes.string("u32").u32(4).u32(7);
  bytes.string("i32").u32(5).u32(0xfffffffdU);
  bytes.string("f32").u32(6).u32(0x3fc00000U);
  bytes.string("bool").u32(7).number(1, 1);
  bytes.string("string").u32(8).string("text");
  bytes.string("u64").u32(10).u64(~std::uint64_t{0});
  bytes.string("i64").u32(11).u64(~std::uint64_t{4});
  bytes.string("f64").u32(12).u64(0x4004000000000000U);
  bytes.string("array").u32(9).u32(9).u64(2).u32(1).u64(2).number(0x01ff, 2).u32(8).u64(1).string("x");
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf) << gguf.error().message;
  const GgufMetadata& m = gguf->metadata;
  EXPECT_EQ(*m.at("u8").if_unsigned(), 200U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i8").value), -1);
  EXPECT_EQ(*m.at("u16").if_unsigned(), 60000U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i16").value), -2);
  EXPECT_EQ(*m.at("u32").if_unsigned(), 7U);
  EXPECT_EQ(std::get<std::int64_t>(m.at("i32").value), -3);
  EXPECT_EQ(*m.at("f32").if_float(), 1.5);
  EXPECT_TRUE(std::get<bool>(m.at("bool").value));
  EXPECT_EQ(*m.at("string").if_string(), "text");
  EXPECT_EQ(*m.at("u64").if_unsigned(), ~std::uint64_t{0});
  EXPECT_EQ(std::get<std::int64_t>(m.at("i64").value), -5);
  EXPECT_EQ(*m.at("f64").if_float(), 2.5);
  EXPECT_EQ(m.at("array").if_array()->count, 2U);
}

TEST(Gguf, ReadsBackWhatTheBuilderWrote) {
  GgufBuilder builder;
  builder.add_string("s", "x");
  builder.add_u32("n", 5);
  builder.add_f32("f", 0.25F);
  builder.add_i32s("list", std::vector<std::int32_t>{3, -1});
  builder.add_strings("names", std::vector<std::string>{"a", "", "bc"});
  builder.add_tensor("t", DType::f32, {2, 3});
  builder.add_tensor("u", DType::bf16, {5});
  const GgufBuilder::Layout layout = builder.layout();
  EXPECT_EQ(layout.offsets[0] % 32, 0U);
  EXPECT_EQ(layout.offsets[1], layout.offsets[0] + 32);  // 24 bytes, padded
  Bytes bytes{layout.header};
  bytes.data(static_cast<std::size_t>(layout.file_bytes) - layout.header.size());
  const auto gguf = parse(bytes);
  ASSERT_TRUE(gguf) << gguf.error().message;
  EXPECT_EQ(gguf->metadata.at("list").if_array()->integers(), (std::vector<std::int64_t>{3, -1}));
  EXPECT_EQ(gguf->metadata.at("names").if_array()->strings(), (std::vector<std::string_view>{"a", "", "bc"}));
  EXPECT_EQ(*gguf->metadata.at("f").if_float(), 0.25);
  EXPECT_EQ(gguf->tensors.at("t").shape, (Shape{2, 3}));
  EXPECT_EQ(gguf->tensors.at("u").dtype, DType::bf16);
  EXPECT_EQ(gguf->tensors.at("u").bytes.size(), 10U);
  EXPECT_EQ(gguf->tensor_bytes, 34U);
}

TEST(Gguf, NamesWhatIsWrongInAFile) {
  const auto tensor_file = [](std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset) {
    Bytes bytes;
    return bytes.header(1, 0).tensor("t", std::move(dims), type, offset).data(64);
  };
  const auto key_file = [](auto&& add) {
    Bytes bytes;
    bytes.header(0, 1).string("k");
    add(bytes);
    return bytes;
  };
  struct BadFile {
    const char* what;
    Bytes bytes;
    const char* message;
  };
  const BadFile files[] = {
      {"short", Bytes{std::string(23, 'G')}, "file too small: 23 bytes"},
      {"magic", Bytes{std::string(24, 'x')}, "bad magic"},
      {"version", Bytes().header(0, 0, 2), "unsupported version 2, expected 3"},
      {"tensor count", Bytes().header(~std::uint64_t{0}, 0), "bad header counts"},
      {"key count", Bytes().header(0, 1000), "bad header counts"},
      {"no keys where one is promised", Bytes().header(0, 1), "truncated metadata: key 1 of 1"},
      {"key's name past the end", Bytes().header(0, 1).u64(~std::uint64_t{0}), "truncated metadata"},
      {"unknown type", key_file([](Bytes& b) { b.u32(13).u64(0); }), "truncated metadata"},
      {"string past the end", key_file([](Bytes& b) {
         b.u32(kString).u64(5);
         b.out += "abcd";
       }),
       "truncated metadata"},
      {"array past the end", key_file([](Bytes& b) { b.u32(kArray).u32(kU32).u64(~std::uint64_t{0} / 2); }),
       "truncated metadata"},
      {"array of strings past the end",
       key_file([](Bytes& b) { b.u32(kArray).u32(kString).u64(~std::uint64_t{0}).string("a"); }), "truncated metadata"},
      {"array of unknown type", key_file([](Bytes& b) { b.u32(kArray).u32(99).u64(0); }), "truncated metadata"},
      {"nesting of three",
       key_file([](Bytes& b) { b.u32(kArray).u32(kArray).u64(1).u32(kArray).u64(1).u32(kArray).u64(0); }),
       "truncated metadata"},
      {"key twice", Bytes().header(0, 2).string("k").u32(kBool).number(1, 1).string("k").u32(kBool).number(1, 1),
       "key k occurs twice"},
      {"alignment of 3", Bytes().header(0, 1).string("general.alignment").u32(kU32).u32(3), "bad alignment"},
      {"alignment of 0", Bytes().header(0, 1).string("general.alignment").u32(kU32).u32(0), "bad alignment"},
      {"alignment no number", Bytes().header(0, 1).string("general.alignment").u32(kString).string("32"),
       "bad alignment"},
      {"no table", Bytes().header(1, 0).u64(0), "bad tensor table: it is cut short"},
      {"no dimensions", tensor_file({}, kF32, 0), "bad tensor table: tensor t has 0 dimensions"},
      {"five dimensions", tensor_file({1, 1, 1, 1, 1}, kF32, 0), "bad tensor table: tensor t has 5 dimensions"},
      {"dimension of 0", tensor_file({4, 0}, kF32, 0), "bad tensor table: tensor t has a dimension of 0"},
      {"product overflows", tensor_file({std::uint64_t{1} << 40, std::uint64_t{1} << 40}, kF32, 0),
       "bad tensor table: tensor t has an impossible shape"},
      {"dimension overflows", tensor_file({~std::uint64_t{0}}, kF32, 0),
       "bad tensor table: tensor t has a dimension of"},
      {"quantised", tensor_file({32}, 8, 0), "bad tensor table: tensor t has type number 8"},
      {"crooked offset", tensor_file({1}, kF32, 8), "bad tensor table: tensor t lies at 8, not a multiple of 32"},
      {"past the end", tensor_file({17}, kF32, 0), "tensor data out of bounds: t wants 17 F32 at 0 of 64 bytes"},
      {"offset past the end", tensor_file({1}, kF32, std::uint64_t{1} << 40), "tensor data out of bounds"},
      {"size that wraps in bytes", tensor_file({std::uint64_t{1} << 60}, kF32, 32), "tensor data out of bounds"},
      {"no data", Bytes().header(1, 0).tensor("t", {1}, kF32, 0), "tensor data out of bounds"},
      {"tensor twice", Bytes().header(2, 0).tensor("t", {1}, kF32, 0).tensor("t", {1}, kF32, 32).data(64),
       "bad tensor table: tensor t is listed twice"},
      {"overlap", Bytes().header(2, 0).tensor("t", {20}, kBf16, 0).tensor("u", {1}, kF32, 32).data(64),
       "bad tensor table: tensors t and u overlap"},
  };
  for (const BadFile& file : files) {
    const auto gguf = parse(file.bytes);
    ASSERT_FALSE(gguf) << file.what;
    EXPECT_EQ(gguf.error().message.rfind(std::string("m.gguf: gguf: ") + file.message, 0), 0U)
        << file.what << ": " << gguf.error().message;
    EXPECT_EQ(gguf.error().code, Errc::bad_model);
  }
}

TEST(Gguf, EveryCutOfAFileIsRefused) {
  Bytes bytes;
  bytes.header(1, 2).string("k").u32(kArray).u32(kString).u64(2).string("a").string("bc");
  bytes.string("n").u32(kU32).u32(4).tensor("t", {16}, kF32, 0).data(64);
  ASSERT_TRUE(parse(bytes));
  for (std::size_t size = 0; size < bytes.out.size(); ++size)
    EXPECT_FALSE(parse(Bytes{bytes.out.substr(0, size)})) << size;
}

}  // namespace
}  // namespace clef
