// Gated DeltaNet of one value head over one sequence, chunk by chunk.
// Arithmetic: f32. Within a chunk of C tokens, S the state at its start, D_ij = exp(sum of g over j < l <= i):
//               R = beta (V - e^gamma K S);   N_i = R_i - sum over j < i of beta_i (k_i . k_j) D_ij N_j
//               O = (e^gamma Q S + ((Q K^T) o D) N) / sqrt(d);   S = e^gamma_last S + (D_last K)^T N
//             with gamma_i the sum of g from the chunk's start. Each sum of g is taken on its own: differences of
//             prefix sums lose small decays behind large ones.
// Schedule:   one head of one sequence a task.
// Bound:      fma.
#pragma once

namespace clef::cpu {
namespace {

constexpr Index kChunk = 64;  // kDeltaNetChunk; asserted where both are known

struct DeltaNetScratch {
  // Without memory only the size is counted.
  DeltaNetScratch(float* memory, Index d, Index n) {
    const auto take = [this, memory](Index count) {
      float* start = memory == nullptr ? nullptr : memory + size;
      size += div_up(count, 16) * 16 + kTileSlack;
      return start;
    };
    const Index wide = div_up(n, kPanel) * kPanel;
    state = take(d * wide);
    q_tiles = take(kChunk * d);
    k_tiles = take(kChunk * d);
    k_panels = take(kChunk * d);
    k_decayed = take(kChunk * d);
    new_values = take(kChunk * wide);
    predicted = take(kChunk * wide);
    outputs = take(kChunk * wide);
    kk = take(kChunk * kChunk);
    qk = take(kChunk * kChunk);
    qk_tiles = take(kChunk * kChunk);
    decay = take(kChunk * kChunk);
  }
  Index size = 0;  // floats in all
  float* state;    // panels [n / kPanel][d][kPanel]
  float *q_tiles, *k_tiles, *k_panels;
  float* k_decayed;            // tiles of (D_last K)^T: rows are key features, depth is tokens
  float* new_values;           // N, panels [n / kPanel][kChunk][kPanel]
  float *predicted, *outputs;  // K S and O, [kChunk][wide]
  float *kk, *qk, *qk_tiles;
  float* decay;  // D, [kChunk][kChunk], zero above the diagonal
};

std::size_t delta_net_scratch(Index head_dim, Index value_dim) {
  return static_cast<std::size_t>(DeltaNetScratch(nullptr, head_dim, value_dim).size);
}

// D and e^gamma from the log-decays g of a chunk; g[i] = 0 past its end.
inline void decays(const float* g, float* decay, float* from_start) {
  alignas(64) float sums[kChunk] = {};
  float gamma = 0.0F;
  for (Index i = 0; i < kChunk; ++i) {
    const F32x16 place = broadcast(static_cast<float>(i));
    for (Index j = 0; j < kChunk; j += 16) {
      const F32x16 lanes = add(lane_numbers(), broadcast(static_cast<float>(j)));
      const F32x16 sum_j = add(load(sums + j), select_less(lanes, place, broadcast(g[i]), zero()));
      store(sums + j, sum_j);
      store(decay + i * kChunk + j, select_less(place, lanes, zero(), exp(sum_j)));
    }
    gamma += g[i];
    from_start[i] = gamma;
  }
  for (Index i = 0; i < kChunk; i += 16) store(from_start + i, exp(load(from_start + i)));
}

// Rows r of a and b scaled by factor[r] etc. are small loops over `width` floats.
inline void multiply_rows(Index rows, Index width, const float* factor, float* x, Index stride) {
  for (Index r = 0; r < rows; ++r) scale_row(factor[r], width, x + r * stride);
}

// All tiles of one operand times all panels of another.
inline void multiply_all(const Tiles& tiles, Index depth, const float* a, Index panels, const float* b,
                         Index b_panel_size, float* c, Index c_stride, bool accumulate) {
  for (Index p = 0; p < panels; ++p) {
    for (Index t = 0; t < tiles.count; ++t) {
      multiply_tile(tiles.height(t), depth, a + tiles.first(t) * depth, b + p * b_panel_size,
                    c + tiles.first(t) * c_stride + p * kPanel, c_stride, accumulate);
    }
  }
}

// N_i = R_i - sum over j < i of beta_i kk_ij D_ij N_j, written as panels; R_i = beta_i (v_i - from_start_i
// predicted_i).
inline void solve(const DeltaNetHead& head, const DeltaNetScratch& s, Index tokens, const float* v, const float* beta,
                  const float* from_start) {
  constexpr int kWide = 8;  // vectors of N in registers at a time
  const Index n = head.value_dim, wide = div_up(n, kPanel) * kPanel;
  for (Index i = 0; i < tokens; ++i) {
    float* coefficients = s.kk + i * kChunk;
    for (Index j = 0; j < i; ++j) coefficients[j] = -(beta[i] * coefficients[j] * s.decay[i * kChunk + j]);
    for (Index first = 0; first < wide; first += kWide * 16) {
      const int vectors = static_cast<int>(least(kWide, (wide - first) / 16));
      F32x16 sums[kWide];
      float* place[kWide];
      for (int u = 0; u < vectors; ++u) {
        const Index c = first + u * 16;
        place[u] = s.new_values + c / kPanel * kPanel * kChunk + c % kPanel;
        const Index left = n - c;
        const int count = static_cast<int>(left < 0 ? 0 : left > 16 ? 16 : left);
        const F32x16 away = sub(load_first(v + i * head.v_stride + (count > 0 ? c : 0), count),
                                mul(broadcast(from_start[i]), load(s.predicted + i * wide + c)));
        sums[u] = mul(broadcast(beta[i]), away);
      }
      if (vectors == kWide) {
        for (Index j = 0; j < i; ++j) {
          const F32x16 a = broadcast(coefficients[j]);
#pragma GCC unroll 8
          for (int u = 0; u < kWide; ++u) sums[u] = fma(a, load(place[u] + j * kPanel), sums[u]);
        }
      } else {
        for (Index j = 0; j < i; ++j) {
          for (int u = 0; u < vectors; ++u)
            sums[u] = fma(broadcast(coefficients[j]), load(place[u] + j * kPanel), sums[u]);
        }
      }
      for (int u = 0; u < vectors; ++u) store(place[u] + i * kPanel, sums[u]);
    }
  }
}

void delta_net_head(const DeltaNetHead& head) {
  const Index d = head.head_dim, n = head.value_dim, panels = div_up(n, kPanel), wide = panels * kPanel;
  const DeltaNetScratch s(head.scratch, d, n);
  const float scale = 1.0F / __builtin_sqrtf(static_cast<float>(d));
  for (Index i = 0; i < d * wide; ++i) s.state[i] = 0.0F;
  for (Index first = 0; first < head.tokens; first += kChunk) {
    const Index tokens = least(kChunk, head.tokens - first);
    const float* q = head.q + first * head.qk_stride;
    const float* k = head.k + first * head.qk_stride;
    alignas(64) float beta[kChunk] = {}, g[kChunk] = {}, from_start[kChunk];
    for (Index i = 0; i < tokens; ++i) {
      const Index t = first + i, row = t < head.known ? t * head.known_ba_stride : (t - head.known) * head.ba_stride;
      const float input = (t < head.known ? head.known_a : head.a)[row] + head.dt_bias;
      const float softplus = input > 20.0F ? input : __builtin_log1pf(__builtin_expf(input));  // PyTorch's threshold
      g[i] = head.neg_exp_a_log * softplus;
      beta[i] = (t < head.known ? head.known_b : head.b)[row];
    }
    for (Index i = 0; i < kChunk; i += 16) store(beta + i, sigmoid(load(beta + i)));
    decays(g, s.decay, from_start);

    const Tiles tiles(tokens);
    pack_tiles(q, head.qk_stride, tiles, d, s.q_tiles);
    pack_tiles(k, head.qk_stride, tiles, d, s.k_tiles);
    const Index key_panels = div_up(tokens, kPanel);
    for (Index p = 0; p < key_panels; ++p) {
      pack_panel_from_rows(k + p * kPanel * head.qk_stride, head.qk_stride, tokens - p * kPanel, d,
                           s.k_panels + p * kPanel * d);
    }
    multiply_all(tiles, d, s.k_tiles, key_panels, s.k_panels, kPanel * d, s.kk, kChunk, false);
    multiply_all(tiles, d, s.q_tiles, key_panels, s.k_panels, kPanel * d, s.qk, kChunk, false);
    multiply_all(tiles, d, s.k_tiles, panels, s.state, kPanel * d, s.predicted, wide, false);
    multiply_all(tiles, d, s.q_tiles, panels, s.state, kPanel * d, s.outputs, wide, false);
    solve(head, s, tokens, head.v + first * head.v_stride, beta, from_start);

    multiply_rows(tokens, wide, from_start, s.outputs, wide);
    for (Index i = 0; i < tokens; ++i) {
      for (Index j = 0; j < kChunk; j += 16) {
        float* scores = s.qk + i * kChunk + j;
        store(scores, j > i ? zero() : mul(load(scores), load(s.decay + i * kChunk + j)));
      }
    }
    pack_tiles(s.qk, kChunk, tiles, tokens, s.qk_tiles);
    multiply_all(tiles, tokens, s.qk_tiles, panels, s.new_values, kPanel * kChunk, s.outputs, wide, true);
    for (Index i = first < head.known ? least(head.known - first, tokens) : 0; i < tokens; ++i) {
      const float* out = s.outputs + i * wide;
      each_vector(n, head.y + (first + i - head.known) * head.y_stride,
                  [out, scale](Index c, int) { return mul(load(out + c), broadcast(scale)); });
    }
    if (first + kChunk >= head.tokens) break;  // nobody reads the last state

    // S = e^gamma_last S + (D_last K)^T N
    const float* last = s.decay + (tokens - 1) * kChunk;
    const Tiles features(d);
    for (Index t = 0; t < features.count; ++t) {
      const int height = features.height(t);
      float* tile = s.k_decayed + features.first(t) * tokens;
      for (Index i = 0; i < tokens; ++i) {
        const float* from = k + i * head.qk_stride + features.first(t);
        store_first(tile + i * height, mul(broadcast(last[i]), load_first(from, height)), height);
      }
    }
    scale_row(from_start[tokens - 1], d * wide, s.state);
    for (Index p = 0; p < panels; ++p) {
      multiply_all(features, tokens, s.k_decayed, 1, s.new_values + p * kPanel * kChunk, 0, s.state + p * kPanel * d,
                   kPanel, true);
    }
  }
}

}  // namespace
}  // namespace clef::cpu
