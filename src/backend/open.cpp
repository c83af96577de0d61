#include "backend/open.h"

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels/kernels.h"
#include "base/whole_number.h"

#if CLEF_WITH_CUDA
#include "backend/cuda/cuda_device.h"
#endif

namespace clef {

namespace {

constexpr std::int64_t kMostLayers = 1024;

Result<std::unique_ptr<Device>> open_cpu(const DeviceOptions& options) {
  return open_cpu_device({.num_threads = options.num_threads, .kernels = options.cpu_kernels});
}

#if CLEF_WITH_CUDA
constexpr std::string_view kDevices = "auto, cpu, cuda or cuda:N";

Result<std::unique_ptr<Device>> open_cuda(const DeviceOptions& options, int index) {
  CudaOptions cuda;
  cuda.index = index;
  cuda.num_threads = options.num_threads;
  if (options.f32_layers == "all") {
    cuda.activation = DType::f32;
  } else {
    cuda.precise_layers = whole_number(options.f32_layers, 0, kMostLayers);
  }
  return open_cuda_device(cuda);
}
bool has_gpu() {
  const auto gpus = list_cuda_gpus();
  return gpus && !gpus->empty() && gpus->front().major >= 8;
}
Result<std::vector<GpuInfo>> cuda_gpus() {
  const std::vector<CudaGpu> found = TRY(list_cuda_gpus());
  std::vector<GpuInfo> gpus;
  for (std::size_t i = 0; i < found.size(); ++i) {
    gpus.push_back({.device = fmt::format("cuda:{}", i),
                    .name = found[i].name,
                    .architecture = fmt::format("sm_{}{}", found[i].major, found[i].minor),
                    .free_bytes = found[i].free_bytes,
                    .total_bytes = found[i].total_bytes,
                    .is_usable = found[i].major >= 8});
  }
  return gpus;
}
std::string describe_cuda() {
  const auto gpus = list_cuda_gpus();
  if (!gpus) return gpus.error().message + "\n";
  std::string text;
  for (std::size_t i = 0; i < gpus->size(); ++i) {
    const CudaGpu& gpu = (*gpus)[i];
    text += fmt::format("cuda:{}: {}, sm_{}{}, {:.0f} GiB\n", i, gpu.name, gpu.major, gpu.minor,
                        static_cast<double>(gpu.total_bytes) / 0x1p30);
  }
  return text;
}
#else
constexpr std::string_view kDevices = "auto or cpu: this build has no CUDA";

Result<std::unique_ptr<Device>> open_cuda(const DeviceOptions&, int) {
  return Error{Errc::unsupported, "device: expected auto or cpu, got cuda, which this build does not have"};
}
bool has_gpu() { return false; }
Result<std::vector<GpuInfo>> cuda_gpus() { return Error{Errc::unsupported, "built without CUDA"}; }
std::string describe_cuda() { return "cuda: not in this build\n"; }
#endif

}  // namespace

Status check_f32_layers(std::string_view f32_layers) {
  if (f32_layers.empty() || f32_layers == "all" || whole_number(f32_layers, 0, kMostLayers)) return {};
  return Error{Errc::bad_request,
               fmt::format("expected a whole number from 0 to {} or all, got '{}'", kMostLayers, f32_layers)};
}

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  TRY(check_f32_layers(options.f32_layers));
  if (options.device == "cpu") return open_cpu(options);
  if (options.device == "auto") return has_gpu() ? open_cuda(options, 0) : open_cpu(options);
  if (options.device == "cuda") return open_cuda(options, 0);
  if (options.device.starts_with("cuda:")) {
    const auto index = whole_number(options.device.substr(5), 0, 1023);
    if (index) return open_cuda(options, static_cast<int>(*index));
  }
  return Error{Errc::unsupported, fmt::format("device: expected {}, got '{}'", kDevices, options.device)};
}

Result<std::vector<GpuInfo>> list_gpus() { return cuda_gpus(); }

std::string describe_backends() {
  return fmt::format("cpu: {} kernels\n{}", cpu::best_kernels().name, describe_cuda());
}

}  // namespace clef
