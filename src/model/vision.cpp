#include "model/vision.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace clef {

namespace {

constexpr float kLayerNormEps = 1e-6F;  // of the tower; the head's is 1e-5
constexpr double kRotaryBase = 10000.0;

constexpr std::size_t kTaps = 4;  // rows of the position table, for each patch

// Where index i of an axis of n patches lies on an axis of `side` table rows: two rows and their weights.
// Source: Qwen3_5VisionModel.fast_pos_embed_interpolate, bilinear with aligned corners.
struct Interpolation {
  Interpolation(std::int64_t i, std::int64_t n, std::int64_t side) {
    const float place = static_cast<float>(i * (side - 1)) / static_cast<float>(std::max<std::int64_t>(n - 1, 1));
    const auto floor = static_cast<std::int64_t>(place);
    const float fraction = place - static_cast<float>(floor);
    low = std::clamp<std::int64_t>(floor, 0, side - 1);
    high = std::clamp<std::int64_t>(floor + 1, 0, side - 1);
    low_weight = 1.0F - fraction;
    high_weight = fraction;
  }
  std::int64_t low, high;
  float low_weight, high_weight;
};

// Of all rows or columns of patches.
std::vector<Interpolation> interpolations(std::int64_t count, std::int64_t side) {
  std::vector<Interpolation> places;
  for (std::int64_t place = 0; place < count; ++place) places.emplace_back(place, count, side);
  return places;
}

void append_patch(VisionLists& lists, std::int64_t side, const AngleTable& angles,
                  const std::vector<Interpolation>& rows, std::int64_t r, const std::vector<Interpolation>& columns,
                  std::int64_t c) {
  const Interpolation& row = rows[static_cast<std::size_t>(r)];
  const Interpolation& col = columns[static_cast<std::size_t>(c)];
  std::size_t tap = kTaps * lists.patches;
  for (const auto& [tap_row, row_weight] : {std::pair(row.low, row.low_weight), std::pair(row.high, row.high_weight)}) {
    for (const auto& [tap_col, col_weight] :
         {std::pair(col.low, col.low_weight), std::pair(col.high, col.high_weight)}) {
      lists.taps[tap] = static_cast<std::int32_t>(tap_row * side + tap_col);
      lists.weights[tap++] = row_weight * col_weight;
    }
  }
  // The first half of the pairs turns with the row, the second with the column.
  const std::size_t width = angles.width();
  std::size_t at = 2 * width * lists.patches++;
  for (const std::int64_t place : {r, c}) {
    std::memcpy(lists.cos.data() + at, angles.cos(place).data(), width * sizeof(float));
    std::memcpy(lists.sin.data() + at, angles.sin(place).data(), width * sizeof(float));
    at += width;
  }
}

void append_grid(VisionLists& lists, const VisionConfig& config, const std::array<std::int64_t, 3>& grid,
                 AngleTable& angles) {
  const std::int64_t merge = config.spatial_merge_size;
  const auto [times, height, width] = grid;
  const auto side =
      static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(config.num_position_embeddings))));
  angles.reach(std::max(height, width) - 1);
  const auto rows = interpolations(height, side), columns = interpolations(width, side);
  for (std::int64_t t = 0; t < times; ++t) {
    for (std::int64_t r = 0; r < height; r += merge) {
      for (std::int64_t c = 0; c < width; c += merge) {
        for (std::int64_t i = 0; i < merge * merge; ++i) {
          append_patch(lists, side, angles, rows, r + i / merge, columns, c + i % merge);
        }
      }
    }
    lists.cu_segments.push_back(lists.cu_segments.back() + static_cast<std::int32_t>(height * width));
  }
}

// Of these grids, which are the packing's afterwards.
Status lay_out(std::vector<std::array<std::int64_t, 3>> grids, const VisionConfig& config, VisionPacking& packing) {
  packing.layout = nullptr;  // before the new one: both may not fit
  const auto layout = std::make_shared<VisionLayout>(packing.device);
  for (const auto& [times, height, width] : grids) layout->patches += times * height * width;
  VisionLists& lists = packing.lists;
  lists.start(static_cast<std::size_t>(layout->patches), packing.angles.width());
  for (const auto& grid : grids) append_grid(lists, config, grid, packing.angles);
  layout->grids = std::move(grids);
  DeviceTables& tables = layout->tables;
  layout->position_taps = TRY(tables.ints(lists.taps, kTaps));
  layout->position_weights = TRY(tables.floats(lists.weights, kTaps));
  const std::int64_t pairs = config.hidden_size / config.num_heads / 2;
  layout->cos = TRY(tables.floats(lists.cos, pairs));
  layout->sin = TRY(tables.floats(lists.sin, pairs));
  layout->cu_segments = TRY(tables.ints(lists.cu_segments, static_cast<std::int64_t>(lists.cu_segments.size())));
  packing.layout = layout;
  return {};
}

// The tokens whose rows the tower makes, of the batch.
void append_token_rows(std::vector<std::int32_t>& rows, const EncodedMedia& media, std::int64_t first_token,
                       std::int64_t merged) {
  std::int64_t tokens = 0;
  for (const Span& span : media.token_spans) {
    tokens += span.count;
    for (std::int64_t t = span.first; t < span.end(); ++t) rows.push_back(static_cast<std::int32_t>(first_token + t));
  }
  CHECK(tokens == merged, "{} tokens for {} merged patches", tokens, merged);
}

template <typename Take>
void each_matrix(VisionScratch& s, const VisionConfig& config, std::int64_t patches, DType activation, Take take) {
  const std::int64_t merged = patches / (config.spatial_merge_size * config.spatial_merge_size);
  take(s.x, patches, config.hidden_size, DType::f32);
  for (Tensor* t : {&s.normed, &s.attended}) take(*t, patches, config.hidden_size, activation);
  take(s.qkv, patches, 3 * config.hidden_size, activation);
  take(s.inner, patches, config.intermediate_size, activation);
  take(s.merger_inner, merged, config.merge_width(), activation);
  take(s.out, merged, config.out_hidden_size, DType::f32);
}

LayerNorm layer_norm(const Tensor& y, const Tensor& x, const DeviceNorm& norm) {
  return {.y = y, .x = x, .gain = norm.gain, .bias = norm.bias, .eps = kLayerNormEps};
}

}  // namespace

void VisionLists::start(std::size_t count, std::size_t angles) {
  cu_segments.assign(1, 0);
  taps.resize(kTaps * count);
  weights.resize(kTaps * count);
  cos.resize(2 * angles * count);
  sin.resize(2 * angles * count);
  patches = 0;
}

std::vector<float> vision_frequencies(const VisionConfig& config) {
  const std::int64_t quarter = config.hidden_size / config.num_heads / 4;
  std::vector<float> frequencies;
  for (std::int64_t j = 0; j < quarter; ++j) {
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(2 * quarter);
    frequencies.push_back(1.0F / static_cast<float>(std::pow(kRotaryBase, static_cast<double>(exponent))));
  }
  return frequencies;
}

Result<VisionBatch> pack_vision(std::span<const EncodedRecord* const> records,
                                std::span<const std::int64_t> first_tokens, const VisionConfig& config,
                                VisionPacking& packing, DeviceTables& tables) {
  const std::int64_t merge = config.spatial_merge_size;
  std::vector<std::array<std::int64_t, 3>> grids;
  std::vector<std::span<const std::uint8_t>> levels;
  std::vector<std::int32_t> token_rows;
  for (std::size_t i = 0; i < records.size(); ++i) {
    for (const EncodedMedia& media : records[i]->media) {
      CHECK(media.grid_h % merge == 0 && media.grid_w % merge == 0);
      const std::int64_t patches = media.grid_t * media.grid_h * media.grid_w;
      CHECK(static_cast<std::int64_t>(media.patches.size()) == patches * config.patch_width());
      grids.push_back({media.grid_t, media.grid_h, media.grid_w});
      levels.emplace_back(media.patches);
      append_token_rows(token_rows, media, first_tokens[i], patches / (merge * merge));
    }
  }
  VisionBatch batch;
  if (grids.empty()) return batch;
  batch.levels = TRY(tables.levels(levels, config.patch_width()));
  if (packing.layout == nullptr || packing.layout->grids != grids) TRY(lay_out(std::move(grids), config, packing));
  batch.layout = packing.layout;
  batch.patches = batch.layout->patches;
  batch.merged = static_cast<std::int64_t>(token_rows.size());
  batch.token_rows = TRY(tables.ints(token_rows, batch.merged));
  return batch;
}

std::size_t VisionScratch::bytes(const VisionConfig& config, std::int64_t patches, DType activation) {
  VisionScratch unused;
  std::size_t bytes = 0;
  each_matrix(unused, config, patches, activation, [&](Tensor&, std::int64_t rows, std::int64_t cols, DType dtype) {
    bytes += Arena::bytes_for(rows, cols, dtype);
  });
  return bytes;
}

VisionScratch VisionScratch::take(const VisionConfig& config, std::int64_t patches, DType activation, Arena& arena) {
  VisionScratch s;
  each_matrix(s, config, patches, activation, [&](Tensor& tensor, std::int64_t rows, std::int64_t cols, DType dtype) {
    tensor = arena.take(rows, cols, dtype);
  });
  return s;
}

Result<VisionTower> VisionTower::load(const VisionWeights& weights, const VisionConfig& config, WeightLoader& loader) {
  VisionTower tower;
  tower.patch_embed_ = TRY(loader.linear(weights.patch_embed));
  tower.pos_embed_ = TRY(loader.matrix(weights.pos_embed));
  for (const VisionBlockWeights& from : weights.blocks) {
    Block block;
    block.name = fmt::format("block.{}", tower.blocks_.size());
    block.norm1 = TRY(loader.norm(from.norm1));
    block.norm2 = TRY(loader.norm(from.norm2));
    block.qkv = TRY(loader.linear(from.qkv));
    block.proj = TRY(loader.linear(from.proj));
    block.fc1 = TRY(loader.linear(from.fc1));
    block.fc2 = TRY(loader.linear(from.fc2));
    tower.blocks_.push_back(std::move(block));
  }
  tower.merger_norm_ = TRY(loader.norm(weights.merger_norm));
  tower.merger_fc1_ = TRY(loader.linear(weights.merger_fc1));
  tower.merger_fc2_ = TRY(loader.linear(weights.merger_fc2));
  tower.head_dim_ = config.hidden_size / config.num_heads;
  return tower;
}

void VisionTower::forward(Pass& pass, const VisionBatch& batch, const VisionScratch& s) const {
  const VisionLayout& layout = *batch.layout;
  const std::int64_t width = s.x.cols;
  const Tensor q = s.qkv.col_range(0, width), k = s.qkv.col_range(width, width), v = s.qkv.col_range(2 * width, width);
  pass.run(PatchEmbed{.y = s.x, .levels = batch.levels, .w = patch_embed_.weight, .bias = patch_embed_.bias});
  pass.mark("vision", "patch_embed", s.x);
  pass.run(
      AddInterpolated{.y = s.x, .table = pos_embed_, .taps = layout.position_taps, .weights = layout.position_weights});
  for (const Block& block : blocks_) {
    pass.run(layer_norm(s.normed, s.x, block.norm1));
    pass.run(Linear{.y = s.qkv, .x = s.normed, .w = block.qkv.weight, .bias = block.qkv.bias});
    pass.run(Rope{.x = s.qkv.col_range(0, 2 * width), .cos = layout.cos, .sin = layout.sin});  // queries and keys
    pass.run(CrossAttention{.y = s.attended,
                            .q = q,
                            .k = k,
                            .v = v,
                            .cu_queries = layout.cu_segments,
                            .cu_keys = layout.cu_segments,
                            .head_dim = head_dim_});
    pass.run(LinearAdd{.y = s.x, .x = s.attended, .w = block.proj.weight, .bias = block.proj.bias});
    pass.run(layer_norm(s.normed, s.x, block.norm2));
    pass.run(
        LinearGelu{.y = s.inner, .x = s.normed, .w = block.fc1.weight, .bias = block.fc1.bias, .gelu = Gelu::tanh});
    pass.run(LinearAdd{.y = s.x, .x = s.inner, .w = block.fc2.weight, .bias = block.fc2.bias});
    pass.mark("vision", block.name, s.x);
  }
  pass.run(layer_norm(s.normed, s.x, merger_norm_));
  // The patches of a merge block lie one after another, so their rows are one row of four times the width.
  Tensor merged = s.normed;
  merged.rows = batch.merged;
  merged.cols = merged.stride = s.merger_inner.cols;
  pass.run(LinearGelu{.y = s.merger_inner,
                      .x = merged,
                      .w = merger_fc1_.weight,
                      .bias = merger_fc1_.bias,
                      .gelu = Gelu::erf});  // the blocks' is the tanh form
  pass.run(Linear{.y = s.out, .x = s.merger_inner, .w = merger_fc2_.weight, .bias = merger_fc2_.bias});
  pass.mark("vision", "merger", s.out);
}

}  // namespace clef
