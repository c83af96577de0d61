// How the tiles of the product for Hopper are shared out among clusters of blocks. Numbers alone, so that a test of the
// host can walk too.
#pragma once

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

}  // namespace
}  // namespace clef::cuda
