// Attention of one block of queries, for all query heads that share a key head.
// Arithmetic: keys in blocks of kAttentionBlock from the sequence's start; running maximum and sum; f32 throughout.
//             Keys past the end and masked keys have weight exactly zero, so a row's bits depend on its own keys alone.
// Schedule:   keys and values packed once a block for all heads that share them.
// Bound:      fma.
#pragma once

namespace clef::cpu {
namespace {

constexpr Index kKeys = 64;  // kAttentionBlock; asserted where both are known
constexpr Index kKeyPanels = kKeys / kPanel;

inline Index value_panels(Index head_dim) { return div_up(head_dim, kPanel); }

std::size_t attention_scratch(Index queries, Index heads, Index head_dim) {
  return static_cast<std::size_t>(heads * (queries * head_dim + kTileSlack)            // packed queries
                                  + heads * queries * value_panels(head_dim) * kPanel  // outputs
                                  + kKeys * head_dim + kPanel                          // packed keys
                                  + value_panels(head_dim) * kPanel * kKeys            // packed values
                                  + 2 * (queries * kKeys + kTileSlack)                 // scores, packed weights
                                  + 2 * heads * queries);                              // maxima, sums
}

// scores[kKeys] of one row -> weights, given the running maximum and sum; returns the factor for what came before.
inline float softmax_step(float* scores, Index visible, float scale, float& maximum, float& total) {
  F32x16 s[kKeys / 16];
  F32x16 top = broadcast(maximum);
  const F32x16 none = broadcast(-__builtin_inff());
  for (Index v = 0; v < kKeys / 16; ++v) {
    const F32x16 place = add(lane_numbers(), broadcast(static_cast<float>(v * 16)));
    s[v] =
        select_less(place, broadcast(static_cast<float>(visible)), mul(load(scores + v * 16), broadcast(scale)), none);
    top = max(top, s[v]);
  }
  const float new_maximum = largest(top);
  F32x16 sums = zero();
  for (Index v = 0; v < kKeys / 16; ++v) {
    const F32x16 weight = exp(sub(s[v], broadcast(new_maximum)));
    store(scores + v * 16, weight);
    sums = add(sums, weight);
  }
  alignas(64) float factor[16];
  store(factor, exp(broadcast(maximum - new_maximum)));
  total = total * factor[0] + sum(sums);
  maximum = new_maximum;
  return factor[0];
}

void attention_block(const AttentionBlock& block) {
  const Index d = block.head_dim, rows = block.queries, out_stride = value_panels(d) * kPanel;
  const Tiles tiles(rows);
  float* queries = block.scratch;                                    // [heads][tiles]
  float* outputs = queries + block.heads * (rows * d + kTileSlack);  // [heads][rows][out_stride]
  float* keys = outputs + block.heads * rows * out_stride;
  float* values = keys + kKeys * d + kPanel;
  float* scores = values + out_stride * kKeys;          // [rows][kKeys]
  float* weights = scores + rows * kKeys + kTileSlack;  // tiles
  float* maxima = weights + rows * kKeys + kTileSlack;  // [heads][rows]
  float* totals = maxima + block.heads * rows;
  for (Index h = 0; h < block.heads; ++h) {
    pack_tiles(block.q + h * d, block.q_stride, tiles, d, queries + h * (rows * d + kTileSlack));
  }
  for (Index i = 0; i < block.heads * rows; ++i) {
    maxima[i] = -3.0e38F;  // finite, so that the first factor is exp(-huge) = 0 and not NaN
    totals[i] = 0.0F;
  }
  for (Index first = 0; first < block.keys; first += kKeys) {
    const Index count = least(kKeys, block.keys - first);
    const float* k = block.k + first * block.kv_stride;
    const float* v = block.v + first * block.kv_stride;
    for (Index p = 0; p < kKeyPanels; ++p) {
      pack_panel_from_rows(k + least(p * kPanel, count - 1) * block.kv_stride, block.kv_stride, count - p * kPanel, d,
                           keys + p * kPanel * d);
    }
    for (Index p = 0; p < value_panels(d); ++p) {
      pack_panel(v + p * kPanel, block.kv_stride, d - p * kPanel, count, values + p * kPanel * kKeys);
    }
    for (Index h = 0; h < block.heads; ++h) {
      const float* tile = queries + h * (rows * d + kTileSlack);
      for (Index t = 0; t < tiles.count; ++t) {
        for (Index p = 0; p < kKeyPanels; ++p) {
          multiply_tile(tiles.height(t), d, tile + tiles.first(t) * d, keys + p * kPanel * d,
                        scores + tiles.first(t) * kKeys + p * kPanel, kKeys, false);
        }
      }
      float* out = outputs + h * rows * out_stride;
      for (Index r = 0; r < rows; ++r) {
        Index visible = count;
        if (block.first_query >= 0) visible = least(count, block.first_query + r + 1 - first);
        const float factor =
            softmax_step(scores + r * kKeys, visible, block.scale, maxima[h * rows + r], totals[h * rows + r]);
        if (first > 0) scale_row(factor, out_stride, out + r * out_stride);
      }
      pack_tiles(scores, kKeys, tiles, count, weights);
      for (Index p = 0; p < value_panels(d); ++p) {
        for (Index t = 0; t < tiles.count; ++t) {
          multiply_tile(tiles.height(t), count, weights + tiles.first(t) * count, values + p * kPanel * kKeys,
                        out + tiles.first(t) * out_stride + p * kPanel, out_stride, first > 0);
        }
      }
    }
  }
  for (Index h = 0; h < block.heads; ++h) {
    for (Index r = 0; r < rows; ++r) {
      const F32x16 total = broadcast(totals[h * rows + r]);
      const float* out = outputs + (h * rows + r) * out_stride;
      const float* gate =
          block.gate == nullptr ? nullptr : block.gate + r * block.gate_stride + h * block.gate_head_stride;
      each_vector(d, block.y + r * block.y_stride + h * d, [=](Index c, int lanes) {
        const F32x16 value = div(load(out + c), total);
        return gate == nullptr ? value : mul(value, sigmoid(load_first(gate + c, lanes)));
      });
    }
  }
}

}  // namespace
}  // namespace clef::cpu
