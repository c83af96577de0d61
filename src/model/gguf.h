// GGUF version 3: typed metadata, a table of tensors, then their data, each aligned.
// Source: ggml's docs/gguf.md. Numbers are little-endian; dimensions are stored innermost first and turned round here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "model/tensor_table.h"

namespace clef {

enum class GgufType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string_view name_of(GgufType type);  // "u32", "string", ...

// A list where it lies in the file; the reader has walked it, so that decoding cannot fail.
struct GgufArray {
  GgufType element = GgufType::u8;
  std::uint64_t count = 0;
  std::span<const std::byte> bytes;  // of the elements

  // The elements when they are strings, or integers of any width; CHECKs that they are.
  std::vector<std::string_view> strings() const;
  std::vector<std::int64_t> integers() const;
  bool holds_integers() const;
};

struct GgufValue {
  GgufType type = GgufType::u8;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, GgufArray> value;

  const std::string_view* if_string() const { return std::get_if<std::string_view>(&value); }
  const GgufArray* if_array() const { return std::get_if<GgufArray>(&value); }
  const double* if_float() const { return std::get_if<double>(&value); }
  // Any integer type, when the value fits.
  const std::uint64_t* if_unsigned() const { return std::get_if<std::uint64_t>(&value); }
};

using GgufMetadata = std::map<std::string, GgufValue, std::less<>>;

struct Gguf {
  GgufMetadata metadata;  // views into the bytes
  TensorTable tensors;
  std::uint64_t alignment = 32;
  std::uint64_t tensor_bytes = 0;
};

// Checks every count, length and offset against the bytes there are before anything is allocated for it. Errors begin
// with `file`.
Result<Gguf> parse_gguf(std::string_view file, std::span<const std::byte> bytes);

// The metadata alone, whatever the tensors are.
Result<GgufMetadata> parse_gguf_metadata(std::string_view file, std::span<const std::byte> bytes);

// Collects metadata and tensors and lays them out; the data are written by the caller, each at its offset.
class GgufBuilder {
 public:
  void add_string(std::string_view key, std::string_view value);
  void add_u32(std::string_view key, std::uint32_t value);
  void add_f32(std::string_view key, float value);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_strings(std::string_view key, std::span<const std::string> values);
  // F32, F16 or BF16; shape outermost first, of 1 to 4 dimensions.
  void add_tensor(std::string_view name, DType dtype, const Shape& shape);

  struct Layout {
    std::string header;                  // everything before the first tensor's data, padded
    std::vector<std::uint64_t> offsets;  // of each tensor from the start of the file, in the order they were added
    std::uint64_t file_bytes = 0;        // the last tensor's end, padded to the alignment
  };
  Layout layout() const;

 private:
  void begin(std::string_view key, GgufType type);

  std::string metadata_;
  std::uint64_t num_metadata_ = 0;
  struct Entry {
    std::string name;
    DType dtype;
    Shape shape;
  };
  std::vector<Entry> tensors_;
};

}  // namespace clef
