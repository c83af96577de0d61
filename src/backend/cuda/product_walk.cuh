// How the tiles of the product for Hopper are shared out among clusters of blocks.
#pragma once

namespace clef::cuda {
namespace {

// What a cluster of blocks works on: part of the steps of a cluster of tiles.
struct Piece {
  int tile = 0;
  int first = 0, end = 0, steps = 0;  // its steps, and all of the tile
  __device__ bool is_empty() const { return first == end; }
  __device__ bool begins() const { return first == 0; }
  __device__ bool ends() const { return end == steps; }
};

// The pieces that a cluster of blocks takes: whole tiles, one of each round of all clusters. It moves on by one from
// round to round: else, where rounds hold a multiple of the tiles of a column, some would meet only the tiles with two
// planes. The tiles of the last two rounds, the last one not full, may be shared out evenly: each cluster takes so many
// tiles and a fraction, one after the other. A tile that two clusters share is begun by the first, who hands its sums
// over, and the other goes on from there: every sum has its terms in the same order as ever. Who begins a tile does so
// at once and who ends one does so at last, so nobody waits long.
struct Walk {
  int cluster, clusters, tiles, whole_rounds;
  int at = 0;
  __device__ int shared() const { return tiles - whole_rounds * clusters; }
  __device__ int tile() const { return at * clusters + (cluster + at) % clusters; }  // of a whole round
  __device__ bool has_piece() const {
    return at < whole_rounds ? tile() < tiles : shared() > 0 && at < whole_rounds + 3;
  }
  __device__ void advance() { ++at; }
  // Where the tile's steps are known from its number. A piece may be empty.
  template <typename StepsOf>
  __device__ Piece piece(StepsOf steps_of) const {
    if (at < whole_rounds) {
      const int steps = steps_of(tile());
      return {tile(), 0, steps, steps};
    }
    const int from = cluster * shared(), to = from + shared();  // in tiles' fractions of 1 / clusters
    const auto place = [&](int position) { return whole_rounds * clusters + position / clusters; };
    const auto cut = [&](int position, int steps) {
      return static_cast<int>(static_cast<long long>(steps) * (position % clusters) / clusters);
    };
    if (at == whole_rounds) {
      if (to % clusters == 0) return {};
      const int steps = steps_of(place(to));
      return {place(to), 0, cut(to, steps), steps};
    }
    if (at == whole_rounds + 1) {
      const int tile = place(from + clusters - 1);
      if (tile >= place(to)) return {};
      const int steps = steps_of(tile);
      return {tile, 0, steps, steps};
    }
    if (from % clusters == 0) return {};
    const int steps = steps_of(place(from));
    return {place(from), cut(from, steps), steps, steps};
  }
};

}  // namespace
}  // namespace clef::cuda
