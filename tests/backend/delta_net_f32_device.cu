// Gated DeltaNet's kernels with f32 activations on the device: against FP64 loops on the host, over packings, beside
// neighbours of NaN, far past the range of FP16, and their times.   delta_net_f32_device [--no-times]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "backend/cuda/delta_net_f32.h"
#include "backend/cuda/delta_net_f32_tile.cuh"
#include "delta_net_device.h"
#include "delta_net_reference.h"

namespace {

using namespace clef::cuda;
using namespace clef::cuda::test;

// The same values for the same halves, with all the bits that f32 has.
std::vector<float> widen(const std::vector<__half>& values) {
  std::vector<float> wide(values.size());
  constexpr int kPieces = 64;
  const std::size_t piece = (values.size() + kPieces - 1) / kPieces;
  parallel(kPieces, [&](int p) {
    const std::size_t first = static_cast<std::size_t>(p) * piece, last = std::min(first + piece, values.size());
    for (std::size_t i = first; i < last; ++i) wide[i] = __half2float(values[i]) * 0.9871234F + 1e-3F;
  });
  return wide;
}

struct Layer {
  explicit Layer(const Input& in)
      : x(widen(in.x)),
        z(widen(in.z)),
        a(in.a),
        b(in.b),
        weight(in.weight),
        neg_exp_a_log(in.neg_exp_a_log),
        dt_bias(in.dt_bias),
        gain(in.gain),
        cu_seqlens(in.cu_seqlens) {
    const auto tokens = static_cast<std::size_t>(in.tokens());
    const std::size_t keys = tokens * static_cast<std::size_t>(in.heads.key * kDim);
    const std::size_t values = tokens * static_cast<std::size_t>(in.heads.value * kDim);
    q = Array<float>(keys), k = Array<float>(keys), v = Array<float>(values);
    y = Array<float>(values), normed = Array<float>(values);
    const std::size_t bytes = delta_net_f32_workspace(in.tokens(), in.sequences(), in.heads.key, in.heads.value);
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
            .value_heads = in.heads.value};
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
           .workspace_bytes = bytes};
    norm = {.y = normed.data(),
            .x = y.data(),
            .z = z.data(),
            .z_stride = std::int64_t{in.heads.value} * kDim,
            .gain = gain.data(),
            .eps = kEps,
            .tokens = in.tokens(),
            .heads = in.heads.value};
  }
  void run() {
    MUST(launch_short_conv_f32(conv, nullptr));
    MUST(launch_delta_net_f32(net, nullptr));
    MUST(launch_gated_rms_norm_f32(norm, nullptr));
    MUST(cudaDeviceSynchronize());
  }
  // The net alone, with other values.
  std::vector<float> net_of(const std::vector<float>& values) {
    const Array<float> other(values);
    DeltaNetF32Args args = net;
    args.v = other.data();
    MUST(launch_delta_net_f32(args, nullptr));
    return y.read();
  }
  Array<float> x, z, a, b, weight, neg_exp_a_log, dt_bias, gain;
  Array<int> cu_seqlens;
  Array<float> q, k, v, y, normed;
  Array<unsigned char> workspace;
  ShortConvF32Args conv;
  DeltaNetF32Args net;
  GatedRmsNormF32Args norm;
};

// A record of the first pass against its definition, so that a failure names its pass.
void check_record(const Input& in, const Layer& layer, const std::vector<float>& q, const std::vector<float>& k,
                  int sequence, int chunk, int head) {
  const ChunkReference want = reference_chunk(in, q, k, sequence, chunk, head);
  const int slot = first_slot(in.cu_seqlens[static_cast<std::size_t>(sequence)], sequence) + chunk;
  std::vector<ChunkF32Record> record(1);
  MUST(cudaMemcpy(record.data(), chunk_records(layer.net) + std::ptrdiff_t{slot} * in.heads.value + head,
                  sizeof(ChunkF32Record), cudaMemcpyDeviceToHost));
  std::vector<float> inverse(kChunk * kChunk), scores(kChunk * kChunk);
  const ChunkPlanes& planes = record[0].planes;
  const float scale = 1.0F / (kPlaneScale * std::sqrt(static_cast<float>(kDim)));
  for (int i = 0; i < kChunk; ++i) {
    for (int j = 0; j < kChunk; ++j) {
      const int at = i * kChunk + (j / 8 ^ i % 8) * 8 + j % 8;
      inverse[i * kChunk + j] = __half2float(planes.inverse_high[at]) + __half2float(planes.inverse_low[at]);
      scores[i * kChunk + j] = scale * (__half2float(planes.scores_high[at]) + __half2float(planes.scores_low[at]));
    }
  }
  const std::string where =
      "record " + std::to_string(sequence) + "/" + std::to_string(chunk) + "/" + std::to_string(head);
  expect_error(error(inverse, want.inverse), 2e-6, where + " inverse");
  expect_error(error(scores, want.scores), 2e-6, where + " scores");
}

constexpr double kMostError = 1e-5;  // 22 bits an operand, sums that are cut; FP16's kernels have 4e-4

void check_accuracy(Heads heads, Gates gates, const char* name) {
  const std::vector<int> lengths = {1, 63, 64, 65, 130, 346, 1000};
  const Input in = make_input(heads, lengths, gates, 7);
  Layer layer(in);
  layer.run();
  const auto q = layer.q.read(), k = layer.k.read(), v = layer.v.read(), y = layer.y.read();
  std::vector<double> want_q, want_k, want_v;
  reference_conv(in, widen(in.x), want_q, want_k, want_v);
  const std::string label =
      std::string(name) + " gates, " + std::to_string(heads.key) + "/" + std::to_string(heads.value) + " heads: ";
  expect_error(error(q, want_q), 1e-6, label + "conv q");
  expect_error(error(k, want_k), 1e-6, label + "conv k");
  expect_error(error(v, want_v), 1e-6, label + "conv v");
  check_record(in, layer, q, k, 2, 0, heads.value - 1);
  check_record(in, layer, q, k, 6, 15, 0);
  const std::vector<double> want = reference_net(in, q, k, v);
  const std::size_t row = static_cast<std::size_t>(heads.value) * kDim;
  for (std::size_t s = 0; s < lengths.size(); ++s) {
    const auto first = static_cast<std::size_t>(in.cu_seqlens[s]);
    expect_error(error(y, want, first * row, (first + static_cast<std::size_t>(lengths[s])) * row), kMostError,
                 label + "net, " + std::to_string(lengths[s]) + " tokens");
  }
  expect_error(error(layer.normed.read(), reference_norm(in, y, widen(in.z))), 1e-6, label + "norm");
  MUST(launch_delta_net_f32_plain(layer.net, nullptr));
  expect_error(error(layer.y.read(), want), kMostError, label + "plain net");
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

  // Many copies: the other run length of the convolution, and blocks in several waves.
  const std::vector<int> copies(40, 0);
  Layer layer(slice(in, copies));
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
  const std::vector<bool> is_spared = {false, true, false, true, false};
  const Input in = make_input(heads, lengths, Gates::kUsual, 5);
  Layer clean(in);
  clean.run();
  const auto want = clean.normed.read(), want_y = clean.y.read();
  const std::size_t row = static_cast<std::size_t>(heads.value) * kDim;
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Input bad = in;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      if (is_spared[s]) continue;
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
    const auto got = layer.normed.read(), got_y = layer.y.read();
    bool good = true, told = true;
    for (std::size_t s = 0; s < lengths.size(); ++s) {
      const std::size_t first = static_cast<std::size_t>(in.cu_seqlens[s]) * row;
      const std::size_t count = static_cast<std::size_t>(lengths[s]) * row;
      if (is_spared[s]) {
        good = good && same_bits(want, first, got, first, count) && same_bits(want_y, first, got_y, first, count);
      } else {
        for (std::size_t i = first; i < first + count; ++i)
          told = told && !std::isfinite(got[i]) && !std::isfinite(got_y[i]);
      }
    }
    const std::string what = std::isnan(poison) ? "NaN" : "inf";
    expect(good, "a sequence keeps its bits beside neighbours of " + what);
    expect(told, "its neighbours' results are not finite: " + what);

    // One value of the net alone: it reaches its column from its token on, and no other sequence or head.
    auto v = clean.v.read();
    const int sequence = 1, token = 70, head = 2, value = 5;
    const auto first = static_cast<std::size_t>(in.cu_seqlens[sequence]), last = first + lengths[sequence];
    v[(first + token) * row + head * kDim + value] = poison;
    const auto one = clean.net_of(v);
    good = told = true;
    for (std::size_t i = 0; i < one.size(); ++i) {
      const std::size_t t = i / row;
      const bool in_head = t >= first && t < last && i % row / kDim == head;
      if (!in_head) good = good && same_bits(one, i, want_y, i, 1);
      if (in_head && t >= first + token && i % kDim == value) told = told && !std::isfinite(one[i]);
    }
    expect(good, "one value of " + what + " stays in its sequence and head");
    expect(told, "one value of " + what + " reaches all later outputs of its column");
  }
}

// Values past FP16's range and far below it: a power of two leaves the bits as they are.
void check_range() {
  const Heads heads{2, 4};
  Layer layer(make_input(heads, {200, 65}, Gates::kUsual, 6));
  layer.run();
  const auto y = layer.y.read(), v = layer.v.read();
  for (const float factor : {0x1p40F, 0x1p-40F}) {
    auto scaled = v;
    for (float& x : scaled) x *= factor;
    auto got = layer.net_of(scaled);
    for (float& x : got) x /= factor;
    expect(same_bits(got, 0, y, 0, y.size()),
           "values times 2^" + std::to_string(std::ilogb(factor)) + " have the same bits");
  }
}

void check_long() {
  for (const Gates gates : {Gates::kUsual, Gates::kWeak}) {
    const Input in = make_input({1, 2}, {12000}, gates, 3);
    Layer layer(in);
    layer.run();
    const std::vector<double> want = reference_net(in, layer.q.read(), layer.k.read(), layer.v.read());
    expect_error(error(layer.y.read(), want), kMostError,
                 std::to_string(in.tokens()) + (gates == Gates::kWeak ? " tokens, weak gates" : " tokens"));
  }
}

void print_times(Heads heads, const std::vector<int>& lengths) {
  const Input in = make_input(heads, lengths, Gates::kUsual, 1);
  Layer layer(in);
  layer.run();
  const float conv = microseconds([&](cudaStream_t s) { MUST(launch_short_conv_f32(layer.conv, s)); });
  const float prepare = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_f32_prepare(layer.net, s)); });
  const float scan = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_f32_scan(layer.net, s)); });
  const float both = microseconds([&](cudaStream_t s) { MUST(launch_delta_net_f32(layer.net, s)); });
  const float norm = microseconds([&](cudaStream_t s) { MUST(launch_gated_rms_norm_f32(layer.norm, s)); });
  std::printf("%2d/%2d heads %2d x %5d tokens: conv %6.1f  prepare %6.1f  scan %6.1f  both %6.1f  norm %6.1f us\n",
              heads.key, heads.value, in.sequences(), lengths[0], conv, prepare, scan, both, norm);
}

}  // namespace

int main(int argc, char** argv) {
  cudaDeviceProp properties{};
  MUST(cudaGetDeviceProperties(&properties, 0));
  std::printf("%s\n", properties.name);
  check_accuracy({2, 4}, Gates::kUsual, "usual");
  check_accuracy({2, 6}, Gates::kWeak, "weak");
  check_accuracy({2, 4}, Gates::kStrong, "strong");
  check_packings();
  check_neighbours();
  check_range();
  check_long();
  std::printf("%d failed\n", failures);
  std::fflush(stdout);
  if (argc < 2 || std::strcmp(argv[1], "--no-times") != 0) {
    for (const int tokens : {346, 4510, 16347}) print_times({16, 32}, {tokens});
    print_times({16, 32}, std::vector<int>(32, 346));
  }
  return failures == 0 ? 0 : 1;
}
