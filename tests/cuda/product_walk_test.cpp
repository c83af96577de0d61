// Where the tiles of a product lie, and how they are shared out among clusters, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/product_walk.cuh"

namespace clef::cuda {
namespace {

struct Taken {
  Piece piece;
  int cluster, order;  // who takes it, after so many others
};

std::vector<std::vector<Taken>> pieces_by_tile(int clusters, int tiles, int steps, bool shares) {
  std::vector<std::vector<Taken>> taken(static_cast<std::size_t>(tiles));
  // As product_sm90.cu says it.
  const int whole_rounds = shares && tiles % clusters != 0 ? tiles / clusters - 1 : (tiles + clusters - 1) / clusters;
  for (int cluster = 0; cluster < clusters; ++cluster) {
    Walk walk{cluster, clusters, tiles, whole_rounds, steps};
    for (int order = 0; walk.has_piece(); walk.advance()) {
      const Piece piece = walk.piece();
      if (piece.is_empty()) continue;
      EXPECT_TRUE(piece.tile >= 0 && piece.tile < tiles) << piece.tile;
      EXPECT_EQ(piece.steps, steps);
      if (piece.tile >= 0 && piece.tile < tiles) {
        taken[static_cast<std::size_t>(piece.tile)].push_back({piece, cluster, order++});
      }
    }
  }
  return taken;
}

// Every step of every tile is somebody's, once; two at most share a tile, the next cluster goes on where one stopped,
// and who hands over does so before it takes over: nobody waits for one that waits.
void check(int clusters, int tiles, int steps, bool shares) {
  SCOPED_TRACE(std::to_string(clusters) + " clusters, " + std::to_string(tiles) + " tiles of " + std::to_string(steps) +
               " steps" + (shares ? ", shared" : ""));
  std::vector<int> work(static_cast<std::size_t>(clusters), 0);
  for (auto& tile : pieces_by_tile(clusters, tiles, steps, shares)) {
    std::sort(tile.begin(), tile.end(), [](const Taken& a, const Taken& b) { return a.piece.first < b.piece.first; });
    ASSERT_TRUE(tile.size() == 1 || tile.size() == 2);
    ASSERT_TRUE(tile.front().piece.begins());
    ASSERT_TRUE(tile.back().piece.ends());
    for (const Taken& taken : tile) {
      work[static_cast<std::size_t>(taken.cluster)] += taken.piece.end - taken.piece.first;
    }
    if (tile.size() == 1) continue;
    const Taken &giver = tile[0], &taker = tile[1];
    ASSERT_EQ(giver.piece.end, taker.piece.first);
    ASSERT_EQ(giver.cluster + 1, taker.cluster);
    ASSERT_LE(giver.order, taker.order);
  }
  const auto [least, most] = std::minmax_element(work.begin(), work.end());
  EXPECT_LE(*most, (tiles + clusters - 1) / clusters * steps);
  if (!shares || tiles <= clusters) return;
  EXPECT_LE(*most - *least, 2) << "not shared out evenly";
}

TEST(ProductWalk, GivesEveryStepToOneCluster) {
  for (const int clusters : {1, 2, 7, 16, 32, 66, 132}) {
    for (const int tiles : {1, 2, 5, 31, 66, 129, 132, 133, 176, 242, 263, 264, 265, 1000, 6144}) {
      for (const int steps : {1, 2, 9, 64, 192}) {
        check(std::min(clusters, tiles), tiles, steps, false);
        check(std::min(clusters, tiles), tiles, steps, true);
      }
    }
  }
}

// What a shape says of itself, and a product's sizes, as the kernel has them.
template <bool kTurnedOf, int kInput, int kWeights, bool kPairOf>
struct Tiles {
  static constexpr bool kTurned = kTurnedOf;
  static constexpr int kInputRows = kInput, kOutColumns = kPairOf ? kWeights / 2 : kWeights;
  static constexpr int kGroup = kPairOf && kTurnedOf ? 8 : 16;  // of weights, that are fetched together
};
struct Sizes {
  int rows, columns, gate_columns, cluster_rows, cluster_columns;
  int row_tiles = 0, column_tiles = 0, own_tiles = 0;
};

// Every output is one tile's own, which holds what it needs, and nothing outside the matrices is read that need not be.
template <typename S>
void check_places(Sizes sizes) {
  SCOPED_TRACE(std::to_string(sizes.rows) + " x " + std::to_string(sizes.columns) + " + " +
               std::to_string(sizes.gate_columns) + ", tiles of " + std::to_string(S::kInputRows) + " x " +
               std::to_string(S::kOutColumns) + (S::kTurned ? ", turned" : "") + ", clusters of " +
               std::to_string(sizes.cluster_rows) + " x " + std::to_string(sizes.cluster_columns));
  count_tiles<S>(sizes);
  const int all = sizes.columns + sizes.gate_columns;
  std::vector<int> owners(static_cast<std::size_t>(sizes.rows * all), 0);
  for (int index = 0; index < sizes.row_tiles * sizes.column_tiles; ++index) {
    for (int block = 0; block < sizes.cluster_rows * sizes.cluster_columns; ++block) {
      const Place place = place_of<S>(sizes, index, {block / sizes.cluster_columns, block % sizes.cluster_columns});
      ASSERT_GE(place.from_row, 0);
      ASSERT_GE(place.weight_row, 0);
      ASSERT_TRUE(sizes.rows < S::kInputRows || place.from_row + S::kInputRows <= sizes.rows) << place.from_row;
      ASSERT_TRUE(all < S::kOutColumns || place.weight_row + S::kOutColumns <= all) << place.weight_row;
      ASSERT_EQ(place.weight_row % S::kGroup, 0);
      const int first_gate = place.is_gates ? sizes.columns : 0;
      ASSERT_EQ(place.weight_row, place.from_column + first_gate);
      const int last = place.is_gates ? sizes.gate_columns : sizes.columns;
      for (int i = 0; i < S::kInputRows; ++i) {
        const int r = place.from_row + i;
        if (!place.owns_row(sizes.rows, r)) continue;
        for (int j = 0; j < S::kOutColumns; ++j) {
          const int c = place.from_column + j;
          if (c >= place.column && c < last) ++owners[static_cast<std::size_t>(r * all + first_gate + c)];
        }
      }
    }
  }
  ASSERT_EQ(std::count(owners.begin(), owners.end(), 1), std::ssize(owners));
}

TEST(ProductWalk, EveryOutputIsOneTilesOwn) {
  for (const int rows : {1, 7, 63, 64, 65, 127, 128, 129, 150, 192, 193, 300, 346, 400, 2049, 4510}) {
    for (const auto& [columns, gates] : {std::pair{16, 0}, {48, 16}, {128, 0}, {320, 64}, {400, 0}, {784, 32}}) {
      for (const int side : {1, 2, 4}) {
        check_places<Tiles<false, 128, 256, false>>({rows, columns, gates, 1, side});
        check_places<Tiles<false, 128, 96, false>>({rows, columns, gates, 2, side});
        check_places<Tiles<false, 256, 192, false>>({rows, columns, gates, side > 2 ? 1 : side, side});
        check_places<Tiles<false, 64, 32, false>>({rows, columns, gates, 1, side});
        check_places<Tiles<false, 192, 160, false>>({rows, columns, gates, side > 2 ? 2 : side, side});
        check_places<Tiles<true, 88, 128, false>>({rows, columns, gates, 1, side});
        check_places<Tiles<true, 176, 192, false>>({rows, columns, gates, 1, side});
        if (gates > 0) continue;
        check_places<Tiles<false, 192, 192, true>>({rows, columns, 0, 1, side});
        check_places<Tiles<true, 64, 128, true>>({rows, columns, 0, 1, side});
        check_places<Tiles<true, 144, 192, true>>({rows, columns, 0, 1, side});
      }
    }
  }
}

}  // namespace
}  // namespace clef::cuda
