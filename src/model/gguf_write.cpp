#include <bit>

#include "model/gguf.h"
#include "model/gguf_format.h"

namespace clef {

using namespace gguf_format;

namespace {

void put(std::string& out, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void put_string(std::string& out, std::string_view text) {
  put(out, text.size(), 8);
  out += text;
}

}  // namespace

void GgufBuilder::begin(std::string_view key, GgufType type) {
  put_string(metadata_, key);
  put(metadata_, static_cast<std::uint32_t>(type), 4);
  ++num_metadata_;
}

void GgufBuilder::add_string(std::string_view key, std::string_view value) {
  begin(key, GgufType::string);
  put_string(metadata_, value);
}

void GgufBuilder::add_u32(std::string_view key, std::uint32_t value) {
  begin(key, GgufType::u32);
  put(metadata_, value, 4);
}

void GgufBuilder::add_f32(std::string_view key, float value) {
  begin(key, GgufType::f32);
  put(metadata_, std::bit_cast<std::uint32_t>(value), 4);
}

void GgufBuilder::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  begin(key, GgufType::array);
  put(metadata_, static_cast<std::uint32_t>(GgufType::i32), 4);
  put(metadata_, values.size(), 8);
  for (const std::int32_t value : values) put(metadata_, static_cast<std::uint32_t>(value), 4);
}

void GgufBuilder::add_strings(std::string_view key, std::span<const std::string> values) {
  begin(key, GgufType::array);
  put(metadata_, static_cast<std::uint32_t>(GgufType::string), 4);
  put(metadata_, values.size(), 8);
  for (const std::string& value : values) put_string(metadata_, value);
}

void GgufBuilder::add_tensor(std::string_view name, DType dtype, const Shape& shape) {
  CHECK(!shape.empty() && shape.size() <= 4, "{} has {} dimensions", name, shape.size());
  tensors_.push_back({std::string(name), dtype, shape});
}

GgufBuilder::Layout GgufBuilder::layout() const {
  Layout out;
  put(out.header, kMagic, 4);
  put(out.header, kVersion, 4);
  put(out.header, tensors_.size(), 8);
  put(out.header, num_metadata_, 8);
  out.header += metadata_;
  std::uint64_t offset = 0;
  for (const Entry& tensor : tensors_) {
    put_string(out.header, tensor.name);
    put(out.header, tensor.shape.size(), 4);
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      put(out.header, static_cast<std::uint64_t>(*size), 8);
    }
    put(out.header, ggml_type(tensor.dtype), 4);
    put(out.header, offset, 8);
    out.offsets.push_back(offset);
    const std::uint64_t bytes = static_cast<std::uint64_t>(count_of(tensor.shape)) * size_of(tensor.dtype);
    offset = round_up(offset + bytes, kDefaultAlignment);
  }
  out.header.resize(round_up(out.header.size(), kDefaultAlignment), '\0');
  for (std::uint64_t& first : out.offsets) first += out.header.size();
  out.file_bytes = out.header.size() + offset;
  return out;
}

}  // namespace clef
