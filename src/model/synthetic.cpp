#include "model/synthetic.h"

#include <cmath>

#include "base/bf16.h"
#include "model/json_fields.h"
#include "text/json.h"

namespace clef {

namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;  // splitmix64's increment

std::uint64_t fnv1a64(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

// The last part of a dotted name, and the one before it.
std::string_view leaf_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view parent_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : leaf_of(name.substr(0, dot));
}

}  // namespace

Result<SyntheticOptions> parse_synthetic_options(std::string_view json) {
  const Json document = TRY(parse_json_file("synthetic.json", json));
  const JsonFields fields = TRY(JsonFields::of("synthetic.json", document));
  SyntheticOptions options;
  options.salt = TRY(fields.string_or("salt", ""));
  if (!fields.has("overrides")) return options;
  const JsonFields overrides = TRY(fields.object("overrides"));
  for (const auto& [leaf, value] : overrides.members()) {
    const std::vector<double> pair = TRY(overrides.numbers(leaf));
    if (pair.size() != 2) return overrides.error(leaf, "two numbers, offset and scale");
    options.overrides[leaf] = {static_cast<float>(pair[0]), static_cast<float>(pair[1])};
  }
  return options;
}

SyntheticScale synthetic_scale(std::string_view name, std::span<const std::int64_t> shape,
                               const SyntheticOptions& options) {
  const std::string_view leaf = leaf_of(name), parent = parent_of(name);
  if (const auto found = options.overrides.find(leaf); found != options.overrides.end()) return found->second;
  if (leaf == "A_log") return {1.4F, 1.3F};
  if (leaf == "dt_bias") return {-3.0F, 1.5F};
  if (leaf == "prior_logit_scale") return {2.5F, 0.0F};
  if (leaf == "joint_logit_scale") return {1.5F, 0.0F};
  if (leaf == "residual_gate") return {0.5F, 0.0F};
  if (leaf == "bias" || leaf == "in_proj_bias") return {0.0F, 0.1F};
  if (parent == "conv1d") return {0.1F, 0.4F};
  if (name.ends_with("linear_attn.norm.weight")) return {1.0F, 0.2F};
  if (shape.size() == 1) {
    const bool zero_centred = name.starts_with("model.language_model.") || name.starts_with("mtp.");
    return {zero_centred ? 0.0F : 1.0F, 0.2F};
  }
  const bool is_table = name.find("embed_tokens") != std::string_view::npos ||
                        name.find("lm_head") != std::string_view::npos || parent == "type_embedding" ||
                        parent == "pos_embed";
  if (is_table) return {0.0F, 0.5F};
  double fan_in = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= static_cast<double>(shape[i]);
  return {0.0F, static_cast<float>(std::sqrt(3.0 / fan_in))};
}

SyntheticTensor::SyntheticTensor(std::string_view name, std::span<const std::int64_t> shape,
                                 const SyntheticOptions& options)
    : hash_(fnv1a64(name, fnv1a64(options.salt))), scale_(synthetic_scale(name, shape, options)) {}

void SyntheticTensor::fill(std::int64_t first, std::span<std::uint16_t> out) const {
  const std::uint64_t base = hash_ + (static_cast<std::uint64_t>(first) + 1) * kGolden;
  const float offset = scale_.offset, scale = scale_.scale;
  const std::size_t count = out.size();
  std::uint16_t* values = out.data();
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t z = base + i * kGolden;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    z ^= z >> 31;
    // 24 bits fit a signed 32-bit integer, whose conversion every instruction set has.
    const auto bits = static_cast<std::int32_t>(z >> 40);
    const float u = static_cast<float>(bits) * 0x1p-23F - 1.0F;
    values[i] = f32_to_bf16(offset + scale * u);
  }
}

}  // namespace clef
