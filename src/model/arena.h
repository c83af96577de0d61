// Device memory handed out piece by piece: weights that are not mapped, and the scratch of forward passes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/device.h"

namespace clef {

// One buffer, cut into matrices; reset() takes them all back. Grows between resets only.
class Arena {
 public:
  explicit Arena(Device& device) : device_(device) {}

  // Makes room for `bytes` in all; what was taken before is gone. Errc::out_of_memory.
  Status reset(std::size_t bytes);
  // The next matrix, rows contiguous. Room for it must have been made.
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32);
  // What `take` of these needs, alignment included.
  static std::size_t bytes_for(std::int64_t rows, std::int64_t cols, DType dtype = DType::f32);

  // Where the next matrix will start, and back to such a place: matrices whose lives do not meet share memory.
  std::size_t mark() const { return used_; }
  void rewind(std::size_t mark) { used_ = mark; }

 private:
  Device& device_;
  std::unique_ptr<Buffer> buffer_;
  std::size_t used_ = 0;
};

// A device's copy of small host tables; owns its memory.
class DeviceTables {
 public:
  explicit DeviceTables(Device& device) : device_(device) {}
  // What was made before is gone; its memory may serve again. Nothing may be at work with it. Tables of so many bytes
  // in all, each in whole Arena::bytes_for(), wait for finish() and travel together; what goes beyond, at once.
  Status start(std::size_t together);
  Result<Tensor> floats(std::span<const float> values, std::int64_t cols);  // [values / cols, cols]
  Result<Tensor> ints(std::span<const std::int32_t> values, std::int64_t cols);
  // One under the other.
  Result<Tensor> levels(std::span<const std::span<const std::uint8_t>> parts, std::int64_t cols);
  Status finish();

 private:
  Result<Tensor> make(std::int64_t rows, std::int64_t cols, DType dtype);
  Result<Tensor> put(std::span<const std::byte> bytes, std::int64_t rows, std::int64_t cols, DType dtype);
  Device& device_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::unique_ptr<Buffer> shared_;  // of the tables that travel together
  std::vector<std::byte> waiting_;
};

}  // namespace clef
