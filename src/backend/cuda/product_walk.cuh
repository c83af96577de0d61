// Where the tiles of the product for Hopper lie, and how they are shared out among clusters of blocks. Numbers alone,
// so that a test of the host can walk too.
#pragma once

#include <type_traits>

#ifdef __CUDACC__
#define CLEF_ANYWHERE __host__ __device__
#else
#define CLEF_ANYWHERE
#endif

namespace clef::cuda {
namespace {

// What a cluster of blocks works on: part of the steps of a cluster of tiles.
struct Piece {
  int tile = 0;
  int first = 0, end = 0, steps = 0;  // its steps, and all of the tile
  CLEF_ANYWHERE bool is_empty() const { return first == end; }
  CLEF_ANYWHERE bool begins() const { return first == 0; }
  CLEF_ANYWHERE bool ends() const { return end == steps; }
};

// The pieces that a cluster of blocks takes: whole tiles, one of each round of all clusters. The tiles of the last two
// rounds, the last one not full, may be shared out evenly: each cluster takes so many tiles and a fraction, one after
// the other. A tile that two clusters share is begun by the first, who hands its sums over, and the other goes on from
// there: every sum has its terms in the same order as ever. Who begins a tile does so at once and who ends one does so
// at last, so nobody waits long.
struct Walk {
  int cluster, clusters, tiles, whole_rounds;
  int steps;  // of a tile
  int at = 0;
  CLEF_ANYWHERE int shared() const { return tiles - whole_rounds * clusters; }
  CLEF_ANYWHERE int tile() const { return at * clusters + cluster; }  // of a whole round
  CLEF_ANYWHERE bool has_piece() const {
    return at < whole_rounds ? tile() < tiles : shared() > 0 && at < whole_rounds + 3;
  }
  CLEF_ANYWHERE void advance() { ++at; }
  // It may be empty.
  CLEF_ANYWHERE Piece piece() const {
    if (at < whole_rounds) return {tile(), 0, steps, steps};
    const int from = cluster * shared(), to = from + shared();  // in tiles' fractions of 1 / clusters
    const auto place = [&](int position) { return whole_rounds * clusters + position / clusters; };
    const auto cut = [&](int position) {
      return static_cast<int>(static_cast<long long>(steps) * (position % clusters) / clusters);
    };
    if (at == whole_rounds) {
      if (to % clusters == 0) return {};
      return {place(to), 0, cut(to), steps};
    }
    if (at == whole_rounds + 1) {
      const int tile = place(from + clusters - 1);
      if (tile >= place(to)) return {};
      return {tile, 0, steps, steps};
    }
    if (from % clusters == 0) return {};
    return {place(from), cut(from), steps, steps};
  }
};

// A tile's place. What it reads lies inside the matrices wherever they are large enough for it: the last tile then
// begins before its first output, and repeats what it does not own. (The copy engine takes several times as long for a
// row that lies outside.)
struct Place {
  int row, column;            // of the tile's first output of its own: in y, or in the gates
  int from_row, from_column;  // of what is the tile's first input and first weight
  int weight_row;             // of the first weight
  bool is_gates;
  CLEF_ANYWHERE bool owns_row(int rows, int r) const { return r >= row && r < rows; }
};

// Where a block stands in its cluster.
struct Rank {
  int row = 0, column = 0;
};

template <typename Int>
Int div_up(Int a, std::type_identity_t<Int> b) {
  return (a + b - 1) / b;
}

// How many tiles there are of shape S, in `params` (product_shape.cuh) that have the matrices' sizes and the cluster's.
template <typename S, typename P>
void count_tiles(P& params) {
  params.own_tiles = div_up(params.columns, S::kOutColumns);
  const int of_weights = params.own_tiles + div_up(params.gate_columns, S::kOutColumns);
  const int of_input = div_up(params.rows, S::kInputRows);
  params.row_tiles = div_up(S::kTurned ? of_weights : of_input, params.cluster_rows);
  params.column_tiles = div_up(S::kTurned ? of_input : of_weights, params.cluster_columns);
}

// The block's own tile of the walk's cluster of tiles `index`.
template <typename S, typename P>
CLEF_ANYWHERE Place place_of(const P& params, int index, Rank rank) {
  // Row tiles are taken together, times all columns in turn. What 2,048 rows of input and the columns that run with
  // them read fits into the second-level cache; what 4,096 rows read does not, and costs a card at its power's limit 1
  // to 2 %.
  constexpr int kGroupRows = 2048, kTurnedHigh = 16;
  const auto least = [](int a, int b) { return a < b ? a : b; };
  const int high = S::kTurned ? kTurnedHigh : kGroupRows / (S::kInputRows * params.cluster_rows);
  const int of_group = high * params.column_tiles;
  const int group = index / of_group, in_group = index % of_group;
  const int height = least(high, params.row_tiles - group * high);
  const int row_tile = group * high + in_group % height;
  const int row = row_tile * params.cluster_rows + rank.row;
  const int column = in_group / height * params.cluster_columns + rank.column;
  const int of_input = S::kTurned ? column : row, of_weights = S::kTurned ? row : column;
  const auto inside = [&](int first, int size, int all) {
    const int last = all - size;
    return least(first, last < 0 ? 0 : last);
  };
  Place place;
  place.row = of_input * S::kInputRows;
  place.from_row = inside(place.row, S::kInputRows, params.rows);
  place.is_gates = params.gate_columns > 0 && of_weights >= params.own_tiles;
  place.column = (place.is_gates ? of_weights - params.own_tiles : of_weights) * S::kOutColumns;
  const int first = place.column + (place.is_gates ? params.columns : 0);
  place.weight_row = inside(first, S::kOutColumns, params.columns + params.gate_columns);
  place.from_column = place.column - (first - place.weight_row);
  return place;
}

}  // namespace
}  // namespace clef::cuda
