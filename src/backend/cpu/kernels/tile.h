// The words of every product here: panels of B, tiles of A, and the micro kernel between them.
//
// A panel holds kPanel columns of B, depth by depth: [depth][kPanel]. A tile holds up to kMaxTileRows rows of A, depth
// by depth: [depth][rows]. One output element is one chain of fma over the depth, so neither the tile's height nor the
// panel's width changes its bits.
#pragma once

#include <cstdint>

namespace clef::cpu {
namespace {

using Index = std::int64_t;

constexpr int kPanel = kVecsPerPanel * 16;

inline Index div_up(Index a, Index b) { return (a + b - 1) / b; }
inline Index least(Index a, Index b) { return a < b ? a : b; }

inline F32x16 load_weight(const float* p) { return load(p); }
inline F32x16 load_weight(const std::uint16_t* p) { return load(p); }
struct F16 {
  std::uint16_t bits;
};
inline F32x16 load_weight(const F16* p) { return load_f16(reinterpret_cast<const std::uint16_t*>(p)); }

template <typename T>
inline F32x16 load_weight_first(const T* p, int n) {
  T padded[16] = {};
  for (int i = 0; i < n; ++i) padded[i] = p[i];
  return load_weight(padded);
}
template <>
inline F32x16 load_weight_first(const float* p, int n) {
  return load_first(p, n);
}

// out[k * out_stride + i] = rows[i * row_stride + k] for i < count, 0 for the rest of 16. Writes 16 floats at each k.
template <typename T>
void pack_transposed16(const T* rows, Index row_stride, int count, Index depth, float* out, Index out_stride) {
  F32x16 r[16];
  Index k = 0;
  for (; k + 16 <= depth; k += 16) {
    for (int i = 0; i < count; ++i) r[i] = load_weight(rows + i * row_stride + k);
    for (int i = count; i < 16; ++i) r[i] = zero();
    transpose(r);
    for (int i = 0; i < 16; ++i) store(out + (k + i) * out_stride, r[i]);
  }
  if (k < depth) {
    const int left = static_cast<int>(depth - k);
    for (int i = 0; i < count; ++i) r[i] = load_weight_first(rows + i * row_stride + k, left);
    for (int i = count; i < 16; ++i) r[i] = zero();
    transpose(r);
    for (int i = 0; i < left; ++i) store(out + (k + i) * out_stride, r[i]);
  }
}

// A panel whose columns are `columns` rows of a row-major matrix (a weight, or keys): [depth][kPanel], zero beyond.
template <typename T>
void pack_panel_from_rows(const T* rows, Index row_stride, Index columns, Index depth, float* panel) {
  for (int vec = 0; vec < kVecsPerPanel; ++vec) {
    Index count = columns - vec * 16;
    count = count < 0 ? 0 : count > 16 ? 16 : count;
    pack_transposed16(count > 0 ? rows + vec * 16 * row_stride : rows, row_stride, static_cast<int>(count), depth,
                      panel + vec * 16, kPanel);
  }
}

// A panel copied from `depth` rows of a row-major matrix, `columns` wide, zero beyond.
inline void pack_panel(const float* from, Index row_stride, Index columns, Index depth, float* panel) {
  for (Index k = 0; k < depth; ++k) {
    for (int vec = 0; vec < kVecsPerPanel; ++vec) {
      Index count = columns - vec * 16;
      count = count < 0 ? 0 : count > 16 ? 16 : count;
      store(panel + k * kPanel + vec * 16, load_first(from + k * row_stride + vec * 16, static_cast<int>(count)));
    }
  }
}

// Rows are shared out evenly among as few tiles as hold them.
struct Tiles {
  explicit Tiles(Index rows_) : rows(rows_), count(div_up(rows_, kMaxTileRows)) {}
  Index first(Index tile) const { return tile * rows / count; }
  int height(Index tile) const { return static_cast<int>(first(tile + 1) - first(tile)); }
  Index rows, count;
};

constexpr Index kTileSlack = 16;  // a tile's last transposed store reaches this far past its end

// All tiles of a row-major matrix, one after another, tile t at out + first(t) * depth.
inline void pack_tiles(const float* rows, Index row_stride, const Tiles& tiles, Index depth, float* out) {
  for (Index t = 0; t < tiles.count; ++t) {
    const Index first = tiles.first(t);
    pack_transposed16(rows + first * row_stride, row_stride, tiles.height(t), depth, out + first * depth,
                      tiles.height(t));
  }
}

// c[r][0 .. kPanel) = (accumulate ? c : 0) + sum over k of tile[k][r] * panel[k][...]
template <int kRows>
void multiply(Index depth, const float* tile, const float* panel, float* c, Index c_stride, bool accumulate) {
  F32x16 sums[kRows][kVecsPerPanel];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecsPerPanel; ++v) sums[r][v] = zero();
  }
  for (Index k = 0; k < depth; ++k) {
    F32x16 b[kVecsPerPanel];
    for (int v = 0; v < kVecsPerPanel; ++v) b[v] = load(panel + k * kPanel + v * 16);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const F32x16 a = broadcast(tile[k * kRows + r]);
#pragma GCC unroll 2
      for (int v = 0; v < kVecsPerPanel; ++v) sums[r][v] = fma(a, b[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVecsPerPanel; ++v) {
      float* out = c + r * c_stride + v * 16;
      store(out, accumulate ? add(load(out), sums[r][v]) : sums[r][v]);
    }
  }
}

using Multiply = void (*)(Index, const float*, const float*, float*, Index, bool);

struct MultiplyTable {
  template <int kRows>
  constexpr void fill() {
    by_height[kRows] = multiply<kRows>;
    if constexpr (kRows > 1) fill<kRows - 1>();
  }
  constexpr MultiplyTable() { fill<kMaxTileRows>(); }
  Multiply by_height[kMaxTileRows + 1] = {};
};
constexpr MultiplyTable kMultiply;

inline void multiply_tile(int height, Index depth, const float* tile, const float* panel, float* c, Index c_stride,
                          bool accumulate) {
  kMultiply.by_height[height](depth, tile, panel, c, c_stride, accumulate);
}

}  // namespace
}  // namespace clef::cpu
