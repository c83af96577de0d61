#include "backend/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cuda/context.h"
#include "backend/cuda/rehearsal.h"
#include "backend/cuda/run.h"
#include "backend/cuda/upload.h"

namespace clef {

namespace cuda {

Workspace::~Workspace() {
  if (memory_ != nullptr) cudaFreeAsync(memory_, stream_);
}

cudaError_t Workspace::get(std::size_t bytes, void** memory) {
  if (bytes > bytes_) {
    if (memory_ != nullptr) cudaFreeAsync(memory_, stream_);
    memory_ = nullptr;
    bytes_ = 0;
    if (const cudaError_t error = cudaMallocAsync(&memory_, bytes, stream_); error != cudaSuccess) {
      memory_ = nullptr;
      return error;
    }
    bytes_ = bytes;
  }
  *memory = memory_;
  return cudaSuccess;
}

namespace {

Status to_status(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // what can be cleared is; a lost context stays lost
  const Errc code = error == cudaErrorMemoryAllocation ? Errc::out_of_memory : Errc::device;
  return Error{code, fmt::format("cuda: {}: {}", what, cudaGetErrorString(error))};
}

}  // namespace

void Context::check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) check(to_status(error, what));
}
Handover Context::next_handover() {
  auto* sums = handovers.get<float>(Handover::kSums + Handover::kMarks, *this);
  if (failed()) return {};
  auto* marks = reinterpret_cast<unsigned*>(sums + Handover::kSums);
  if (num_handovers == 0 || num_handovers == std::numeric_limits<unsigned>::max()) {  // no number comes again
    num_handovers = 0;
    check(cudaMemsetAsync(marks, 0, Handover::kMarks * sizeof(unsigned), stream), "marks of a product");
  }
  return {.sums = sums, .marks = marks, .launch = ++num_handovers};
}

void Context::check(Status result) {
  if (status && !result) status = std::move(result);
}

}  // namespace cuda

namespace {

using cuda::to_status;

struct DeviceBuffer final : Buffer {
  DeviceBuffer(void* data, std::size_t bytes, cudaStream_t stream_) : Buffer(data, bytes), stream(stream_) {}
  ~DeviceBuffer() override { cudaFreeAsync(data(), stream); }
  cudaStream_t stream;
};

class CudaPass final : public Pass {
 public:
  explicit CudaPass(cuda::Context& context) : context_(context) { context_.status = {}; }
  Status finish() override {
    context_.check(cudaStreamSynchronize(context_.stream), "a forward pass");
    return context_.status;
  }

 private:
  void encode(const Op& op) override {
    if (context_.failed()) return;
    std::visit([this](const auto& o) { cuda::run(o, context_); }, op);
  }
  cuda::Context& context_;
};

// Tables on their way to the device: copied to pinned memory, so that the caller need not wait. And pinned memory for
// small results on their way back.
class Staging {
 public:
  Staging(cudaStream_t stream, ThreadPool& pool) : stream_(stream), pool_(pool) {}
  ~Staging() {
    for (std::byte* memory : {memory_, landing_}) {
      if (memory != nullptr) cudaFreeHost(memory);
    }
  }
  // None for so many.
  Result<std::byte*> landing(std::size_t bytes) {
    if (bytes > kLandingBytes) return nullptr;
    if (landing_ == nullptr) {
      TRY(to_status(cudaMallocHost(reinterpret_cast<void**>(&landing_), kLandingBytes), "pinned memory"));
    }
    return landing_;
  }
  Status send(void* to, std::span<const std::byte> bytes) {
    if (memory_ == nullptr) {
      TRY(to_status(cudaMallocHost(reinterpret_cast<void**>(&memory_), kBytes), "pinned memory"));
    }
    while (!bytes.empty()) {
      if (used_ == kBytes) {
        TRY(to_status(cudaStreamSynchronize(stream_), "upload"));
        used_ = 0;
      }
      const std::size_t count = std::min(bytes.size(), kBytes - used_);
      pin(bytes.first(count));
      TRY(to_status(cudaMemcpyAsync(to, memory_ + used_, count, cudaMemcpyHostToDevice, stream_), "upload"));
      used_ += count;
      to = static_cast<std::byte*>(to) + count;
      bytes = bytes.subspan(count);
    }
    return {};
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{16} << 20, kSlice = std::size_t{512} << 10;
  static constexpr std::size_t kLandingBytes = std::size_t{64} << 10;
  // An image's pixels are some megabytes, for which one thread takes a millisecond. The pool is woken once: that takes
  // a tenth of it.
  void pin(std::span<const std::byte> bytes) {
    const auto slices = static_cast<std::int64_t>((bytes.size() + kSlice - 1) / kSlice);
    const auto copy = [&](std::int64_t slice, int /*thread*/) {
      const std::size_t first = static_cast<std::size_t>(slice) * kSlice;
      std::memcpy(memory_ + used_ + first, bytes.data() + first, std::min(kSlice, bytes.size() - first));
    };
    if (slices > 2) return pool_.for_each(slices, copy);
    for (std::int64_t slice = 0; slice < slices; ++slice) copy(slice, 0);
  }
  cudaStream_t stream_;
  ThreadPool& pool_;
  std::byte *memory_ = nullptr, *landing_ = nullptr;
  std::size_t used_ = 0;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaOptions& options, cudaStream_t stream, std::string name)
      : options_(options),
        name_(std::move(name)),
        stream_(stream),
        context_(std::make_unique<cuda::Context>(stream)),
        upload_(std::make_unique<cuda::WeightUpload>(stream, options.num_threads)),
        staging_(std::make_unique<Staging>(stream, upload_->pool())) {}
  ~CudaDevice() override {
    staging_.reset();
    upload_.reset();
    context_.reset();
    cudaStreamDestroy(stream_);
  }

  cuda::Context& context() { return *context_; }
  std::string name() const override { return name_; }
  std::string notes() const override {
    const cuda::UploadReport& report = upload_->report();
    std::string text = fmt::format("{:.2f} GB of weights as FP16; {} of {} values rounded",
                                   static_cast<double>(report.bytes) / 1e9, report.rounded, report.values);
    if (report.low_bytes > 0) text += fmt::format("; {:.2f} GB as E4M3", static_cast<double>(report.low_bytes) / 1e9);
    return text;
  }
  DType activation_dtype() const override { return options_.activation; }
  std::optional<std::int64_t> precise_layers() const override { return options_.precise_layers; }
  // Where the products are our own.
  bool has_low_parts() const override { return context_->is_hopper && options_.activation == DType::f16; }

  std::optional<DeviceMemory> memory() const override {
    DeviceMemory memory{.free_bytes = 0, .total_bytes = 0, .is_firm = true};
    if (!make_current() || cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes) != cudaSuccess) return std::nullopt;
    return memory;
  }
  std::size_t adopted_bytes(const Tensor& shape) const override { return cuda::WeightUpload::placed_bytes(shape); }
  std::size_t adopted_low_bytes(const Tensor& weight) const override {
    return cuda::WeightUpload::placed_low_bytes(weight);
  }
  void expect_weights(std::size_t bytes) override { upload_->expect(bytes); }
  std::unique_ptr<Pass> rehearse(std::size_t& bytes) override { return cuda::rehearse(bytes, context_->is_hopper); }

  Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) override {
    TRY(make_current());
    void* memory = nullptr;
    if (const cudaError_t error = cudaMallocAsync(&memory, bytes, stream_); error != cudaSuccess) {
      Error failure = to_status(error, "").error();
      std::size_t free = 0, total = 0;
      cudaMemGetInfo(&free, &total);
      failure.message = fmt::format("{}: no {:.1f} MiB for activations, {:.1f} of {:.1f} MiB free: {}", name_,
                                    static_cast<double>(bytes) / 0x1p20, static_cast<double>(free) / 0x1p20,
                                    static_cast<double>(total) / 0x1p20, cudaGetErrorString(error));
      return failure;
    }
    return std::unique_ptr<Buffer>(std::make_unique<DeviceBuffer>(memory, bytes, stream_));
  }

  Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape) override {
    TRY(make_current());
    return upload_->adopt(mapped, shape);
  }

  Status adopt_low(const Tensor& weight) override {
    TRY(make_current());
    return upload_->adopt_low(weight);
  }

  Status upload(const Tensor& to, std::span<const std::byte> bytes) override {
    TRY(make_current());
    const std::size_t row = static_cast<std::size_t>(to.cols) * size_of(to.dtype);
    CHECK(bytes.size() == static_cast<std::size_t>(to.rows) * row);
    if (to.stride == to.cols || to.rows <= 1) return staging_->send(to.address(), bytes);
    for (std::int64_t r = 0; r < to.rows; ++r) {
      TRY(staging_->send(to.address(r), bytes.subspan(static_cast<std::size_t>(r) * row, row)));
    }
    return {};
  }

  Status download(std::span<std::byte> bytes, const Tensor& from) override {
    TRY(make_current());
    const std::size_t row = static_cast<std::size_t>(from.cols) * size_of(from.dtype);
    CHECK(bytes.size() == static_cast<std::size_t>(from.rows) * row);
    if (bytes.empty()) return {};
    // To memory that is not pinned a copy is made in steps that the host takes part in.
    std::byte* const landing = TRY(staging_->landing(bytes.size()));
    TRY(to_status(cudaMemcpy2DAsync(landing == nullptr ? bytes.data() : landing, row, from.address(),
                                    static_cast<std::size_t>(from.stride) * size_of(from.dtype), row,
                                    static_cast<std::size_t>(from.rows), cudaMemcpyDeviceToHost, stream_),
                  "download"));
    TRY(to_status(cudaStreamSynchronize(stream_), "download"));
    if (landing != nullptr) std::memcpy(bytes.data(), landing, bytes.size());
    return {};
  }

  std::unique_ptr<Pass> begin() override {
    context_->check(make_current());
    if (!has_begun_) upload_->release_staging();
    has_begun_ = true;
    return std::make_unique<CudaPass>(*context_);
  }

  // An error that broke the context comes back from every call; others are forgotten once they were read.
  bool is_lost() override {
    if (!make_current()) return true;
    (void)cudaGetLastError();
    const cudaError_t state = cudaStreamQuery(stream_);
    return state != cudaSuccess && state != cudaErrorNotReady;
  }

 private:
  // CUDA's current device belongs to the thread, and any thread may call.
  Status make_current() const { return to_status(cudaSetDevice(options_.index), "device"); }

  CudaOptions options_;
  std::string name_;
  cudaStream_t stream_;
  std::unique_ptr<cuda::Context> context_;
  std::unique_ptr<cuda::WeightUpload> upload_;
  std::unique_ptr<Staging> staging_;
  bool has_begun_ = false;
};

constexpr int kOldestMajor = 8;  // Ampere: the first with the matrix instructions that the kernels are written in

}  // namespace

Result<std::vector<CudaGpu>> list_cuda_gpus() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    (void)cudaGetLastError();
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
      return Error{Errc::unsupported, "cuda: no GPU can be used: there is no NVIDIA driver"};
    }
    return Error{
        Errc::unsupported,
        fmt::format("cuda: no GPU can be used: {} (driver for CUDA {}.{}, built with {}.{})", cudaGetErrorString(error),
                    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10)};
  }
  std::vector<CudaGpu> gpus;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    TRY(to_status(cudaGetDeviceProperties(&properties, i), "device"));
    CudaGpu& gpu = gpus.emplace_back();
    gpu.name = properties.name;
    gpu.major = properties.major;
    gpu.minor = properties.minor;
    gpu.total_bytes = properties.totalGlobalMem;
    gpu.free_bytes = gpu.total_bytes;
  }
  return gpus;
}

Result<std::unique_ptr<Device>> open_cuda_device(const CudaOptions& options) {
  const std::vector<CudaGpu> gpus = TRY(list_cuda_gpus());
  if (options.index < 0 || static_cast<std::size_t>(options.index) >= gpus.size()) {
    return Error{Errc::unsupported,
                 fmt::format("cuda:{}: expected one of the {} GPUs of this machine", options.index, gpus.size())};
  }
  const CudaGpu& gpu = gpus[static_cast<std::size_t>(options.index)];
  if (gpu.major < kOldestMajor) {
    return Error{Errc::unsupported, fmt::format("cuda:{}: {} has compute capability {}.{}: expected {}.0 or later",
                                                options.index, gpu.name, gpu.major, gpu.minor, kOldestMajor)};
  }
  TRY(to_status(cudaSetDevice(options.index), "device"));
  // Memory that was given back is kept for the next request.
  cudaMemPool_t memory_pool = nullptr;
  TRY(to_status(cudaDeviceGetDefaultMemPool(&memory_pool, options.index), "memory pool"));
  std::uint64_t keep = UINT64_MAX;
  TRY(to_status(cudaMemPoolSetAttribute(memory_pool, cudaMemPoolAttrReleaseThreshold, &keep), "memory pool"));
  cudaStream_t stream = nullptr;
  TRY(to_status(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
  std::string name = fmt::format("cuda:{} ({}, sm_{}{}, {:.0f} GiB)", options.index, gpu.name, gpu.major, gpu.minor,
                                 static_cast<double>(gpu.total_bytes) / 0x1p30);
  auto device = std::make_unique<CudaDevice>(options, stream, std::move(name));
  device->context().is_hopper = gpu.major == 9;
  if (gpu.major != 9) TRY(device->context().matmul.open());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace clef
