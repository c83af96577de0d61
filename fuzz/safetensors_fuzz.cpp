// One safetensors file's bytes to its tensors.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  const auto tensors = clef::parse_safetensors("f", bytes, "p.");
  if (!tensors) return 0;
  std::size_t total = 0;
  for (const auto& [name, tensor] : *tensors) {
    CHECK(tensor.bytes.size() == static_cast<std::size_t>(clef::count_of(tensor.shape)) * clef::size_of(tensor.dtype));
    CHECK(tensor.bytes.empty() || (tensor.bytes.data() >= bytes.data() && tensor.bytes.size() <= bytes.size()));
    total += tensor.bytes.size();
  }
  CHECK(total <= size, "tensors do not share bytes");
  return 0;
}
