// A model is the same model whichever way it lies on disk.
#include "model/model_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "base/bf16.h"
#include "model/snapshot.h"
#include "model/weights_bind.h"
#include "support/golden.h"

namespace clef {
namespace {

ModelFile open_or_throw(const std::filesystem::path& path) {
  auto model = open_model(path);
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(model).value();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_bits(const MappedMatrix& a, const MappedMatrix& b) {
  return a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols && a.bytes.size() == b.bytes.size() &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

// Whether two targets of the same row hold the same.
struct SameField {
  bool operator()(const ToMatrices& a, const ToMatrices& b) const {
    return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                      [](const MatrixRows& x, const MatrixRows& y) { return same_bits(*x.matrix, *y.matrix); });
  }
  bool operator()(const ToVectors& a, const ToVectors& b) const {
    return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                      [](const VectorPart& x, const VectorPart& y) { return same_bits(*x.values, *y.values); });
  }
  bool operator()(const ToTapMajor& a, const ToTapMajor& b) const { return same_bits(*a.values, *b.values); }
  bool operator()(const ToScalar& a, const ToScalar& b) const { return *a.value == *b.value; }
  template <typename A, typename B>
  bool operator()(const A&, const B&) const {
    return false;
  }
};

// A table's targets point at the fields of the weights that it was made for, bound or not.
void expect_same_weights(const ModelConfig& config, ModelWeights& a, ModelWeights& b) {
  const auto rows_a = snapshot_bindings(config, a), rows_b = snapshot_bindings(config, b);
  ASSERT_EQ(rows_a.size(), rows_b.size());
  for (std::size_t i = 0; i < rows_a.size(); ++i) {
    EXPECT_TRUE(std::visit(SameField{}, rows_a[i].target, rows_b[i].target)) << rows_a[i].name;
  }
}

class ModelFiles : public testing::TestWithParam<const char*> {};

TEST_P(ModelFiles, SnapshotAndGgufGiveTheSameModel) {
  ModelFile snapshot = open_or_throw(test::test_data_path(GetParam()));
  ModelFile gguf = open_or_throw(test::test_data_path(std::string(GetParam()) + ".gguf"));
  EXPECT_EQ(snapshot.config, gguf.config);
  EXPECT_EQ(snapshot.config.name, GetParam());
  EXPECT_TRUE(snapshot.tokenizer == gguf.tokenizer);
  EXPECT_EQ(snapshot.tokenizer.pattern, SplitPattern::qwen2);
  expect_same_weights(snapshot.config, snapshot.weights, gguf.weights);
}

TEST_P(ModelFiles, FieldsHoldTheStoredValuesFolded) {
  const std::filesystem::path folder = test::test_data_path(GetParam());
  const ModelFile model = open_or_throw(folder);
  const auto mapped = map_snapshot_tensors(folder);
  ASSERT_TRUE(mapped) << mapped.error().message;
  const auto stored = [&](const std::string& name) {
    const FileTensor& tensor = mapped->tensors.at(name);
    std::vector<float> values(tensor.bytes.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes.data() + 2 * i, 2);
      values[i] = bf16_to_f32(bits);
    }
    return values;
  };
  const TextConfig& text = model.config.text;
  const auto norm = stored("model.language_model.norm.weight");
  ASSERT_EQ(model.weights.norm.size(), norm.size());
  for (std::size_t i = 0; i < norm.size(); ++i) EXPECT_EQ(model.weights.norm[i], 1.0F + norm[i]);

  const std::string linear = "model.language_model.layers.0.linear_attn.";
  const auto& delta_net = std::get<DeltaNetWeights>(model.weights.layers[0].mixer);
  const auto a_log = stored(linear + "A_log");
  ASSERT_EQ(delta_net.neg_exp_a_log.size(), a_log.size());
  for (std::size_t i = 0; i < a_log.size(); ++i) {
    EXPECT_EQ(delta_net.neg_exp_a_log[i], static_cast<float>(-std::exp(static_cast<double>(a_log[i]))));
  }
  EXPECT_TRUE(same_bits(delta_net.norm, stored(linear + "norm.weight")));
  EXPECT_TRUE(same_bits(delta_net.dt_bias, stored(linear + "dt_bias")));
  const auto conv = stored(linear + "conv1d.weight");
  const auto channels = static_cast<std::size_t>(text.conv_width());
  ASSERT_EQ(delta_net.conv.size(), conv.size());
  for (std::size_t i = 0; i < channels; ++i) {
    for (std::size_t tap = 0; tap < 4; ++tap) EXPECT_EQ(delta_net.conv[tap * channels + i], conv[i * 4 + tap]);
  }
  EXPECT_EQ(delta_net.in_z.rows, text.value_width());
  EXPECT_EQ(model.weights.head.prior_logit_scale, stored("head.prior_logit_scale")[0]);
  const auto in_proj_bias = stored("head.layers.1.self_attn.in_proj_bias");
  const auto width = static_cast<std::size_t>(model.config.head.width);
  const MultiheadWeights& attention = model.weights.head.layers[1].self_attn;
  for (std::size_t i = 0; i < width; ++i) {
    EXPECT_EQ(attention.q.bias[i], in_proj_bias[i]);
    EXPECT_EQ(attention.k.bias[i], in_proj_bias[width + i]);
    EXPECT_EQ(attention.v.bias[i], in_proj_bias[2 * width + i]);
  }
}

// A row block of a stacked matrix is where the snapshot's own matrix is: same bytes, by name.
TEST_P(ModelFiles, StackedMatricesAreCutWhereTheSnapshotHasThem) {
  const auto mapped = map_snapshot_tensors(test::test_data_path(GetParam()));
  ASSERT_TRUE(mapped) << mapped.error().message;
  const ModelFile gguf = open_or_throw(test::test_data_path(std::string(GetParam()) + ".gguf"));
  const auto expect_rows = [&](const std::string& name, const MappedMatrix& matrix) {
    const FileTensor& tensor = mapped->tensors.at(name);
    EXPECT_EQ(tensor.shape, (Shape{matrix.rows, matrix.cols})) << name;
    ASSERT_EQ(tensor.bytes.size(), matrix.bytes.size()) << name;
    EXPECT_EQ(std::memcmp(tensor.bytes.data(), matrix.bytes.data(), matrix.bytes.size()), 0) << name;
  };
  for (std::size_t i = 0; i < gguf.weights.layers.size(); ++i) {
    const LayerWeights& layer = gguf.weights.layers[i];
    const std::string prefix = fmt::format("model.language_model.layers.{}.", i);
    expect_rows(prefix + "mlp.gate_proj.weight", layer.mlp.gate);
    expect_rows(prefix + "mlp.up_proj.weight", layer.mlp.up);
    if (const auto* delta_net = std::get_if<DeltaNetWeights>(&layer.mixer)) {
      expect_rows(prefix + "linear_attn.in_proj_qkv.weight", delta_net->in_qkv);
      expect_rows(prefix + "linear_attn.in_proj_z.weight", delta_net->in_z);
      expect_rows(prefix + "linear_attn.in_proj_b.weight", delta_net->in_b);
      expect_rows(prefix + "linear_attn.in_proj_a.weight", delta_net->in_a);
    } else {
      const auto& attention = std::get<AttentionWeights>(layer.mixer);
      expect_rows(prefix + "self_attn.q_proj.weight", attention.q_gate);
      expect_rows(prefix + "self_attn.k_proj.weight", attention.k);
      expect_rows(prefix + "self_attn.v_proj.weight", attention.v);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, ModelFiles, testing::Values("clef-tiny", "clef-tiny27"));

}  // namespace
}  // namespace clef
