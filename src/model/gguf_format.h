// Numbers of the GGUF format that reader and writer share.
#pragma once

#include <cstdint>
#include <optional>

#include "base/tensor.h"

namespace clef::gguf_format {

inline constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
inline constexpr std::uint32_t kVersion = 3;
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::size_t kHeaderBytes = 24;  // magic, version, number of tensors, number of keys

// ggml's numbers for the types we hold.
inline std::uint32_t ggml_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0;
    case DType::f16:
      return 1;
    case DType::bf16:
      return 30;
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  CHECK(false, "{} is not written to GGUF", name_of(dtype));
  return 0;
}

inline std::optional<DType> dtype_of(std::uint32_t ggml_type) {
  switch (ggml_type) {
    case 0:
      return DType::f32;
    case 1:
      return DType::f16;
    case 30:
      return DType::bf16;
    default:
      return std::nullopt;
  }
}

inline std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace clef::gguf_format
