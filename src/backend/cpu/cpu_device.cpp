#include "backend/cpu/cpu_device.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "backend/cpu/run.h"

namespace clef {

namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector

struct HostBuffer final : Buffer {
  explicit HostBuffer(std::size_t bytes) : Buffer(::operator new (bytes, std::align_val_t{kAlignment}), bytes) {}
  ~HostBuffer() override { ::operator delete (data(), std::align_val_t{kAlignment}); }
};

// Memory that belongs to a mapping; never written, whatever the type of Buffer::data.
struct MappedBuffer final : Buffer {
  explicit MappedBuffer(std::span<const std::byte> bytes)
      : Buffer(const_cast<std::byte*>(bytes.data()), bytes.size()) {}
};

// What Linux says that programs could take without swapping. None elsewhere.
std::optional<DeviceMemory> system_memory() {
  std::ifstream file("/proc/meminfo");
  DeviceMemory memory;
  std::string name, unit;
  for (std::size_t kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit)) {
    if (name == "MemTotal:") memory.total_bytes = kilobytes * 1024;
    if (name == "MemAvailable:") memory.free_bytes = kilobytes * 1024;
  }
  if (memory.total_bytes == 0 || memory.free_bytes == 0) return std::nullopt;
  return memory;
}

class CpuPass final : public Pass {
 public:
  explicit CpuPass(cpu::Context& context) : context_(context) {}
  Status finish() override { return {}; }

 private:
  void encode(const Op& op) override {
    std::visit(
        [this](const auto& o) {
          // The kernels know no other activations, and this device never asks for them.
          std::apply([](const auto&... tensors) { (check_activation(tensors), ...); }, o.tensors());
          cpu::run(o, context_);
        },
        op);
  }
  static void check_activation(const In&) {}
  static void check_activation(const Tensor& written) { CHECK(written.dtype == DType::f32); }
  cpu::Context& context_;
};

class CpuDevice final : public Device {
 public:
  CpuDevice(const cpu::Kernels& kernels, int num_threads) : context_(kernels, num_threads) {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} thread{})", context_.kernels.name, context_.pool.num_threads(),
                       context_.pool.num_threads() == 1 ? "" : "s");
  }

  std::optional<DeviceMemory> memory() const override { return system_memory(); }

  Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) override {
    try {
      return std::unique_ptr<Buffer>(std::make_unique<HostBuffer>(bytes));
    } catch (const std::bad_alloc&) {
      return Error{Errc::out_of_memory, fmt::format("cannot allocate {} bytes for activations", bytes)};
    }
  }

  Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape) override {
    CHECK(mapped.size() == static_cast<std::size_t>(shape.rows * shape.cols) * size_of(shape.dtype));
    std::unique_ptr<Buffer> buffer;
    if (reinterpret_cast<std::uintptr_t>(mapped.data()) % size_of(shape.dtype) == 0) {
      buffer = std::make_unique<MappedBuffer>(mapped);
    } else {  // a file may put a tensor anywhere; elements must still lie on their own size
      buffer = TRY(allocate(mapped.size()));
      std::memcpy(buffer->data(), mapped.data(), mapped.size());
    }
    Tensor tensor = shape;
    tensor.buffer = buffer.get();
    tensor.offset = 0;
    tensor.stride = shape.cols;
    adopted_.push_back(std::move(buffer));
    return tensor;
  }

  Status upload(const Tensor& to, std::span<const std::byte> bytes) override {
    const std::size_t row = row_bytes(to, bytes.size());
    for (std::int64_t r = 0; r < to.rows; ++r) {
      std::memcpy(to.address(r), bytes.data() + static_cast<std::size_t>(r) * row, row);
    }
    return {};
  }
  Status download(std::span<std::byte> bytes, const Tensor& from) override {
    const std::size_t row = row_bytes(from, bytes.size());
    for (std::int64_t r = 0; r < from.rows; ++r) {
      std::memcpy(bytes.data() + static_cast<std::size_t>(r) * row, from.address(r), row);
    }
    return {};
  }

  std::unique_ptr<Pass> begin() override { return std::make_unique<CpuPass>(context_); }

 private:
  static std::size_t row_bytes(const Tensor& t, std::size_t bytes) {
    const std::size_t row = static_cast<std::size_t>(t.cols) * size_of(t.dtype);
    CHECK(bytes == static_cast<std::size_t>(t.rows) * row);
    return row;
  }

  cpu::Context context_;
  std::vector<std::unique_ptr<Buffer>> adopted_;
};

Result<const cpu::Kernels*> choose_kernels(std::string_view name) {
  if (name.empty()) return &cpu::best_kernels();
  const cpu::Kernels* kernels = cpu::find_kernels(std::string(name).c_str());
  if (kernels == nullptr) {
    return Error{Errc::unsupported, fmt::format("cpu: this machine or build has no kernels called '{}'", name)};
  }
  return kernels;
}

}  // namespace

Result<std::unique_ptr<Device>> open_cpu_device(const CpuOptions& options) {
  const cpu::Kernels* kernels = TRY(choose_kernels(options.kernels));
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(*kernels, options.num_threads));
}

double measure_cpu_fma_peak(const CpuOptions& options, double seconds) {
  const auto kernels = choose_kernels(options.kernels);
  if (!kernels) return 0.0;
  ThreadPool pool(options.num_threads);
  constexpr std::int64_t kRounds = 1 << 20;
  const auto threads = static_cast<std::size_t>(pool.num_threads());
  std::vector<double> operations(threads * 16, 0.0);  // a cache line each
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  pool.for_each(pool.num_threads(), [&](std::int64_t, int thread) {
    float sink = 0;
    do {
      operations[static_cast<std::size_t>(thread) * 16] += (*kernels)->fma_peak(kRounds, &sink);
    } while (elapsed() < seconds);
  });
  double total = 0;
  for (const double count : operations) total += count;
  return total / elapsed();
}

}  // namespace clef
