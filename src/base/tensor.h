// A tensor is a matrix in a buffer of some machine: rows are tokens (or token-heads), columns are features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace clef {

enum class DType : std::uint8_t { f32, f16, bf16, i32, i64, u8 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i32:
      return 4;
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

// As the model files' own headers spell it: "F32", "BF16", ...
constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::u8:
      return "U8";
  }
  return "?";
}

// Memory of one machine. Owned by whoever asked the device for it; tensors only point at it.
class Buffer {
 public:
  Buffer(void* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;
  void* data() const { return data_; }  // an address of the machine that owns it; ours to read only on the CPU
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_;
  std::size_t bytes_;
};

// A view; it owns nothing.
struct Tensor {
  Buffer* buffer = nullptr;
  std::int64_t offset = 0;  // elements from the start of the buffer
  std::int64_t rows = 0, cols = 0;
  std::int64_t stride = 0;  // columns are contiguous; rows lie `stride` elements apart
  DType dtype = DType::f32;

  explicit operator bool() const { return buffer != nullptr; }
  Tensor row_range(std::int64_t first, std::int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= rows, "rows {}+{} of {}", first, count, rows);
    Tensor t = *this;
    t.offset += first * stride;
    t.rows = count;
    return t;
  }
  Tensor col_range(std::int64_t first, std::int64_t count) const {
    CHECK(first >= 0 && count >= 0 && first + count <= cols, "columns {}+{} of {}", first, count, cols);
    Tensor t = *this;
    t.offset += first;
    t.cols = count;
    return t;
  }
  // Address of row r, whatever the type; of the machine that owns the buffer.
  std::byte* address(std::int64_t r = 0) const {
    return static_cast<std::byte*>(buffer->data()) + (offset + r * stride) * static_cast<std::int64_t>(size_of(dtype));
  }
  // Typed address of row r. Only for buffers whose memory the caller can reach.
  template <typename T>
  T* row(std::int64_t r) const {
    return static_cast<T*>(buffer->data()) + offset + r * stride;
  }
};

inline bool same_shape(const Tensor& a, const Tensor& b) { return a.rows == b.rows && a.cols == b.cols; }

}  // namespace clef
