// One machine that can run ops: it owns memory, gives weights its own form, and begins passes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/tensor.h"
#include "ops/pass.h"

namespace clef {

// A machine's memory at a moment.
struct DeviceMemory {
  std::size_t free_bytes = 0, total_bytes = 0;
  bool is_firm = false;  // no more than what is free can be had; a host's system may still make room
};

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
  // In how many of a model's first layers they are f32 all the same, for accuracy. None: as many as the model likes.
  virtual std::optional<std::int64_t> precise_layers() const { return std::nullopt; }

  // Whether its products would rather take those layers' activations as f16 with a low part (ops/low_part.h).
  virtual bool has_low_parts() const { return false; }

  // None where nobody can tell.
  virtual std::optional<DeviceMemory> memory() const { return std::nullopt; }
  // What adopt() will take for a weight of this shape, beside its mapping.
  virtual std::size_t adopted_bytes(const Tensor& /*shape*/) const { return 0; }
  // What adopt_low() will take.
  virtual std::size_t adopted_low_bytes(const Tensor& /*weight*/) const { return 0; }
  // So many bytes of weights will be adopted: room for all of them may be taken at once.
  virtual void expect_weights(std::size_t /*bytes*/) {}
  // A pass that computes nothing: it raises `bytes` to what its ops would take beside their tensors. The tensors need
  // no memory.
  virtual std::unique_ptr<Pass> rehearse(std::size_t& bytes);

  // Memory that is not cleared. Errc::out_of_memory.
  virtual Result<std::unique_ptr<Buffer>> allocate(std::size_t bytes) = 0;

  // Gives a weight in mapped host memory this machine's own form, once. `shape` holds rows, cols and dtype. The mapping
  // must outlive the device: a machine that can read it in place makes no copy.
  virtual Result<Tensor> adopt(std::span<const std::byte> mapped, const Tensor& shape) = 0;

  // Prepares a weight that was adopted for inputs with a low part. Those that are so prepared one after another stay
  // together, as adopted ones do.
  virtual Status adopt_low(const Tensor& /*weight*/) { return {}; }

  // Copies between the host, row by row without gaps, and a tensor. bytes.size() is rows * cols elements. A download
  // waits for what the device was given to do.
  virtual Status upload(const Tensor& to, std::span<const std::byte> bytes) = 0;
  virtual Status download(std::span<std::byte> bytes, const Tensor& from) = 0;

  virtual std::unique_ptr<Pass> begin() = 0;

  // After a failure: whether whatever else it is asked for will fail too.
  virtual bool is_lost() { return false; }
};

}  // namespace clef
