// Weights by formula against the digests of the reference's generator.
#include "model/synthetic.h"

#include <gtest/gtest.h>

#include "model/snapshot.h"
#include "support/golden.h"
#include "support/sha256.h"

namespace clef {
namespace {

Shape shape_of(const Json& row) {
  Shape shape;
  for (const Json& size : *row.find("shape")->if_array()) shape.push_back(std::stoll(size.if_integer()->digits));
  return shape;
}

bool is_head(const Json& row) { return *row.find("file") == Json("joint_head.safetensors"); }

void expect_digests_of_formula(const std::string& digests, const SyntheticOptions& options) {
  const std::vector<Json> rows = test::golden_lines(digests);
  ASSERT_GT(rows.size(), 200U);
  for (const Json& row : rows) {
    const std::string name = (is_head(row) ? "head." : "") + *row.find("name")->if_string();
    const Shape shape = shape_of(row);
    std::vector<std::uint16_t> values(static_cast<std::size_t>(count_of(shape)));
    SyntheticTensor(name, shape, options).fill(0, values);
    EXPECT_EQ(test::sha256(std::as_bytes(std::span(values))), *row.find("sha256")->if_string()) << name;
  }
}

// The folder that the build made, read back.
void expect_digests_of_folder(const std::string& digests, const std::string& folder) {
  const auto mapped = map_snapshot_tensors(test::test_data_path(folder));
  ASSERT_TRUE(mapped) << mapped.error().message;
  std::size_t num_rows = 0;
  for (const Json& row : test::golden_lines(digests)) {
    const std::string name = (is_head(row) ? "head." : "") + *row.find("name")->if_string();
    if (name.starts_with("mtp.")) continue;  // not part of what is written
    ++num_rows;
    const auto found = mapped->tensors.find(name);
    ASSERT_NE(found, mapped->tensors.end()) << name;
    EXPECT_EQ(found->second.dtype, DType::bf16) << name;
    EXPECT_EQ(found->second.shape, shape_of(row)) << name;
    EXPECT_EQ(test::sha256(found->second.bytes), *row.find("sha256")->if_string()) << name;
  }
  EXPECT_EQ(mapped->tensors.size(), num_rows);
}

TEST(Synthetic, MakesEveryTensorOfClefTiny) { expect_digests_of_formula("tensors.jsonl", {}); }

TEST(Synthetic, AppliesSaltAndOverridesOfClefTiny27) {
  const auto options = parse_synthetic_options(test::read_file(test::golden_path("clef-tiny27/synthetic.json")));
  ASSERT_TRUE(options) << options.error().message;
  expect_digests_of_formula("tiny27_tensors.jsonl", *options);
}

TEST(Synthetic, WritesTheWholeSnapshotOfClefTiny) { expect_digests_of_folder("tensors.jsonl", "clef-tiny"); }

TEST(Synthetic, WritesTheWholeSnapshotOfClefTiny27) { expect_digests_of_folder("tiny27_tensors.jsonl", "clef-tiny27"); }

TEST(Synthetic, FillsAnyStretchAsItFillsTheWhole) {
  const Shape shape{40, 25};
  const SyntheticTensor tensor("model.language_model.layers.0.mlp.up_proj.weight", shape, {});
  std::vector<std::uint16_t> whole(1000), part(333);
  tensor.fill(0, whole);
  tensor.fill(129, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 129));
}

TEST(Synthetic, RefusesOptionsOfAnotherForm) {
  const auto wrong = parse_synthetic_options(R"({"overrides": {"A_log": [1.0]}})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "synthetic.json: overrides.A_log: expected two numbers, offset and scale, got list");
}

}  // namespace
}  // namespace clef
