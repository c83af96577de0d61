#include "backend/open.h"

#include "backend/cpu/cpu_device.h"
#include "backend/cpu/kernels/kernels.h"

namespace clef {

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  if (options.device == "auto" || options.device == "cpu") {
    return open_cpu_device({.num_threads = options.num_threads, .kernels = options.cpu_kernels});
  }
  return Error{Errc::unsupported, fmt::format("device: expected auto or cpu, got '{}'", options.device)};
}

std::string describe_backends() { return fmt::format("cpu: {} kernels\n", cpu::best_kernels().name); }

}  // namespace clef
