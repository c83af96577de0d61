#include "model/weights_bind.h"

#include <cmath>
#include <cstring>
#include <set>
#include <type_traits>

#include "base/bf16.h"
#include "base/f16.h"

namespace clef {

namespace {

float load(const std::byte* data, DType dtype) {
  std::uint16_t half = 0;
  float value = 0;
  switch (dtype) {
    case DType::f32:
      std::memcpy(&value, data, sizeof value);
      return value;
    case DType::bf16:
      std::memcpy(&half, data, sizeof half);
      return bf16_to_f32(half);
    case DType::f16:
      std::memcpy(&half, data, sizeof half);
      return f16_to_f32(half);
    case DType::i32:
    case DType::i64:
    case DType::u8:
      break;
  }
  CHECK(false, "{} is no floating-point type", name_of(dtype));
  return 0;
}

float apply(Fold fold, float value) {
  switch (fold) {
    case Fold::none:
      return value;
    case Fold::one_plus:
      return 1.0F + value;
    case Fold::neg_exp:
      return static_cast<float>(-std::exp(static_cast<double>(value)));
  }
  return value;
}

bool holds(Storage storage, DType dtype) {
  switch (storage) {
    case Storage::any_float:
      return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
    case Storage::bf16:
      return dtype == DType::bf16;
    case Storage::f32:
      return dtype == DType::f32;
  }
  return false;
}

std::string_view words(Storage storage) {
  switch (storage) {
    case Storage::any_float:
      return "BF16, F16 or F32";
    case Storage::bf16:
      return "BF16";
    case Storage::f32:
      return "F32";
  }
  return "";
}

Status check(const std::string& name, const FileTensor& tensor, const Binding& binding) {
  if (!holds(binding.storage, tensor.dtype) || tensor.shape != binding.shape) {
    return Error{Errc::bad_model, fmt::format("{}: model: tensor {} has type {} shape {}, expected {} {}", tensor.file,
                                              name, name_of(tensor.dtype), to_string(tensor.shape),
                                              words(binding.storage), to_string(binding.shape))};
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % size_of(tensor.dtype) != 0) {
    return Error{Errc::bad_model, fmt::format("{}: model: tensor {} is not aligned to its {} values", tensor.file, name,
                                              name_of(tensor.dtype))};
  }
  return {};
}

void assign(const FileTensor& tensor, const ToMatrices& target) {
  const std::int64_t cols = count_of(tensor.shape) / tensor.shape.front();  // a convolution's weight is flattened
  std::size_t offset = 0;
  for (const auto& [matrix, rows] : target.parts) {
    const std::size_t bytes = static_cast<std::size_t>(rows * cols) * size_of(tensor.dtype);
    *matrix = {.dtype = tensor.dtype, .rows = rows, .cols = cols, .bytes = tensor.bytes.subspan(offset, bytes)};
    offset += bytes;
  }
  CHECK(offset == tensor.bytes.size());
}

void assign(const FileTensor& tensor, const ToVectors& target) {
  const std::vector<float> all = widen(tensor, target.fold);
  std::int64_t first = 0;
  for (const auto& [values, count] : target.parts) {
    values->assign(all.begin() + first, all.begin() + first + count);
    first += count;
  }
  CHECK(first == static_cast<std::int64_t>(all.size()));
}

void assign(const FileTensor& tensor, const ToTapMajor& target) {
  const std::vector<float> stored = widen(tensor, Fold::none);
  const std::size_t taps = static_cast<std::size_t>(target.taps), channels = stored.size() / taps;
  target.values->resize(stored.size());
  for (std::size_t channel = 0; channel < channels; ++channel) {
    for (std::size_t tap = 0; tap < taps; ++tap) {
      (*target.values)[tap * channels + channel] = stored[channel * taps + tap];
    }
  }
}

void assign(const FileTensor& tensor, const ToScalar& target) {
  *target.value = load(tensor.bytes.data(), tensor.dtype);
}

}  // namespace

Binding matrix(std::string name, MappedMatrix& field, std::int64_t rows, std::int64_t cols) {
  return fused(std::move(name), {{&field, rows}}, cols);
}

Binding fused(std::string name, std::vector<MatrixRows> parts, std::int64_t cols) {
  std::int64_t rows = 0;
  for (const MatrixRows& part : parts) rows += part.rows;
  return {.name = std::move(name), .shape = {rows, cols}, .target = ToMatrices{std::move(parts)}};
}

Binding vector(std::string name, std::vector<float>& field, std::int64_t count, Fold fold) {
  return {.name = std::move(name), .shape = {count}, .target = ToVectors{{{&field, count}}, fold}};
}

std::vector<float> widen(const FileTensor& tensor, Fold fold) {
  const std::size_t size = size_of(tensor.dtype), count = tensor.bytes.size() / size;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = apply(fold, load(tensor.bytes.data() + i * size, tensor.dtype));
  return values;
}

void size_layers(const ModelConfig& config, ModelWeights& weights) {
  weights.layers.resize(config.text.layer_types.size());
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    auto& mixer = weights.layers[i].mixer;
    const bool is_attention = config.text.layer_types[i] == LayerType::full_attention;
    if (is_attention == std::holds_alternative<AttentionWeights>(mixer)) continue;
    if (is_attention) {
      mixer.emplace<AttentionWeights>();
    } else {
      mixer.emplace<DeltaNetWeights>();
    }
  }
  weights.vision.blocks.resize(config.vision ? static_cast<std::size_t>(config.vision->depth) : 0);
  weights.head.evidence_layers.resize(static_cast<std::size_t>(config.head.routing_layers));
  weights.head.layers.resize(static_cast<std::size_t>(config.head.layers));
}

Status bind(std::string_view label, const TensorTable& table, const std::vector<Binding>& bindings) {
  std::set<std::string_view> known;
  for (const Binding& binding : bindings) {
    known.insert(binding.name);
    const auto found = table.find(binding.name);
    if (found == table.end()) {
      return Error{Errc::bad_model, fmt::format("{}: model: missing tensor {}", label, binding.name)};
    }
    TRY(check(found->first, found->second, binding));
    std::visit([&](const auto& target) { assign(found->second, target); }, binding.target);
  }
  for (const auto& [name, tensor] : table) {
    if (!known.contains(name)) {
      return Error{Errc::bad_model, fmt::format("{}: model: unexpected tensor {}", tensor.file, name)};
    }
  }
  return {};
}

}  // namespace clef
