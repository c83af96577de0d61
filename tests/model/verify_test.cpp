#include "model/verify.h"

#include <gtest/gtest.h>

#include <fstream>

#include "minimal_model.h"
#include "model/gguf.h"
#include "model/inspect.h"
#include "support/golden.h"

namespace clef {
namespace {

namespace fs = std::filesystem;

VerifyReport verify_or_throw(const fs::path& snapshot, const fs::path& gguf) {
  auto report = verify(snapshot, gguf, {});
  if (!report) throw std::runtime_error(report.error().message);
  return std::move(report).value();
}

TEST(Verify, EveryTensorOfTheTestModelsIsExact) {
  for (const std::string name : {"clef-tiny", "clef-tiny27"}) {
    const VerifyReport report = verify_or_throw(test::test_data_path(name), test::test_data_path(name + ".gguf"));
    EXPECT_TRUE(report.is_exact()) << name << ": " << (report.differences.empty() ? "" : report.differences.front());
    EXPECT_EQ(report.num_exact, name == "clef-tiny" ? 210 : 190);
    EXPECT_GT(report.bytes_compared, 25'000'000U);
  }
}

TEST(Verify, AnotherModelIsNotExact) {
  const auto report = verify(test::test_data_path("clef-tiny"), test::test_data_path("clef-tiny27.gguf"), {});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->is_exact());
}

class Damage : public testing::Test {
 protected:
  std::vector<std::string> differences_with(std::string text) {
    std::ofstream(path_, std::ios::binary) << text;
    return verify_or_throw(scratch_.path() / "model", path_).differences;
  }
  // Where a tensor's data begin.
  std::size_t offset_of(const std::string& name) {
    const auto gguf = parse_gguf("m", std::as_bytes(std::span(good_)));
    return static_cast<std::size_t>(reinterpret_cast<const char*>(gguf->tensors.at(name).bytes.data()) - good_.data());
  }
  std::string with_byte(std::size_t at, int flip) {
    std::string text = good_;
    text[at] = static_cast<char>(text[at] ^ flip);
    return text;
  }

  test::ScratchFolder scratch_;
  fs::path path_ = test::write_minimal_gguf(scratch_);
  std::string good_ = test::read_file(path_);
};

TEST_F(Damage, OneFlippedBitAnywhereIsFound) {
  EXPECT_TRUE(differences_with(good_).empty());
  const auto gguf = parse_gguf("m", std::as_bytes(std::span(good_)));
  ASSERT_TRUE(gguf);
  for (const auto& [name, tensor] : gguf->tensors) {
    const std::size_t last = offset_of(name) + tensor.bytes.size() - 1;
    for (const std::size_t at : {offset_of(name), last}) {
      const auto differences = differences_with(with_byte(at, 1));
      ASSERT_EQ(differences.size(), 1U) << name;
      EXPECT_EQ(differences[0].rfind("DIFFERENT " + name + ": first at row ", 0), 0U) << differences[0];
    }
  }
}

TEST_F(Damage, ThePlaceOfADifferenceIsToldByRowAndColumn) {
  const auto differences = differences_with(with_byte(offset_of("blk.0.ssm_in.weight") + 2 * (2 * 7 + 1), 1));
  ASSERT_EQ(differences.size(), 1U);
  EXPECT_EQ(differences[0], "DIFFERENT blk.0.ssm_in.weight: first at row 7, column 1");
}

TEST_F(Damage, MissingAndUnexpectedTensorsAreListed) {
  std::string text = good_;
  text.replace(text.find("blk.0.ssm_a"), 11, "blk.0.ssm_x");
  EXPECT_EQ(differences_with(text), (std::vector<std::string>{"MISSING blk.0.ssm_a", "UNEXPECTED blk.0.ssm_x"}));
}

TEST_F(Damage, AnotherShapeOrTypeIsADifference) {
  std::string text = good_;
  const std::size_t row = text.find("blk.0.ssm_a") + 11;
  text[row + 12] = 30;  // BF16
  EXPECT_EQ(differences_with(text),
            std::vector<std::string>{"DIFFERENT blk.0.ssm_a: type BF16 shape [1], expected F32 [1]"});
}

TEST_F(Damage, OtherMetadataIsADifference) {
  std::string text = good_;
  text.replace(text.find("general.name") + 24, 5, "other");
  EXPECT_EQ(differences_with(text), std::vector<std::string>{"METADATA clef.*: another config than the snapshot's"});
  text = good_;
  text.replace(text.find("tokenizer.ggml.merges") + 21 + 24, 3, "b a");
  EXPECT_EQ(differences_with(text),
            std::vector<std::string>{"METADATA tokenizer.*: another tokenizer than the snapshot's"});
}

TEST_F(Damage, ATensorListedTwiceIsNamed) {
  std::string text = good_;
  text.replace(text.find("blk.1.attn_q_norm.weight"), 24, "blk.1.attn_k_norm.weight");
  std::ofstream(path_, std::ios::binary) << text;
  const auto report = verify(scratch_.path() / "model", path_, {});
  ASSERT_FALSE(report);
  EXPECT_NE(report.error().message.find("tensor blk.1.attn_k_norm.weight is listed twice"), std::string::npos);
}

TEST(Convert, RefusesMatricesThatAreNotBf16) {
  const test::ScratchFolder scratch;
  const fs::path folder = test::write_minimal_snapshot(scratch);
  // BF16 and F16 have the same size, so that the header alone changes.
  std::string head = test::read_file(folder / "joint_head.safetensors");
  const std::size_t row = head.find("\"memory_projection.weight\"");
  head.replace(head.find("\"BF16\"", row), 6, " \"F16\"");
  std::ofstream(folder / "joint_head.safetensors", std::ios::binary) << head;
  const auto made = convert(folder, scratch.path() / "out.gguf", {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message,
            "joint_head.safetensors: model: tensor head.memory_projection.weight has type F16, the converter copies "
            "BF16 alone");
  EXPECT_FALSE(fs::exists(scratch.path() / "out.gguf"));
}

TEST(Convert, LeavesNothingBehindWhenItCannotWrite) {
  const test::ScratchFolder scratch;
  const fs::path folder = test::write_minimal_snapshot(scratch);
  const auto made = convert(folder, scratch.path() / "nowhere" / "out.gguf", {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Errc::io);
  EXPECT_FALSE(fs::exists(scratch.path() / "nowhere"));
}

TEST(Convert, ReportsProgressUpToTheWholeFile) {
  const test::ScratchFolder scratch;
  const fs::path folder = test::write_minimal_snapshot(scratch);
  std::uint64_t last = 0, all = 0;
  const auto made = convert(folder, scratch.path() / "out.gguf", [&](std::uint64_t done, std::uint64_t total) {
    EXPECT_GE(done, last);
    last = done;
    all = total;
  });
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(all, made->file_bytes);
  EXPECT_LE(last, all);
  EXPECT_EQ(fs::file_size(scratch.path() / "out.gguf"), made->file_bytes);
}

TEST(Inspect, TellsWhatAFileHoldsAndWhyItDoesNotOpen) {
  const auto gguf = inspect(test::test_data_path("clef-tiny.gguf"));
  ASSERT_TRUE(gguf) << gguf.error().message;
  EXPECT_EQ(gguf->kind, "GGUF");
  EXPECT_EQ(gguf->problem, "");
  EXPECT_EQ(gguf->tensors.size(), 210U);
  const Json json = to_json(*gguf, false);
  EXPECT_EQ(*json.find("metadata")->find("clef.block_count"), Json(8));
  EXPECT_EQ(*json.find("metadata")->find("tokenizer.ggml.tokens")->find("count"), Json(4029));
  EXPECT_NE(to_text(*gguf, true).find("blk.7.attn_output.weight"), std::string::npos);

  const test::ScratchFolder scratch;
  const fs::path folder = test::write_minimal_snapshot(scratch);
  fs::remove(folder / "joint_head.safetensors");
  const auto broken = inspect(folder);
  ASSERT_TRUE(broken) << broken.error().message;
  EXPECT_NE(broken->problem.find("joint_head.safetensors"), std::string::npos);
  EXPECT_NE(to_text(*broken, false).find("cannot be opened as a model: "), std::string::npos);
}

}  // namespace
}  // namespace clef
