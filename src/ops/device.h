// One machine that can run ops: it owns memory, gives weights its own form, and begins passes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "ops/pass.h"

namespace clef {

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual std::string name() const = 0;  // for people: "cpu (avx512, 2 threads)"

  // What it has to say of the weights it was given, a line or none.
  virtual std::string notes() const { return {}; }

  // What activations between a layer's products are stored as.
  virtual DType activation_dtype() const { return DType::f32; }
  // In how many of a model's first layers they are f32 all the same, for accuracy.
  virtual std::int64_t precise_layers() const { return 0; }

  // Memory that is not cleared. Errc::out_of_memory.
  virtual Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) = 0;

  // Gives a weight in mapped host memory this machine's own form, once. `shape` holds rows, cols and dtype. The mapping
  // must outlive the device: a machine that can read it in place makes no copy.
  virtual Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape) = 0;

  // Copies between the host, row by row without gaps, and a tensor. bytes.size() is rows * cols elements. A download
  // waits for what the device was given to do.
  virtual Status upload(const Tensor& to, std::span<const std::byte> bytes) = 0;
  virtual Status download(std::span<std::byte> bytes, const Tensor& from) = 0;

  virtual std::unique_ptr<Pass> begin() = 0;
};

}  // namespace clef
