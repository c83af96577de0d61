// A block of a matrix product with its epilogue.
// Arithmetic: per output, kDepthBlock fma in a chain, partial sums added in order of depth; bias last.
// Schedule:   B and A packed a depth block at a time, the block's sums in scratch that stays in cache.
// Bound:      fma.
#pragma once

namespace clef::cpu {
namespace {

// Column group g (16 columns) of the product: for swiglu even groups are gate columns and odd ones up columns, so that
// both factors of an output lie side by side.
inline Index num_groups(Index columns, bool swiglu) { return div_up(columns, 16) * (swiglu ? 2 : 1); }
inline Index num_panels(Index columns, bool swiglu) { return div_up(num_groups(columns, swiglu), kVecsPerPanel); }

std::size_t linear_scratch(Index rows, Index columns, bool swiglu) {
  const Index panels = num_panels(columns, swiglu);
  return static_cast<std::size_t>(panels * kPanel * kDepthBlock      // packed B
                                  + rows * kDepthBlock + kTileSlack  // packed A
                                  + rows * panels * kPanel);         // sums
}

template <typename T>
void pack_groups(const LinearBlock& block, Index first_depth, Index depth, float* panels) {
  const bool swiglu = block.epilogue == Epilogue::swiglu;
  const Index groups = num_panels(block.num_columns, swiglu) * kVecsPerPanel;
  for (Index g = 0; g < groups; ++g) {
    const Index column = (swiglu ? g / 2 : g) * 16;  // within the block
    Index count = block.num_columns - column;
    count = count < 0 ? 0 : count > 16 ? 16 : count;
    const T* w = static_cast<const T*>(swiglu && g % 2 == 1 ? block.w_up : block.w);
    const T* rows = count > 0 ? w + (block.first_column + column) * block.depth + first_depth : w;
    float* out = panels + g / kVecsPerPanel * kPanel * depth + g % kVecsPerPanel * 16;
    pack_transposed16(rows, block.depth, static_cast<int>(count), depth, out, kPanel);
  }
}

// y from the sums of one row. `sums` holds whole groups of 16.
void finish_row(const LinearBlock& block, const float* sums, float* y) {
  for (Index c = 0; c < block.num_columns; c += 16) {
    const int count = static_cast<int>(least(16, block.num_columns - c));
    float* out = y + block.first_column + c;
    F32x16 value;
    if (block.epilogue == Epilogue::swiglu) {
      value = mul(silu(load(sums + 2 * c)), load(sums + 2 * c + 16));
    } else {
      value = load(sums + c);
      if (block.bias != nullptr) value = add(value, load_first(block.bias + block.first_column + c, count));
      if (block.epilogue == Epilogue::add) value = add(load_first(out, count), value);
      if (block.epilogue == Epilogue::gelu_erf) value = gelu_erf(value);
      if (block.epilogue == Epilogue::gelu_tanh) value = gelu_tanh(value);
    }
    store_first(out, value, count);
  }
}

void linear_block(const LinearBlock& block) {
  const Index panels = num_panels(block.num_columns, block.epilogue == Epilogue::swiglu);
  const Tiles tiles(block.rows);
  float* packed_b = block.scratch;
  float* packed_a = packed_b + panels * kPanel * kDepthBlock;
  float* sums = packed_a + block.rows * kDepthBlock + kTileSlack;
  const Index sums_stride = panels * kPanel;
  for (Index first = 0; first < block.depth; first += kDepthBlock) {
    const Index depth = least(kDepthBlock, block.depth - first);
    switch (block.weight_type) {
      case WeightType::bf16:
        pack_groups<std::uint16_t>(block, first, depth, packed_b);
        break;
      case WeightType::f16:
        pack_groups<F16>(block, first, depth, packed_b);
        break;
      case WeightType::f32:
        pack_groups<float>(block, first, depth, packed_b);
        break;
    }
    pack_tiles(block.x + first, block.x_stride, tiles, depth, packed_a);
    for (Index p = 0; p < panels; ++p) {
      for (Index t = 0; t < tiles.count; ++t) {
        multiply_tile(tiles.height(t), depth, packed_a + tiles.first(t) * depth, packed_b + p * kPanel * depth,
                      sums + tiles.first(t) * sums_stride + p * kPanel, sums_stride, first > 0);
      }
    }
  }
  for (Index r = 0; r < block.rows; ++r) finish_row(block, sums + r * sums_stride, block.y + r * block.y_stride);
}

double fma_peak(Index rounds, float* sink) {
  constexpr int kSums = kMaxTileRows * kVecsPerPanel;
  F32x16 sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = broadcast(static_cast<float>(i) * 1e-3F);
  const F32x16 a = broadcast(0.999F), b = broadcast(1e-3F);
  for (Index round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (int i = 0; i < kSums; ++i) sums[i] = fma(sums[i], a, b);
  }
  F32x16 total = zero();
  for (int i = 0; i < kSums; ++i) total = add(total, sums[i]);
  *sink = sum(total);
  return static_cast<double>(rounds) * kSums * 32.0;
}

}  // namespace
}  // namespace clef::cpu
