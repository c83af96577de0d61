// Holds the attention kernels of this machine's GPU to FP64 and to themselves, and times them.
//   attention_device check [NAME]   against FP64, and each row's bits across packings; exits 1 where something is off
//   attention_device time [NAME]    milliseconds and TFLOP/s at the lengths of requests and the sizes of images
//   attention_device tokens N...    milliseconds of what the device would run, one sequence of N tokens each: for
//                                   bench/mixers_side_by_side.py
// NAME chooses the kernels whose names begin so. Built, in the repository's root, with
//   nvcc -std=c++20 -O3 --fmad=false -Isrc -gencode=arch=compute_90a,code=sm_90a tests/backend/attention_device.cu
//     src/backend/cuda/attention.cpp src/backend/cuda/attention_mma.cu src/backend/cuda/attention_sm90.cu
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/attention.h"

using clef::cuda::AttentionArgs;
using clef::cuda::SegmentAttentionArgs;

namespace {

constexpr int kHeadDim = clef::cuda::kAttentionHeadDim;
constexpr std::uint16_t kPoison = 0x7e5a;  // a NaN no kernel writes

int failures = 0;

void cuda_ok(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

void expect(bool right, const std::string& what) {
  if (right) return;
  ++failures;
  std::printf("FAILED %s\n", what.c_str());
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) { cuda_ok(cudaMalloc(&data_, bytes()), "cudaMalloc"); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    cuda_ok(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "copy to the device");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t bytes() const { return std::max<std::size_t>(count_, 1) * sizeof(T); }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    cuda_ok(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "copy from the device");
    return values;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
};

__device__ std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

constexpr int kNan = -1;       // the name of a sequence whose rows hold NaN everywhere
constexpr int kInfinite = -2;  // and of one whose values are infinite

// About normal: the sum of four uniform values. Element (row, column) depends on the row's `identity` alone.
__global__ void fill_rows(__half* x, std::int64_t stride, int columns, const int* identity, std::uint32_t seed,
                          float scale, bool values) {
  const int row = static_cast<int>(blockIdx.x);
  for (int c = static_cast<int>(threadIdx.x); c < columns; c += static_cast<int>(blockDim.x)) {
    float value = NAN;
    if (values && identity[row] == kInfinite) {
      value = INFINITY;
    } else if (identity[row] != kNan) {
      const std::uint32_t place = mixed(static_cast<std::uint32_t>(identity[row]) * 2654435761u + seed) + c;
      float sum = 0;
      for (std::uint32_t i = 0; i < 4; ++i) sum += static_cast<float>(mixed(place * 4 + i) >> 8) * 0x1p-24F - 0.5F;
      value = sum * 1.7320508F * scale;
    }
    x[row * stride + c] = __float2half_rn(value);
  }
}

// One block a query row and head, FP64 throughout, in the plainest order.
struct Oracle {
  const __half *q, *k, *v, *gate;
  std::int64_t q_stride, kv_stride, gate_stride, gate_head_stride;
  const int *row, *first_key, *end_key;  // of each query asked for
  double* y;                             // [queries, heads, dim]
  int heads, group, dim;
};

__global__ void oracle_kernel(const Oracle o) {
  __shared__ double partial[256];
  const int index = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            me = static_cast<int>(threadIdx.x);
  const __half* q = o.q + o.row[index] * o.q_stride + head * o.dim;
  const std::int64_t kv_column = head / o.group * o.dim;
  double largest = -INFINITY, total = 0, sum = 0;
  for (int key = o.first_key[index]; key < o.end_key[index]; ++key) {
    partial[me] = me < o.dim ? static_cast<double>(__half2float(q[me])) *
                                   static_cast<double>(__half2float(o.k[key * o.kv_stride + kv_column + me]))
                             : 0.0;
    __syncthreads();
    for (int width = 128; width > 0; width /= 2) {
      if (me < width) partial[me] += partial[me + width];
      __syncthreads();
    }
    const double score = partial[0] / sqrt(static_cast<double>(o.dim));
    __syncthreads();
    const double now = fmax(largest, score), rescale = exp(largest - now), p = exp(score - now);
    largest = now;
    total = total * rescale + p;
    if (me < o.dim) {
      sum = sum * rescale + p * static_cast<double>(__half2float(o.v[key * o.kv_stride + kv_column + me]));
    }
  }
  if (me >= o.dim) return;
  double y = sum / total;
  if (o.gate != nullptr) {
    const double g =
        static_cast<double>(__half2float(o.gate[o.row[index] * o.gate_stride + head * o.gate_head_stride + me]));
    y /= 1 + exp(-g);
  }
  o.y[(static_cast<std::int64_t>(index) * o.heads + head) * o.dim + me] = y;
}

// The same on the host, so that the oracle is checked too.
double host_value(const std::vector<__half>& q, const std::vector<__half>& k, const std::vector<__half>& v,
                  const Oracle& o, int row, int first, int end, int head, int d) {
  std::vector<double> scores;
  double largest = -INFINITY, total = 0, sum = 0;
  const auto number = [](const std::vector<__half>& x, std::int64_t at) {
    return static_cast<double>(__half2float(x[static_cast<std::size_t>(at)]));
  };
  const std::int64_t kv_column = head / o.group * o.dim;
  for (int key = first; key < end; ++key) {
    double dot = 0;
    for (int c = 0; c < o.dim; ++c) {
      dot += number(q, row * o.q_stride + head * o.dim + c) * number(k, key * o.kv_stride + kv_column + c);
    }
    scores.push_back(dot / std::sqrt(static_cast<double>(o.dim)));
    largest = std::max(largest, scores.back());
  }
  for (int key = first; key < end; ++key) {
    const double p = std::exp(scores[static_cast<std::size_t>(key - first)] - largest);
    total += p;
    sum += p * number(v, key * o.kv_stride + kv_column + d);
  }
  return sum / total;
}

// Tokens of several sequences in one batch. A sequence's rows are made from its name, so that the same name gives the
// same values in any batch.
struct Sequence {
  int name, length;
};

struct Shape {
  int q_heads, kv_heads, dim;
  bool causal;
  float spread = 1;  // of q and k: at 1 the scores are about normal
  int q_columns() const { return q_heads * dim; }
  int kv_columns() const { return kv_heads * dim; }
};

// The stride of a matrix that holds more than the one asked for, as the fused projections do.
std::int64_t padded(int columns) { return columns + 64; }

class Case {
 public:
  Case(const Shape& shape, const std::vector<Sequence>& sequences) : shape_(shape), starts_{0} {
    for (const Sequence& s : sequences) {
      for (int i = 0; i < s.length; ++i) identity_.push_back(s.name < 0 ? s.name : (s.name << 20) + i);
      starts_.push_back(starts_.back() + s.length);
    }
    tokens_ = starts_.back();
    cu_ = std::make_unique<DeviceArray<int>>(starts_);
    flags_ = std::make_unique<DeviceArray<int>>(std::vector<int>(sequences.size(), 0));
    const DeviceArray<int> identity(identity_);
    q_ = make(identity, shape.q_columns(), 1, shape.spread);
    k_ = make(identity, shape.kv_columns(), 2, shape.spread);
    v_ = make(identity, shape.kv_columns(), 3, 1);
    gate_ = make(identity, 2 * shape.q_columns(), 4, 2);
    y_ = make(identity, shape.q_columns(), 5, 1);
    cuda_ok(cudaDeviceSynchronize(), "fill");
  }

  AttentionArgs args() {
    AttentionArgs a;
    a.q = q_->data();
    a.q_stride = padded(shape_.q_columns());
    a.k = k_->data();
    a.v = v_->data();
    a.kv_stride = padded(shape_.kv_columns());
    a.gate = gate_->data() + shape_.dim;  // behind each head's query
    a.gate_stride = padded(2 * shape_.q_columns());
    a.gate_head_stride = 2 * shape_.dim;
    a.y = y_->data();
    a.y_stride = padded(shape_.q_columns());
    a.cu_seqlens = cu_->data();
    a.sequences = static_cast<int>(starts_.size()) - 1;
    a.tokens = tokens_;
    a.q_heads = shape_.q_heads;
    a.kv_heads = shape_.kv_heads;
    a.overflow = flags_->data();
    return a;
  }

  SegmentAttentionArgs segment_args() {
    SegmentAttentionArgs a;
    a.q = q_->data();
    a.q_stride = padded(shape_.q_columns());
    a.k = k_->data();
    a.v = v_->data();
    a.kv_stride = padded(shape_.kv_columns());
    a.y = y_->data();
    a.y_stride = padded(shape_.q_columns());
    a.cu_segments = cu_->data();
    a.segments = static_cast<int>(starts_.size()) - 1;
    a.tokens = tokens_;
    a.heads = shape_.q_heads;
    a.head_dim = shape_.dim;
    a.overflow = flags_->data();
    return a;
  }

  // The output's bits, [tokens, q_heads * dim], after one launch onto poisoned memory.
  std::vector<std::uint16_t> run(const std::function<cudaError_t(Case&, cudaStream_t)>& launch,
                                 const std::string& what) {
    const std::size_t stride = static_cast<std::size_t>(padded(shape_.q_columns()));
    std::vector<std::uint16_t> bits(stride * static_cast<std::size_t>(tokens_), kPoison);
    cuda_ok(cudaMemcpy(y_->data(), bits.data(), bits.size() * 2, cudaMemcpyHostToDevice), "poison");
    cuda_ok(launch(*this, nullptr), what.c_str());
    cuda_ok(cudaDeviceSynchronize(), what.c_str());
    cuda_ok(cudaMemcpy(bits.data(), y_->data(), bits.size() * 2, cudaMemcpyDeviceToHost), "result");
    std::vector<std::uint16_t> result;
    const std::size_t columns = static_cast<std::size_t>(shape_.q_columns());
    bool beside = true, written = true;
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens_); ++t) {
      for (std::size_t c = 0; c < stride; ++c) {
        const std::uint16_t value = bits[t * stride + c];
        if (c < columns) result.push_back(value);
        if (c < columns) written &= value != kPoison;
        if (c >= columns) beside &= value == kPoison;
      }
    }
    expect(written, what + ": an output was not written");
    expect(beside, what + ": something beside the output was written");
    return result;
  }

  // Relative L2 error of `bits` against FP64 at up to `most` rows, the first and the last among them.
  double error(const std::vector<std::uint16_t>& bits, int most) {
    std::vector<int> rows, first, end;
    for (std::size_t s = 0; s + 1 < starts_.size(); ++s) {
      const int length = starts_[s + 1] - starts_[s];
      const int step = std::max(1, length / std::max(1, most / static_cast<int>(starts_.size() - 1)));
      for (int t = length - 1; t >= 0; t -= step) {
        rows.push_back(starts_[s] + t);
        first.push_back(starts_[s]);
        end.push_back(shape_.causal ? starts_[s] + t + 1 : starts_[s + 1]);
      }
    }
    const DeviceArray<int> rows_d(rows), first_d(first), end_d(end);
    DeviceArray<double> y(rows.size() * static_cast<std::size_t>(shape_.q_columns()));
    Oracle o{};
    o.q = q_->data();
    o.k = k_->data();
    o.v = v_->data();
    o.gate = shape_.causal ? gate_->data() + shape_.dim : nullptr;
    o.q_stride = padded(shape_.q_columns());
    o.kv_stride = padded(shape_.kv_columns());
    o.gate_stride = padded(2 * shape_.q_columns());
    o.gate_head_stride = 2 * shape_.dim;
    o.row = rows_d.data();
    o.first_key = first_d.data();
    o.end_key = end_d.data();
    o.y = y.data();
    o.heads = shape_.q_heads;
    o.group = shape_.q_heads / shape_.kv_heads;
    o.dim = shape_.dim;
    oracle_kernel<<<dim3(static_cast<unsigned>(rows.size()), static_cast<unsigned>(o.heads)), 256>>>(o);
    cuda_ok(cudaDeviceSynchronize(), "oracle");
    const std::vector<double> expected = y.host();
    check_oracle(o, expected, rows[rows.size() / 2], first[rows.size() / 2], end[rows.size() / 2], rows.size() / 2);
    double difference = 0, norm = 0;
    const std::size_t columns = static_cast<std::size_t>(shape_.q_columns());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const std::uint16_t word = bits[static_cast<std::size_t>(rows[i / columns]) * columns + i % columns];
      __half half;
      std::memcpy(&half, &word, 2);
      const double got = static_cast<double>(__half2float(half));
      difference += (got - expected[i]) * (got - expected[i]);
      norm += expected[i] * expected[i];
    }
    return std::sqrt(difference / norm);
  }

  const std::vector<int>& starts() const { return starts_; }
  std::vector<int> flags() const { return flags_->host(); }

 private:
  std::unique_ptr<DeviceArray<__half>> make(const DeviceArray<int>& identity, int columns, std::uint32_t seed,
                                            float scale) {
    auto x = std::make_unique<DeviceArray<__half>>(static_cast<std::size_t>(padded(columns)) *
                                                   static_cast<std::size_t>(tokens_));
    fill_rows<<<static_cast<unsigned>(tokens_), 256>>>(x->data(), padded(columns), static_cast<int>(padded(columns)),
                                                       identity.data(), seed * 0x9e3779b9u, scale, seed == 3);
    cuda_ok(cudaGetLastError(), "fill");
    cuda_ok(cudaDeviceSynchronize(), "fill");
    return x;
  }

  void check_oracle(const Oracle& o, const std::vector<double>& expected, int row, int first, int end,
                    std::size_t index) {
    if (tokens_ > 2000 || end - first > 512) return;
    const auto q = q_->host(), k = k_->host(), v = v_->host(), gate = gate_->host();
    for (int head = 0; head < o.heads; head += 3) {
      const int d = (head * 37 + 5) % o.dim;
      double value = host_value(q, k, v, o, row, first, end, head, d);
      if (o.gate != nullptr) {
        const std::int64_t place = shape_.dim + row * o.gate_stride + head * o.gate_head_stride + d;
        value /= 1 + std::exp(-static_cast<double>(__half2float(gate[static_cast<std::size_t>(place)])));
      }
      const double on_device = expected[(index * static_cast<std::size_t>(o.heads) + static_cast<std::size_t>(head)) *
                                            static_cast<std::size_t>(o.dim) +
                                        static_cast<std::size_t>(d)];
      expect(std::abs(value - on_device) < 1e-9, "the oracle on the device is not the oracle on the host");
    }
  }

  Shape shape_;
  std::vector<int> starts_, identity_;
  int tokens_ = 0;
  std::unique_ptr<DeviceArray<int>> cu_, flags_;
  std::unique_ptr<DeviceArray<__half>> q_, k_, v_, gate_, y_;
};

struct Kernel {
  std::string name;
  std::string family;  // kernels of one family give the same bits
  bool segments;
  std::function<cudaError_t(Case&, cudaStream_t)> launch;
};

std::vector<Kernel> kernels(const std::string& prefix) {
  const auto causal = [](cudaError_t (*launch)(const AttentionArgs&, cudaStream_t)) {
    return [launch](Case& c, cudaStream_t stream) { return launch(c.args(), stream); };
  };
  const auto full = [](cudaError_t (*launch)(const SegmentAttentionArgs&, cudaStream_t)) {
    return [launch](Case& c, cudaStream_t stream) { return launch(c.segment_args(), stream); };
  };
  std::vector<Kernel> all;
  all.push_back({"mma", "mma", false, causal(clef::cuda::launch_attention_mma)});
  all.push_back({"mma segments", "mma segments", true, full(clef::cuda::launch_segment_attention_mma)});
  int device = 0, major = 0;
  cuda_ok(cudaGetDevice(&device), "cudaGetDevice");
  cuda_ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  if (major == 9) {
    for (const int workers : {2, 1}) {
      all.push_back(
          {"sm90, " + std::to_string(workers) + " workers", "sm90", false, [workers](Case& c, cudaStream_t stream) {
             return clef::cuda::launch_attention_sm90(c.args(), workers, stream);
           }});
    }
    for (const int workers : {3, 2, 1}) {
      all.push_back({"sm90 segments, " + std::to_string(workers) + " workers", "sm90 segments", true,
                     [workers](Case& c, cudaStream_t stream) {
                       return clef::cuda::launch_segment_attention_sm90(c.segment_args(), workers, stream);
                     }});
    }
  } else {
    std::printf("the sm90 kernels are skipped: this device has compute capability %d.x\n", major);
  }
  std::erase_if(all, [&](const Kernel& kernel) { return kernel.name.rfind(prefix, 0) != 0; });
  return all;
}

std::vector<Shape> shapes(const Kernel& kernel) {
  if (!kernel.segments) {
    return {{16, 4, kHeadDim, true}, {24, 4, kHeadDim, true}, {6, 1, kHeadDim, true, 3}, {3, 3, kHeadDim, true}};
  }
  if (kernel.family == "sm90 segments") return {{16, 16, 72, false}, {3, 3, 72, false, 3}};
  return {{16, 16, 72, false}, {3, 3, 128, false}, {2, 2, 24, false}, {4, 4, 64, false, 3}};
}

// FP16's own rounding of p and of the result gives 2.2e-4 to 2.5e-4 on these values; sharper softmaxes less.
constexpr double kErrorLimit = 3e-4;

void check_error(const Kernel& kernel, const Shape& shape, const std::vector<Sequence>& sequences) {
  Case batch(shape, sequences);
  const std::string what = kernel.name + ", " + std::to_string(shape.q_heads) + "/" + std::to_string(shape.kv_heads) +
                           " heads of " + std::to_string(shape.dim) + ", " + std::to_string(sequences.size()) +
                           " sequences, " + std::to_string(batch.starts().back()) + " tokens";
  const double error = batch.error(batch.run(kernel.launch, what), 96);
  std::printf("%-60s error %.2e\n", what.c_str(), error);
  expect(error < kErrorLimit, what + ": the error is too large");
  for (int flag : batch.flags()) expect(flag == 0, what + ": an overflow was seen where there is none");
}

// Where the rows of sequence `index` stand in a batch's output.
std::vector<std::uint16_t> rows_of(const Case& batch, const std::vector<std::uint16_t>& bits, std::size_t index,
                                   int count, int columns) {
  const auto first = bits.begin() + std::int64_t{batch.starts()[index]} * columns;
  return {first, first + std::int64_t{count} * columns};
}

void check_bits(const Kernel& kernel, const Shape& shape, int length) {
  const std::string what = kernel.name + ", " + std::to_string(shape.q_heads) + "/" + std::to_string(shape.kv_heads) +
                           " heads of " + std::to_string(shape.dim) + ", " + std::to_string(length) + " tokens";
  const int columns = shape.q_columns();
  const Sequence it{7, length};
  Case alone(shape, {it});
  const auto wanted = alone.run(kernel.launch, what);
  const auto same = [&](const std::vector<Sequence>& sequences, std::size_t index, const std::string& where) {
    Case batch(shape, sequences);
    const auto bits = batch.run(kernel.launch, what + " " + where);
    expect(rows_of(batch, bits, index, length, columns) == wanted, what + ": other bits " + where);
  };
  same({it}, 0, "in a second run");
  same({it, {8, 300}}, 0, "as the first of two");
  same({{8, 33}, it}, 1, "as the second of two");
  same({{8, 1}, {9, 0}, it, {10, 129}, {11, 2}}, 2, "in the middle of five");
  same({{8, 41}, {9, 41}, {10, 700}, it, it}, 4, "as the last of five");
  if (shape.causal) same({{12, 5}, {7, length + 333}}, 1, "as the beginning of a longer one");
  std::vector<Sequence> many(70, Sequence{13, 37});
  many[40] = it;
  same(many, 40, "among seventy");

  Case beside_nan(shape, {{kNan, 90}, it, {kNan, 90}});
  const auto bits = beside_nan.run(kernel.launch, what);
  expect(rows_of(beside_nan, bits, 1, length, columns) == wanted, what + ": other bits between rows of NaN");
  expect(beside_nan.flags() == std::vector<int>({1, 0, 1}), what + ": NaN must be flagged where it is, and only there");
  const auto nan_rows = rows_of(beside_nan, bits, 0, 90, columns);
  expect(std::all_of(nan_rows.begin(), nan_rows.end(), [](std::uint16_t x) { return x == 0; }),
         what + ": NaN must be stored as zero");
}

void check_saturation(const Kernel& kernel, const Shape& shape) {
  Case batch(shape, {{3, 50}, {kInfinite, 1}, {4, 50}});
  const auto rows = rows_of(batch, batch.run(kernel.launch, kernel.name), 1, 1, shape.q_columns());
  expect(std::all_of(rows.begin(), rows.end(), [](std::uint16_t x) { return x == 0x7bff; }),
         kernel.name + ": infinity must be stored as the largest FP16");
  expect(batch.flags() == std::vector<int>({0, 1, 0}), kernel.name + ": infinity must be flagged, and only there");
}

void check_family(const std::vector<Kernel>& all, const Shape& shape, const std::vector<Sequence>& sequences) {
  Case batch(shape, sequences);
  for (const Kernel& first : all) {
    if (first.segments == shape.causal) continue;
    const auto bits = batch.run(first.launch, first.name);
    for (const Kernel& other : all) {
      if (&other == &first) break;
      if (other.family != first.family) continue;
      expect(batch.run(other.launch, other.name) == bits, first.name + " and " + other.name + " give other bits");
    }
  }
}

void check(const std::string& prefix) {
  const std::vector<Kernel> all = kernels(prefix);
  for (const Kernel& kernel : all) {
    const Shape first = shapes(kernel)[0];
    for (const Shape& shape : shapes(kernel)) {
      check_error(kernel, shape, {{1, 1}});
      check_error(kernel, shape, {{1, 346}});
      check_error(kernel, shape, {{1, 1}, {2, 79}, {3, 80}, {4, 81}, {5, 0}, {6, 64}, {7, 129}});
    }
    check_saturation(kernel, first);
    check_error(kernel, first, {{1, 4510}});
    check_error(kernel, first, std::vector<Sequence>(64, {1, 346}));
    for (const int length : {1, 17, 79, 80, 81, 346, 1382}) check_bits(kernel, first, length);
    for (const Shape& shape : shapes(kernel)) {
      for (const int length : {96, 161}) check_bits(kernel, shape, length);
    }
  }
  check_family(all, {24, 4, kHeadDim, true}, {{1, 777}, {2, 1}, {3, 80}, {4, 2222}});
  check_family(all, {16, 16, 72, false}, {{1, 777}, {2, 1}, {3, 96}, {4, 2222}});
  std::printf("%d failures\n", failures);
}

// Median of the milliseconds of one launch, over ten replays of a graph of four: the host's part is left out.
float median_ms(Case& batch, const Kernel& kernel) {
  constexpr int kLaunches = 4;
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  cudaEvent_t begin, end;
  cuda_ok(cudaStreamCreate(&stream), "stream");
  cuda_ok(cudaEventCreate(&begin), "event");
  cuda_ok(cudaEventCreate(&end), "event");
  cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int n = 0; n < kLaunches; ++n) cuda_ok(kernel.launch(batch, stream), kernel.name.c_str());
  cuda_ok(cudaStreamEndCapture(stream, &graph), "capture");
  cuda_ok(cudaGraphInstantiate(&replay, graph, 0), "graph");
  std::vector<float> times;
  for (int i = 0; i < 12; ++i) {
    cuda_ok(cudaEventRecord(begin, stream), "event");
    cuda_ok(cudaGraphLaunch(replay, stream), "graph");
    cuda_ok(cudaEventRecord(end, stream), "event");
    cuda_ok(cudaEventSynchronize(end), kernel.name.c_str());
    float ms = 0;
    cuda_ok(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= 2) times.push_back(ms / kLaunches);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void time_case(const std::vector<Kernel>& all, const Shape& shape, const std::vector<Sequence>& sequences) {
  Case batch(shape, sequences);
  double pairs = 0;
  for (const Sequence& s : sequences) pairs += double(s.length) * s.length * (shape.causal ? 0.5 : 1.0);
  const double flops = 4 * pairs * shape.q_columns();
  for (const Kernel& kernel : all) {
    if (kernel.segments == shape.causal) continue;
    const double ms = static_cast<double>(median_ms(batch, kernel));
    std::printf("%-28s %2d/%-2d x %3d  %3zu x %5d tokens  %9.4f ms  %6.1f TFLOP/s\n", kernel.name.c_str(),
                shape.q_heads, shape.kv_heads, shape.dim, sequences.size(), sequences[0].length, ms, flops / ms * 1e-9);
  }
}

void time_all(const std::string& prefix) {
  const std::vector<Kernel> all = kernels(prefix);
  for (const Shape& shape : {Shape{16, 4, kHeadDim, true}, Shape{24, 4, kHeadDim, true}}) {
    for (const int length : {346, 1382, 4510, 8072, 16347}) time_case(all, shape, {{1, length}});
    time_case(all, shape, std::vector<Sequence>(64, {1, 346}));
  }
  const Shape vision{16, 16, 72, false};
  time_case(all, vision, {{1, 336}});
  time_case(all, vision, {{1, 4096}});
}

// After a quarter of a second of the same work: a card that idles has a lower clock.
void time_tokens(int length) {
  const Kernel chosen{"attention", "", false,
                      [](Case& c, cudaStream_t stream) { return clef::cuda::launch_attention(c.args(), stream); }};
  Case batch({16, 4, kHeadDim, true}, {{1, length}});
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(250)) {
    for (int i = 0; i < 10; ++i) cuda_ok(chosen.launch(batch, nullptr), "attention");
    cuda_ok(cudaDeviceSynchronize(), "attention");
  }
  std::printf("attention %d tokens: %.4f ms\n", length, static_cast<double>(median_ms(batch, chosen)));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", prefix = argc > 2 ? argv[2] : "";
  if (mode == "tokens" && argc > 2) {
    for (int i = 2; i < argc; ++i) time_tokens(std::atoi(argv[i]));
    return 0;
  }
  if (mode == "check") {
    check(prefix);
  } else if (mode == "time") {
    time_all(prefix);
  } else {
    std::printf("usage: attention_device check|time [NAME] | tokens N...\n");
    return 2;
  }
  return failures == 0 ? 0 : 1;
}
