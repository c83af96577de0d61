// Inputs of a Gated DeltaNet layer, and what its kernels compute, in plain loops of FP64.
#pragma once

#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_tile.cuh"

namespace clef::cuda::test {

inline constexpr int kDim = kDeltaNetHeadDim;
inline constexpr float kEps = 1e-6F;

struct Heads {
  int key, value;
  int channels() const { return (2 * key + value) * kDim; }
};

// What a layer is given, packed; rows are tokens.
struct Input {
  Heads heads{};
  std::vector<int> cu_seqlens{0};
  std::vector<__half> x, z;
  std::vector<float> a, b;
  std::vector<float> weight, neg_exp_a_log, dt_bias, gain;
  int tokens() const { return cu_seqlens.back(); }
  int sequences() const { return static_cast<int>(cu_seqlens.size()) - 1; }
};

enum class Gates { kWeak, kUsual, kStrong };

// Weights depend on the heads and gates alone.
inline Input make_input(Heads heads, const std::vector<int>& lengths, Gates gates, unsigned seed) {
  Input in;
  in.heads = heads;
  std::mt19937 weights(99);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  in.weight.resize(static_cast<std::size_t>(kShortConvTaps * heads.channels()));
  for (float& w : in.weight) w = 0.5F * normal(weights);
  for (int head = 0; head < heads.value; ++head) {
    const float rate = gates == Gates::kWeak    ? 1e-3F
                       : gates == Gates::kUsual ? std::exp(-4.0F + 5.0F * uniform(weights))
                                                : 16.0F;
    in.neg_exp_a_log.push_back(-rate);
    in.dt_bias.push_back(normal(weights));
  }
  for (int i = 0; i < kDim; ++i) in.gain.push_back(1.0F + 0.2F * normal(weights));
  // Large inputs repeat a million numbers, whose count no row length divides: drawing all takes too long.
  std::mt19937 random(seed);
  std::vector<float> pool(1000003);
  for (float& p : pool) p = normal(random);
  std::vector<__half> half_pool(pool.size());
  std::transform(pool.begin(), pool.end(), half_pool.begin(), [](float p) { return __float2half(p); });
  std::size_t next = random() % pool.size();
  const auto draw = [&] { return pool[next = (next + 1) % pool.size()]; };
  const auto fill = [&](std::vector<__half>& values, std::size_t count) {
    values.reserve(count);
    while (values.size() < count) {
      const std::size_t piece = std::min(count - values.size(), half_pool.size() - next);
      values.insert(values.end(), half_pool.begin() + static_cast<std::ptrdiff_t>(next),
                    half_pool.begin() + static_cast<std::ptrdiff_t>(next + piece));
      next = (next + piece) % half_pool.size();
    }
  };
  for (const int length : lengths) in.cu_seqlens.push_back(in.tokens() + length);
  const auto tokens = static_cast<std::size_t>(in.tokens());
  fill(in.x, tokens * static_cast<std::size_t>(heads.channels()));
  fill(in.z, tokens * static_cast<std::size_t>(heads.value * kDim));
  in.a.resize(tokens * static_cast<std::size_t>(heads.value));
  in.b.resize(in.a.size());
  for (float& b : in.b) b = 2.0F * draw();
  for (float& a : in.a) {
    a = 2.0F * draw();
    if (gates == Gates::kStrong && random() % 4 == 0) a = random() % 2 == 0 ? 1e30F : 90.0F;  // beyond exp's range
    if (gates == Gates::kStrong && random() % 4 == 0) a = -100.0F;                            // no decay at all
  }
  return in;
}

// One sequence of another input.
inline Input slice(const Input& in, const std::vector<int>& sequences) {
  Input out = in;
  out.cu_seqlens = {0};
  out.x.clear(), out.z.clear(), out.a.clear(), out.b.clear();
  for (const int s : sequences) {
    const int first = in.cu_seqlens[static_cast<std::size_t>(s)], last = in.cu_seqlens[static_cast<std::size_t>(s) + 1];
    const auto append = [&](auto& to, const auto& from, int width) {
      to.insert(to.end(), from.begin() + std::ptrdiff_t{first} * width, from.begin() + std::ptrdiff_t{last} * width);
    };
    append(out.x, in.x, in.heads.channels());
    append(out.z, in.z, in.heads.value * kDim);
    append(out.a, in.a, in.heads.value);
    append(out.b, in.b, in.heads.value);
    out.cu_seqlens.push_back(out.tokens() + last - first);
  }
  return out;
}

inline void parallel(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  const int workers = std::max(1U, std::min(16U, std::thread::hardware_concurrency()));
  for (int w = 0; w < workers; ++w) {
    threads.emplace_back([=, &body] {
      for (int i = w; i < count; i += workers) body(i);
    });
  }
  for (std::thread& t : threads) t.join();
}

inline double to_double(__half x) { return __half2float(x); }
inline double to_double(float x) { return x; }
inline double silu(double x) { return x / (1.0 + std::exp(-x)); }

// What the kernels compute, in double, from given q, k, v.
template <typename T>
std::vector<double> reference_net(const Input& in, const std::vector<T>& q, const std::vector<T>& k,
                                  const std::vector<T>& v) {
  std::vector<double> y(v.size());
  const Heads heads = in.heads;
  parallel(heads.value * in.sequences(), [&](int task) {
    const int head = task % heads.value, sequence = task / heads.value, key_head = head * heads.key / heads.value;
    std::vector<double> state(kDim * kDim), change(kDim), out(kDim);
    for (int t = in.cu_seqlens[static_cast<std::size_t>(sequence)];
         t < in.cu_seqlens[static_cast<std::size_t>(sequence) + 1]; ++t) {
      const T* qt = &q[(static_cast<std::size_t>(t) * heads.key + key_head) * kDim];
      const T* kt = &k[(static_cast<std::size_t>(t) * heads.key + key_head) * kDim];
      const std::size_t place = (static_cast<std::size_t>(t) * heads.value + head);
      const double input = static_cast<double>(in.a[place] + in.dt_bias[static_cast<std::size_t>(head)]);
      const double decay = std::exp(in.neg_exp_a_log[static_cast<std::size_t>(head)] *
                                    (input > 20 ? input : std::log1p(std::exp(input))));
      const double beta = 1.0 / (1.0 + std::exp(-static_cast<double>(in.b[place])));
      for (double& s : state) s *= decay;
      std::fill(change.begin(), change.end(), 0.0);
      std::fill(out.begin(), out.end(), 0.0);
      for (int i = 0; i < kDim; ++i) {
        const double key = to_double(kt[i]);
        for (int c = 0; c < kDim; ++c) change[c] += key * state[i * kDim + c];
      }
      for (int c = 0; c < kDim; ++c) change[c] = beta * (to_double(v[place * kDim + c]) - change[c]);
      for (int i = 0; i < kDim; ++i) {
        const double key = to_double(kt[i]), query = to_double(qt[i]);
        for (int c = 0; c < kDim; ++c) {
          state[i * kDim + c] += key * change[c];
          out[c] += query * state[i * kDim + c];
        }
      }
      for (int c = 0; c < kDim; ++c) y[place * kDim + c] = out[c] / std::sqrt(kDim);
    }
  });
  return y;
}

template <typename T>
void reference_conv(const Input& in, const std::vector<T>& x, std::vector<double>& q, std::vector<double>& k,
                    std::vector<double>& v) {
  const int channels = in.heads.channels(), key = in.heads.key;
  q.resize(static_cast<std::size_t>(in.tokens()) * key * kDim), k.resize(q.size());
  v.resize(static_cast<std::size_t>(in.tokens()) * in.heads.value * kDim);
  parallel(in.sequences(), [&](int sequence) {
    const int start = in.cu_seqlens[static_cast<std::size_t>(sequence)];
    for (int t = start; t < in.cu_seqlens[static_cast<std::size_t>(sequence) + 1]; ++t) {
      for (int head = 0; head < channels / kDim; ++head) {
        double out[kDim], squares = 0;
        for (int i = 0; i < kDim; ++i) {
          double sum = 0;
          for (int tap = 0; tap < kShortConvTaps; ++tap) {
            const int from = t + tap - (kShortConvTaps - 1);
            if (from >= start)
              sum += static_cast<double>(in.weight[static_cast<std::size_t>(tap * channels + head * kDim + i)]) *
                     to_double(x[static_cast<std::size_t>(from) * channels + head * kDim + i]);
          }
          out[i] = silu(sum);
          squares += out[i] * out[i];
        }
        const double scale = head < 2 * key ? 1.0 / std::sqrt(squares + 1e-6) : 1.0;
        double* to = head < key       ? &q[(static_cast<std::size_t>(t) * key + head) * kDim]
                     : head < 2 * key ? &k[(static_cast<std::size_t>(t) * key + head - key) * kDim]
                                      : &v[(static_cast<std::size_t>(t) * in.heads.value + head - 2 * key) * kDim];
        for (int i = 0; i < kDim; ++i) to[i] = out[i] * scale;
      }
    }
  });
}

template <typename T>
std::vector<double> reference_norm(const Input& in, const std::vector<T>& x, const std::vector<T>& z) {
  std::vector<double> y(x.size());
  for (std::size_t row = 0; row < x.size() / kDim; ++row) {
    double squares = 0;
    for (int i = 0; i < kDim; ++i) squares += std::pow(to_double(x[row * kDim + i]), 2);
    for (int i = 0; i < kDim; ++i) {
      const std::size_t at = row * kDim + i;
      y[at] = in.gain[static_cast<std::size_t>(i)] * (to_double(x[at]) / std::sqrt(squares / kDim + kEps)) *
              silu(to_double(z[at]));
    }
  }
  return y;
}

// What the first pass makes of a chunk of a value head.
struct ChunkReference {
  std::vector<double> inverse, scores;  // [64, 64]
};
template <typename T>
ChunkReference reference_chunk(const Input& in, const std::vector<T>& q, const std::vector<T>& k, int sequence,
                               int chunk, int head) {
  const int start = in.cu_seqlens[static_cast<std::size_t>(sequence)], first = start + chunk * kChunk;
  const int tokens = std::min(kChunk, in.cu_seqlens[static_cast<std::size_t>(sequence) + 1] - first);
  const int key_head = head * in.heads.key / in.heads.value;
  std::vector<double> g(kChunk), beta(kChunk), a(kChunk * kChunk);
  ChunkReference out{std::vector<double>(kChunk * kChunk), std::vector<double>(kChunk * kChunk)};
  for (int i = 0; i < tokens; ++i) {
    const std::size_t place = static_cast<std::size_t>(first + i) * in.heads.value + head;
    const double input = static_cast<double>(in.a[place] + in.dt_bias[static_cast<std::size_t>(head)]);
    g[i] = in.neg_exp_a_log[static_cast<std::size_t>(head)] * (input > 20 ? input : std::log1p(std::exp(input)));
    beta[i] = 1.0 / (1.0 + std::exp(-static_cast<double>(in.b[place])));
  }
  for (int i = 0; i < kChunk; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = 0, kk = 0, qk = 0;
      for (int l = j + 1; l <= i; ++l) sum += g[l];
      for (int c = 0; c < kDim && i < tokens; ++c) {
        const double kj = to_double(k[(static_cast<std::size_t>(first + j) * in.heads.key + key_head) * kDim + c]);
        kk += kj * to_double(k[(static_cast<std::size_t>(first + i) * in.heads.key + key_head) * kDim + c]);
        qk += kj * to_double(q[(static_cast<std::size_t>(first + i) * in.heads.key + key_head) * kDim + c]);
      }
      out.scores[i * kChunk + j] = qk * std::exp(sum) / std::sqrt(kDim);
      if (j < i) a[i * kChunk + j] = beta[i] * kk * std::exp(sum);
    }
    for (int j = 0; j <= i; ++j) {
      double sum = i == j ? 1.0 : 0.0;
      for (int l = j; l < i; ++l) sum -= a[i * kChunk + l] * out.inverse[l * kChunk + j];
      out.inverse[i * kChunk + j] = sum;
    }
  }
  return out;
}

}  // namespace clef::cuda::test
