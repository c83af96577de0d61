// Gated DeltaNet's CUDA kernels on the device: against FP64 loops on the host, over packings, beside neighbours of NaN,
// and their times.   delta_net_device [--no-times | --once TOKENS, for a profiler | --tokens N..., times alone]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cuda/delta_net.h"
#include "backend/cuda/delta_net_tile.cuh"
#include "delta_net_device.h"
#include "delta_net_reference.h"

namespace {

using namespace clef::cuda;
using namespace clef::cuda::test;
struct Layer {
  explicit Layer(const Input& in)
      : x(in.x),
        z(in.z),
        a(in.a),
        b(in.b),
        weight(in.weight),
        neg_exp_a_log(in.neg_exp_a_log),
        dt_bias(in.dt_bias),
        gain(in.gain),
        cu_seqlens(in.cu_seqlens),
        overflow(std::vector<int>(static_cast<std::size_t>(in.sequences()))) {
    const auto tokens = static_cast<std::size_t>(in.tokens());
    const std::size_t keys = tokens * static_cast<std::size_t>(in.heads.key * kDim);
    const std::size_t values = tokens * static_cast<std::size_t>(in.heads.value * kDim);
    q = Array<__half>(keys), k = Array<__half>(keys), v = Array<__half>(values);
    y = Array<__half>(values), normed = Array<__half>(values);
    const std::size_t bytes = delta_net_workspace(in.tokens(), in.sequences(), in.heads.key, in.heads.value);
    workspace = Array<unsigned char>(bytes);
    conv = {.q = q.data(),
            .k = k.data(),
            .v = v.data(),
            .x = x.data(),
            .x_stride = in.heads.channels(),
            .weight = weight.data(),
            .cu_seqlens = cu_seqlens.data(),
            .sequences = in.sequences(),
            .tokens = in.tokens(),
            .key_heads = in.heads.key,
            .value_heads = in.heads.value,
            .overflow = overflow.data()};
    net = {.y = y.data(),
           .q = q.data(),
           .k = k.data(),
           .v = v.data(),
           .b = b.data(),
           .a = a.data(),
           .ba_stride = in.heads.value,
           .neg_exp_a_log = neg_exp_a_log.data(),
           .dt_bias = dt_bias.data(),
           .cu_seqlens = cu_seqlens.data(),
           .sequences = in.sequences(),
           .tokens = in.tokens(),
           .key_heads = in.heads.key,
           .value_heads = in.heads.value,
           .workspace = workspace.data(),
           .workspace_bytes = bytes,
           .overflow = overflow.data()};
    norm = {.y = normed.data(),
            .x = y.data(),
            .z = z.data(),
            .z_stride = std::int64_t{in.heads.value} * kDim,
            .gain = gain.data(),
            .eps = kEps,
            .tokens = in.tokens(),
            .heads = in.heads.value,
            .cu_seqlens = cu_seqlens.data(),
            .sequences = in.sequences(),
            .overflow = overflow.data()};
  }
  void run() {
    MUST(launch_short_conv(conv, nullptr));
    MUST(launch_delta_net(net, nullptr));
    MUST(launch_gated_rms_norm(norm, nullptr));
    MUST(cudaDeviceSynchronize());
  }
  Array<__half> x, z;
  Array<float> a, b, weight, neg_exp_a_log, dt_bias, gain;
  Array<int> cu_seqlens, overflow;
  Array<__half> q, k, v, y, normed;
  Array<unsigned char> workspace;
  ShortConvArgs conv;
  DeltaNetArgs net;
  GatedRmsNormArgs norm;
};

// A record of the first pass against its definition, so that a failure names its pass.
void check_record(const Input& in, const Layer& layer, const std::vector<__half>& q, const std::vector<__half>& k,
                  int sequence, int chunk, int head) {
  const int start = in.cu_seqlens[static_cast<std::size_t>(sequence)];
  const ChunkReference want = reference_chunk(in, q, k, sequence, chunk, head);
  std::vector<ChunkRecord> record(1);
  const std::size_t slot = static_cast<std::size_t>(first_slot(start, sequence) + chunk);
  MUST(cudaMemcpy(record.data(), layer.workspace.data() + (slot * in.heads.value + head) * sizeof(ChunkRecord),
                  sizeof(ChunkRecord), cudaMemcpyDeviceToHost));
  std::vector<__half> got_inverse(kChunk * kChunk), got_scores(kChunk * kChunk);
  for (int i = 0; i < kChunk; ++i) {
    for (int j = 0; j < kChunk; ++j) {
      const int at = i * kChunk + (j / 8 ^ i % 8) * 8 + j % 8;
      got_inverse[i * kChunk + j] = record[0].inverse[at];
      got_scores[i * kChunk + j] = record[0].scores[at];
    }
  }
  const std::string where =
      "record " + std::to_string(sequence) + "/" + std::to_string(chunk) + "/" + std::to_string(head);
  expect_error(error(got_inverse, want.inverse), 4e-4, where + " inverse");
  expect_error(error(got_scores, want.scores), 4e-4, where + " scores");
}

void check_accuracy(Heads heads, Gates gates, const char* name) {
  const std::vector<int> lengths = {1, 63, 64, 65, 130, 346, 1000};
  const Input in = make_input(heads, lengths, gates, 7);
  Layer layer(in);
  layer.run();
  const auto q = layer.q.read(), k = layer.k.read(), v = layer.v.read(), y = layer.y.read();
  std::vector<double> want_q, want_k, want_v;
  reference_conv(in, in.x, want_q, want_k, want_v);
  const std::string label =
      std::string(name) + " gates, " + std::to_string(heads.key) + "/" + std::to_string(heads.value) + " heads: ";
  expect_error(error(q, want_q), 3e-4, label + "conv q");
  expect_error(error(k, want_k), 3e-4, label + "conv k");
  expect_error(error(v, want_v), 3e-4, label + "conv v");
  check_record(in, layer, q, k, 2, 0, heads.value - 1);
  check_record(in, layer, q, k, 6, 15, 0);
  const std::vector<double> want = reference_net(in, q, k, v);
  const std::size_t row = static_cast<std::size_t>(heads.value) * kDim;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const auto first = static_cast<std::size_t>(in.cu_seqlens[s]);
    expect_error(error(y, want, first * row, (first + static_cast<std::size_t>(lengths[s])) * row), 5e-4,
                 label + "net, " + std::to_string(lengths[s]) + " tokens");
  }
  MUST(launch_delta_net_plain(layer.net, nullptr));
  expect_error(error(layer.y.read(), want), 3e-4, label + "plain net");
  MUST(launch_delta_net(layer.net, nullptr));
  expect_error(error(layer.normed.read(), reference_norm(in, y, in.z)), 3e-4, label + "norm");
  const auto flags = layer.overflow.read();
  expect(std::all_of(flags.begin(), flags.end(), [](int f) { return f == 0; }), label + "no overflow");
}

void check_packings() {
  const Heads heads{2, 6};
  const std::vector<int> lengths = {346, 1, 65, 130, 64, 700};
  const Input in = make_input(heads, lengths, Gates::kUsual, 21);
  Layer together(in);
  together.run();
  const auto y = together.y.read(), normed = together.normed.read(), q = together.q.read();
  const std::size_t row = static_cast<std::size_t>(heads.value) * kDim,
                    key_row = static_cast<std::size_t>(heads.key) * kDim;
  const std::vector<std::vector<int>> orders = {{0}, {1}, {2}, {3}, {4}, {5}, {5, 4, 3, 2, 1, 0}, {3, 1, 5}};
  bool same = true;
  for (const auto& order : orders) {
    const Input other = slice(in, order);
    Layer layer(other);
    layer.run();
    const auto y2 = layer.y.read(), normed2 = layer.normed.read(), q2 = layer.q.read();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto from = static_cast<std::size_t>(in.cu_seqlens[static_cast<std::size_t>(order[i])]);
      const auto to = static_cast<std::size_t>(other.cu_seqlens[i]);
      const auto count = static_cast<std::size_t>(lengths[static_cast<std::size_t>(order[i])]);
      same = same && same_bits(y, from * row, y2, to * row, count * row) &&
             same_bits(normed, from * row, normed2, to * row, count * row) &&
             same_bits(q, from * key_row, q2, to * key_row, count * key_row);
    }
  }
  expect(same, "a sequence has the same bits alone, reversed and among others");

  MUST(launch_delta_net_scan(together.net, false, nullptr));
  expect(same_bits(y, 0, together.y.read(), 0, y.size()), "whole heads have the bits of halves (1)");
  MUST(launch_delta_net_scan(together.net, true, nullptr));
  expect(same_bits(y, 0, together.y.read(), 0, y.size()), "whole heads have the bits of halves (2)");

  // Many copies: the other run length of the convolution, and blocks in several waves.
  std::vector<int> copies(40, 0);
  const Input many = slice(in, copies);
  Layer layer(many);
  layer.run();
  const auto y3 = layer.y.read(), normed3 = layer.normed.read();
  same = true;
  for (std::size_t c = 0; c < copies.size(); ++c) {
    same = same && same_bits(y, 0, y3, c * 346 * row, 346 * row) &&
           same_bits(normed, 0, normed3, c * 346 * row, 346 * row);
  }
  expect(same, "forty copies of a sequence have the bits of one");
}

void check_neighbours() {
  const Heads heads{2, 4};
  const std::vector<int> lengths = {70, 100, 3, 129, 65};
  const std::vector<int> spared = {1, 3};
  const Input in = make_input(heads, lengths, Gates::kUsual, 5);
  Layer clean(in);
  clean.run();
  const auto want = clean.normed.read(), want_y = clean.y.read();
  const std::size_t row = static_cast<std::size_t>(heads.value) * kDim;
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Input bad = in;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (std::count(spared.begin(), spared.end(), static_cast<int>(s)) != 0) continue;
      const auto fill = [&](auto& values, std::size_t width, auto value) {
        std::fill(values.begin() + static_cast<std::ptrdiff_t>(in.cu_seqlens[s] * width),
                  values.begin() + static_cast<std::ptrdiff_t>(in.cu_seqlens[s + 1] * width), value);
      };
      fill(bad.x, static_cast<std::size_t>(heads.channels()), __float2half(poison));
      fill(bad.z, row, __float2half(poison));
      fill(bad.a, static_cast<std::size_t>(heads.value), poison);
      fill(bad.b, static_cast<std::size_t>(heads.value), poison);
    }
    Layer layer(bad);
    layer.run();
    const auto check = [&](const char* what) {
      const auto got = layer.normed.read(), got_y = layer.y.read();
      const auto flags = layer.overflow.read();
      bool good = true, flagged = true, finite = true;
      for (std::size_t s = 0; s < lengths.size(); ++s) {
        const auto first = static_cast<std::size_t>(in.cu_seqlens[s]) * row,
                   count = static_cast<std::size_t>(lengths[s]) * row;
        const bool is_spared = std::count(spared.begin(), spared.end(), static_cast<int>(s)) != 0;
        flagged = flagged && (flags[s] != 0) == !is_spared;
        if (is_spared)
          good = good && same_bits(want, first, got, first, count) && same_bits(want_y, first, got_y, first, count);
        for (std::size_t i = first; i < first + count; ++i)
          finite = finite && std::isfinite(__half2float(got[i])) && std::isfinite(__half2float(got_y[i]));
      }
      expect(good, std::string(what) + ": a sequence keeps its bits beside neighbours of " +
                       (std::isnan(poison) ? "NaN" : "inf"));
      expect(flagged, std::string(what) + ": they alone are flagged");
      expect(finite, std::string(what) + ": what is stored is finite");
    };
    check("layer");
    // The net alone, given neighbours that the convolution would have kept finite.
    auto q = layer.q.read(), k = layer.k.read(), v = layer.v.read();
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (std::count(spared.begin(), spared.end(), static_cast<int>(s)) != 0) continue;
      for (int t = in.cu_seqlens[s]; t < in.cu_seqlens[s + 1]; ++t) {
        for (int i = 0; i < heads.key * kDim; ++i)
          q[static_cast<std::size_t>(t) * heads.key * kDim + i] =
              k[static_cast<std::size_t>(t) * heads.key * kDim + i] = __float2half(poison);
        for (int i = 0; i < heads.value * kDim; ++i)
          v[static_cast<std::size_t>(t) * heads.value * kDim + i] = __float2half(poison);
      }
    }
    layer.q = Array<__half>(q), layer.k = Array<__half>(k), layer.v = Array<__half>(v);
    layer.net.q = layer.q.data(), layer.net.k = layer.k.data(), layer.net.v = layer.v.data();
    MUST(launch_delta_net(layer.net, nullptr));
    MUST(launch_gated_rms_norm(layer.norm, nullptr));
    check("net");
    // Without flags what is not finite stays so, and still in its own sequence.
    layer.conv.overflow = layer.net.overflow = layer.norm.overflow = nullptr;
    layer.q = Array<__half>(q.size()), layer.k = Array<__half>(k.size()), layer.v = Array<__half>(v.size());
    layer.conv.q = layer.q.data(), layer.conv.k = layer.k.data(), layer.conv.v = layer.v.data();
    layer.net.q = layer.q.data(), layer.net.k = layer.k.data(), layer.net.v = layer.v.data();
    layer.run();
    const auto got = layer.normed.read();
    bool good = true, propagated = true;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const auto first = static_cast<std::size_t>(in.cu_seqlens[s]) * row,
                 count = static_cast<std::size_t>(lengths[s]) * row;
      if (std::count(spared.begin(), spared.end(), static_cast<int>(s)) != 0) {
        good = good && same_bits(want, first, got, first, count);
      } else {
        for (std::size_t i = first; i < first + count; ++i)
          propagated = propagated && !std::isfinite(__half2float(got[i]));
      }
    }
    expect(good, "without flags a sequence keeps its bits");
    expect(propagated, "without flags its neighbours' results are not finite");
  }
  // Finite inputs whose results are not: one key again and again, and values that swing between FP16's ends, so that
  // each correction is twice the largest number.
  Input large = make_input(heads, {200, 200}, Gates::kWeak, 6);
  for (float& b : large.b) b = 20.0F;
  Layer layer(large);
  layer.run();
  auto k = layer.k.read(), v = layer.v.read();
  for (std::size_t i = k.size() / 2; i < k.size(); ++i) k[i] = __float2half(i % kDim == 0 ? 1.0F : 0.0F);
  for (std::size_t i = v.size() / 2; i < v.size(); ++i) v[i] = __float2half(i / row % 2 == 0 ? 65504.0F : -65504.0F);
  layer.k = Array<__half>(k), layer.v = Array<__half>(v);
  layer.net.k = layer.k.data(), layer.net.v = layer.v.data();
  MUST(launch_delta_net(layer.net, nullptr));
  const auto y = layer.y.read();
  const auto flags = layer.overflow.read();
  expect(flags[0] == 0 && flags[1] != 0, "the sequence that overflows is flagged");
  expect(std::all_of(y.begin(), y.end(), [](__half h) { return std::isfinite(__half2float(h)); }),
         "an overflow is stored finite");
}

void check_long(Heads heads, const std::vector<int>& lengths) {
  const Input in = make_input(heads, lengths, Gates::kUsual, 3);
  Layer layer(in);
  layer.run();
  const auto got = layer.y.read();
  MUST(launch_delta_net_plain(layer.net, nullptr));
  const auto plain = layer.y.read();
  std::vector<double> want(plain.size());
  std::transform(plain.begin(), plain.end(), want.begin(),
                 [](__half h) { return static_cast<double>(__half2float(h)); });
  expect_error(error(got, want), 5e-4, std::to_string(in.tokens()) + " tokens against the plain kernel");
}

void print_times(Heads heads, const std::vector<int>& lengths) {
  const Input in = make_input(heads, lengths, Gates::kUsual, 1);
  Layer layer(in);
  layer.run();
  const float conv = microseconds([&](cudaStream_t s) { MUST(launch_short_conv(layer.conv, s)); });
  const float prepare = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_prepare(layer.net, s)); });
  const float whole = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_scan(layer.net, false, s)); });
  const float halves = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_scan(layer.net, true, s)); });
  const float norm = microseconds([&](cudaStream_t s) { MUST(launch_gated_rms_norm(layer.norm, s)); });
  const float all = microseconds([&](cudaStream_t s) {
    MUST(launch_short_conv(layer.conv, s));
    MUST(launch_delta_net(layer.net, s));
    MUST(launch_gated_rms_norm(layer.norm, s));
  });
  std::printf(
      "%2d/%2d heads %2d x %5d tokens: conv %5.1f  prepare %5.1f  scan whole %5.1f halves %5.1f  norm %5.1f  "
      "all four %6.1f us\n",
      heads.key, heads.value, in.sequences(), lengths[0], conv, prepare, whole, halves, norm, all);
}

// For bench/mixers_side_by_side.py, of one sequence, after a quarter of a second of the same work: a card that idles
// has a lower clock. `chunks` are DeltaNet's two passes, gates included, on unit vectors; `with convolution` adds what
// makes those of the projections; `layer` adds the gated norm.
void print_parts(int tokens) {
  const Input in = make_input({16, 32}, {tokens}, Gates::kUsual, 1);
  Layer layer(in);
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(250)) layer.run();
  const auto chunks = [&](cudaStream_t s) { MUST(launch_delta_net(layer.net, s)); };
  const auto with_conv = [&](cudaStream_t s) {
    MUST(launch_short_conv(layer.conv, s));
    chunks(s);
  };
  const auto all = [&](cudaStream_t s) {
    with_conv(s);
    MUST(launch_gated_rms_norm(layer.norm, s));
  };
  const auto ms = [](const auto& work) { return static_cast<double>(microseconds(work)) / 1000; };
  std::printf("delta_net %d tokens: chunks %.4f with convolution %.4f layer %.4f ms\n", tokens, ms(chunks),
              ms(with_conv), ms(all));
}

}  // namespace

int main(int argc, char** argv) {
  cudaDeviceProp properties{};
  MUST(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s\n", properties.name);
  if (argc > 2 && std::strcmp(argv[1], "--once") == 0) {
    const Input in = make_input({16, 32}, {std::atoi(argv[2])}, Gates::kUsual, 1);
    Layer(in).run();
    return 0;
  }
  if (argc > 2 && std::strcmp(argv[1], "--tokens") == 0) {
    for (int i = 2; i < argc; ++i) print_parts(std::atoi(argv[i]));
    return 0;
  }
  check_accuracy({2, 4}, Gates::kUsual, "usual");
  check_accuracy({2, 6}, Gates::kWeak, "weak");
  check_accuracy({2, 4}, Gates::kStrong, "strong");
  check_packings();
  check_neighbours();
  check_long({16, 32}, {4510});
  std::printf("%d failed\n", failures);
  if (argc < 2 || std::strcmp(argv[1], "--no-times") != 0) {
    for (const Heads heads : {Heads{16, 32}, Heads{16, 48}}) {
      for (const int tokens : {346, 1382, 4510, 8192, 16347}) print_times(heads, {tokens});
      print_times(heads, std::vector<int>(64, 346));
    }
  }
  return failures == 0 ? 0 : 1;
}
