// How tiles are shared out among the clusters of a product, without a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
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

}  // namespace
}  // namespace clef::cuda
