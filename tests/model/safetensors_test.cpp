#include "model/safetensors.h"

#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/scratch.h"

namespace clef {
namespace {

std::string file_of(const std::string& json, std::size_t data_bytes) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return out + json + std::string(data_bytes, '\x01');
}

Result<TensorTable> parse(const std::string& bytes) {
  return parse_safetensors("a.safetensors", std::as_bytes(std::span(bytes)));
}

TEST(Safetensors, ReadsNamesTypesShapesAndData) {
  const std::string bytes =
      file_of(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
              R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
              16);
  const auto table = parse(bytes);
  ASSERT_TRUE(table) << table.error().message;
  ASSERT_EQ(table->size(), 2U);
  EXPECT_EQ(table->at("a").dtype, DType::f32);
  EXPECT_TRUE(table->at("a").shape.empty());
  EXPECT_EQ(table->at("b").shape, (Shape{2, 3}));
  EXPECT_EQ(table->at("b").bytes.size(), 12U);
  EXPECT_EQ(reinterpret_cast<const char*>(table->at("b").bytes.data()) - bytes.data(),
            static_cast<std::ptrdiff_t>(bytes.size()) - 12);
}

TEST(Safetensors, ReadsTheFileTheReferenceWrote) {
  MappedTensors mapped;
  const auto added = mapped.add_safetensors(test::golden_path("trace_text.safetensors"));
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_GT(mapped.tensors.size(), 10U);
}

struct BadFile {
  const char* what;
  std::string bytes, message;
};

TEST(Safetensors, NamesWhatIsWrongInAFile) {
  const std::string whole = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const BadFile files[] = {
      {"header past the end", std::string("\xff\0\0\0\0\0\0\0{}", 10), "a header of 255 bytes in a file of 10"},
      {"header over the limit", std::string("\0\0\0\0\0\0\0\x80{}", 10), "a header of 9223372036854775808 bytes"},
      {"no JSON", file_of("{", 0), "header: json: "},
      {"no object", file_of("[]", 0), "header: expected an object, got list"},
      {"entry no object", file_of(R"({"a":1})", 0), "tensor a: expected an object, got integer"},
      {"metadata no object", file_of(R"({"__metadata__":1})", 0), "__metadata__: expected an object, got 1"},
      {"no type", file_of(R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4),
       "tensor a: dtype: expected a string, got nothing"},
      {"foreign type", file_of(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4),
       "tensor a has type F8_E4M3"},
      {"shape no list", file_of(R"({"a":{"dtype":"U8","shape":4,"data_offsets":[0,4]}})", 4),
       "tensor a: shape: expected a list of integers"},
      {"negative size", file_of(R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4),
       "tensor a has an impossible shape [-4]"},
      {"product overflows", file_of(R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4),
       "tensor a has an impossible shape [4294967296, 4294967296]"},
      {"number over 64 bits", file_of(R"({"a":{"dtype":"U8","shape":[99999999999999999999],"data_offsets":[0,4]}})", 4),
       "tensor a: shape: expected a list of integers"},
      {"too many dimensions", file_of(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,4],"data_offsets":[0,4]}})", 4),
       "tensor a has an impossible shape"},
      {"size and range differ", file_of(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})", 4),
       "tensor a has 4 bytes, but U8 [3] take 3 values of 1 bytes"},
      {"odd bytes", file_of(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,3]}})", 3), "tensor a has 3 bytes"},
      {"past the end", file_of(whole, 3), "tensor a lies at [0, 4], outside the 3 bytes of data"},
      {"backwards", file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4), "tensor a lies at [4, 0]"},
      {"negative offset", file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 4),
       "tensor a lies at [-4, 0]"},
      {"trailing bytes", file_of(whole, 5), "1 bytes at the end belong to no tensor"},
      {"gap",
       file_of(
           R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
           3),
       "1 bytes before tensor b belong to no tensor"},
      {"overlap",
       file_of(
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           3),
       "tensors a and b overlap"},
      {"repeated name",
       file_of(
           R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})",
           4),
       "tensor a is listed twice"},
  };
  for (const BadFile& file : files) {
    const auto table = parse(file.bytes);
    ASSERT_FALSE(table) << file.what;
    EXPECT_NE(table.error().message.find(file.message), std::string::npos)
        << file.what << ": " << table.error().message;
    EXPECT_EQ(table.error().message.rfind("a.safetensors: safetensors: ", 0), 0U) << table.error().message;
  }
  for (std::size_t size = 0; size < 8; ++size) {
    const auto table = parse(std::string(size, 'x'));
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().message, fmt::format("a.safetensors: safetensors: {} bytes are no safetensors file", size));
  }
}

TEST(Safetensors, EveryCutOfAFileIsRefused) {
  const std::string whole = file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  ASSERT_TRUE(parse(whole));
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse(whole.substr(0, size))) << size;
}

TEST(Safetensors, HeaderAlignsTheDataAndReadsBack) {
  const SafetensorsEntry entries[] = {{"x\"y", DType::bf16, {3}}, {"z", DType::f32, {}}};
  std::string bytes = safetensors_header(entries);
  EXPECT_EQ(bytes.size() % 8, 0U);
  bytes += std::string(10, '\0');
  const auto table = parse(bytes);
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->at("x\"y").bytes.size(), 6U);
  EXPECT_EQ(table->at("z").bytes.size(), 4U);
}

// Folders: one tensor a shard, and what an index may say about them.
class Shards : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("1.safetensors", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
    folder_.write("2.safetensors", file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  }
  std::string error_of(const std::string& index) {
    folder_.write("model.safetensors.index.json", index);
    MappedTensors tensors;
    const Status status = add_sharded_safetensors(folder_.path(), tensors);
    return status ? "" : status.error().message;
  }
  test::ScratchFolder folder_;
};

TEST_F(Shards, AreReadThroughTheirIndex) {
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"), "");
}

TEST_F(Shards, MustAgreeWithTheirIndex) {
  EXPECT_NE(error_of(R"({"weight_map": {"a": "1.safetensors", "b": "3.safetensors"}})").find("3.safetensors: missing"),
            std::string::npos);
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "1.safetensors", "c": "2.safetensors"}})"),
            "2.safetensors: missing tensor c, which model.safetensors.index.json places there");
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "2.safetensors", "b": "1.safetensors"}})"),
            "1.safetensors: holds tensor a, which model.safetensors.index.json places in 2.safetensors");
  EXPECT_NE(error_of(R"({"weight_map": {"a": "../1.safetensors"}})").find("weight_map.a: expected a file name"),
            std::string::npos);
  EXPECT_NE(error_of(R"({"weight_map": {"a": 1}})").find("weight_map.a: expected a file name"), std::string::npos);
  EXPECT_EQ(error_of(R"({})"), "model.safetensors.index.json: weight_map: expected an object, got nothing");
  folder_.write(
      "2.safetensors",
      file_of(
          R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"d":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
          2));
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"),
            "2.safetensors: holds tensor d, which model.safetensors.index.json does not list");
  folder_.write("2.safetensors", file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1));
  EXPECT_EQ(error_of(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}})"),
            "2.safetensors: tensor a is also in 1.safetensors");
}

TEST_F(Shards, AFolderWithoutWeightsIsNamed) {
  MappedTensors tensors;
  const Status status = add_sharded_safetensors(folder_.path(), tensors);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Errc::io);
  EXPECT_NE(status.error().message.find("no model.safetensors and no model.safetensors.index.json"), std::string::npos);
}

}  // namespace
}  // namespace clef
