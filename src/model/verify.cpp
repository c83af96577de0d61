#include "model/verify.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>

#include "base/mapped_file.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
#include "model/model_file.h"
#include "model/snapshot.h"
#include "model/weights_bind.h"

namespace clef {

namespace {

constexpr std::size_t kCompareBytes = std::size_t{8} << 20;  // between two calls of the progress function

enum class Values : std::uint8_t { same_bits, float32, plus_one, minus_exp };

// Where a tensor of the snapshot went: the rows of `target` from `first_row` on.
struct Place {
  std::string target;
  std::int64_t first_row = 0;
  Values values = Values::same_bits;
};

// One line of a table from the end of a snapshot's name to the end of a GGUF's.
struct Line {
  std::string_view source, target;
  std::int64_t first_row = 0;
  Values values = Values::same_bits;
};

std::optional<Place> look_up(std::span<const Line> lines, std::string_view source, const std::string& target_prefix) {
  for (const Line& line : lines) {
    if (line.source == source) return Place{target_prefix + std::string(line.target), line.first_row, line.values};
  }
  return std::nullopt;
}

// Takes "12." off the front of `name` and returns 12.
std::optional<std::int64_t> take_index(std::string_view& name) {
  std::int64_t index = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (failure != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()) + 1);
  return index;
}

bool take_prefix(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

std::optional<Place> place_in_layer(const TextConfig& c, std::int64_t layer, std::string_view name) {
  const std::int64_t q = 2 * c.num_attention_heads * c.head_dim, kv = c.num_key_value_heads * c.head_dim;
  const std::int64_t value = c.linear_num_value_heads * c.linear_value_head_dim;
  const std::int64_t conv = 2 * c.linear_num_key_heads * c.linear_key_head_dim + value;
  const Line lines[] = {
      {"input_layernorm.weight", "attn_norm.weight", 0, Values::plus_one},
      {"post_attention_layernorm.weight", "ffn_norm.weight", 0, Values::plus_one},
      {"mlp.gate_proj.weight", "ffn_gate_up.weight", 0},
      {"mlp.up_proj.weight", "ffn_gate_up.weight", c.intermediate_size},
      {"mlp.down_proj.weight", "ffn_down.weight", 0},
      {"self_attn.q_proj.weight", "attn_qkv.weight", 0},
      {"self_attn.k_proj.weight", "attn_qkv.weight", q},
      {"self_attn.v_proj.weight", "attn_qkv.weight", q + kv},
      {"self_attn.o_proj.weight", "attn_output.weight", 0},
      {"self_attn.q_norm.weight", "attn_q_norm.weight", 0, Values::plus_one},
      {"self_attn.k_norm.weight", "attn_k_norm.weight", 0, Values::plus_one},
      {"linear_attn.in_proj_qkv.weight", "ssm_in.weight", 0},
      {"linear_attn.in_proj_z.weight", "ssm_in.weight", conv},
      {"linear_attn.in_proj_b.weight", "ssm_in.weight", conv + value},
      {"linear_attn.in_proj_a.weight", "ssm_in.weight", conv + value + c.linear_num_value_heads},
      {"linear_attn.out_proj.weight", "ssm_out.weight", 0},
      {"linear_attn.conv1d.weight", "ssm_conv1d.weight", 0, Values::float32},
      {"linear_attn.A_log", "ssm_a", 0, Values::minus_exp},
      {"linear_attn.dt_bias", "ssm_dt.bias", 0, Values::float32},
      {"linear_attn.norm.weight", "ssm_norm.weight", 0, Values::float32},
  };
  return look_up(lines, name, fmt::format("blk.{}.", layer));
}

std::optional<Place> place_in_tower(std::string_view name) {
  constexpr Line kParts[] = {
      {"patch_embed.proj.weight", "patch_embd.weight", 0},
      {"patch_embed.proj.bias", "patch_embd.bias", 0, Values::float32},
      {"pos_embed.weight", "pos_embd.weight", 0},
      {"merger.norm.weight", "post_ln.weight", 0, Values::float32},
      {"merger.norm.bias", "post_ln.bias", 0, Values::float32},
      {"merger.linear_fc1.weight", "mm.0.weight", 0},
      {"merger.linear_fc1.bias", "mm.0.bias", 0, Values::float32},
      {"merger.linear_fc2.weight", "mm.2.weight", 0},
      {"merger.linear_fc2.bias", "mm.2.bias", 0, Values::float32},
  };
  constexpr Line kBlockParts[] = {
      {"norm1.weight", "ln1.weight", 0, Values::float32}, {"norm1.bias", "ln1.bias", 0, Values::float32},
      {"attn.qkv.weight", "attn_qkv.weight", 0},          {"attn.qkv.bias", "attn_qkv.bias", 0, Values::float32},
      {"attn.proj.weight", "attn_out.weight", 0},         {"attn.proj.bias", "attn_out.bias", 0, Values::float32},
      {"norm2.weight", "ln2.weight", 0, Values::float32}, {"norm2.bias", "ln2.bias", 0, Values::float32},
      {"mlp.linear_fc1.weight", "ffn_up.weight", 0},      {"mlp.linear_fc1.bias", "ffn_up.bias", 0, Values::float32},
      {"mlp.linear_fc2.weight", "ffn_down.weight", 0},    {"mlp.linear_fc2.bias", "ffn_down.bias", 0, Values::float32},
  };
  if (!take_prefix(name, "blocks.")) return look_up(kParts, name, "v.");
  const auto block = take_index(name);
  return block ? look_up(kBlockParts, name, fmt::format("v.blk.{}.", *block)) : std::nullopt;
}

std::optional<Place> place_of(const ModelConfig& config, std::string_view name) {
  if (name.starts_with("head.")) return Place{std::string(name)};
  if (name == "lm_head.weight") return Place{"output.weight"};
  if (take_prefix(name, "model.visual.")) return place_in_tower(name);
  if (!take_prefix(name, "model.language_model.")) return std::nullopt;
  if (name == "embed_tokens.weight") return Place{"token_embd.weight"};
  if (name == "norm.weight") return Place{"output_norm.weight", 0, Values::plus_one};
  if (!take_prefix(name, "layers.")) return std::nullopt;
  const auto layer = take_index(name);
  return layer ? place_in_layer(config.text, *layer, name) : std::nullopt;
}

// A tensor of the GGUF as it must be: its type, shape, and what fills which of its rows.
struct Piece {
  const FileTensor* source;
  std::int64_t first_row, rows;
  Values values;
};
struct Expected {
  DType dtype = DType::bf16;
  std::int64_t rows = 0, cols = 1;
  bool is_vector = false;
  std::vector<Piece> pieces;
  Shape shape() const { return is_vector ? Shape{rows} : Shape{rows, cols}; }
};

Result<std::map<std::string, Expected>> expected_tensors(const ModelConfig& config, const TensorTable& snapshot) {
  std::map<std::string, Expected> all;
  for (const auto& [name, tensor] : snapshot) {
    const std::optional<Place> place = place_of(config, name);
    if (!place) return Error{Errc::bad_model, fmt::format("{}: no place is known for tensor {}", tensor.file, name)};
    Expected& expected = all[place->target];
    expected.is_vector = tensor.shape.size() <= 1;
    const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape.front();
    expected.rows += rows;
    expected.cols = count_of(tensor.shape) / rows;
    expected.dtype = place->values == Values::same_bits ? DType::bf16 : DType::f32;
    expected.pieces.push_back({&tensor, place->first_row, rows, place->values});
  }
  return all;
}

float expected_value(float stored, Values values) {
  switch (values) {
    case Values::same_bits:
    case Values::float32:
      return stored;
    case Values::plus_one:
      return stored + 1.0F;
    case Values::minus_exp:
      return static_cast<float>(-std::exp(static_cast<double>(stored)));
  }
  return stored;
}

class Comparer {
 public:
  Comparer(VerifyReport& report, std::uint64_t total, const ProgressFunction& progress)
      : report_(report), total_(total), progress_(progress) {}

  void compare(const std::string& name, const Expected& expected, const FileTensor& found) {
    if (found.dtype != expected.dtype || found.shape != expected.shape()) {
      report_.differences.push_back(fmt::format("DIFFERENT {}: type {} shape {}, expected {} {}", name,
                                                name_of(found.dtype), to_string(found.shape), name_of(expected.dtype),
                                                to_string(expected.shape())));
      return;
    }
    const std::size_t row_bytes = static_cast<std::size_t>(expected.cols) * size_of(expected.dtype);
    for (const Piece& piece : expected.pieces) {
      if (piece.first_row + piece.rows > expected.rows) {
        report_.differences.push_back(fmt::format("DIFFERENT {}: too few rows", name));
        return;
      }
      const auto rows = found.bytes.subspan(static_cast<std::size_t>(piece.first_row) * row_bytes,
                                            static_cast<std::size_t>(piece.rows) * row_bytes);
      std::vector<float> folded;
      std::span<const std::byte> wanted = piece.source->bytes;
      if (piece.values != Values::same_bits) {
        folded = widen(*piece.source, Fold::none);
        for (float& value : folded) value = expected_value(value, piece.values);
        wanted = std::as_bytes(std::span(folded));
      }
      if (const auto at = first_difference(rows, wanted)) {
        const std::size_t row = static_cast<std::size_t>(piece.first_row) + *at / row_bytes;
        const std::size_t column = *at % row_bytes / size_of(expected.dtype);
        report_.differences.push_back(fmt::format("DIFFERENT {}: first at row {}, column {}", name, row, column));
        return;
      }
    }
    ++report_.num_exact;
  }

 private:
  std::optional<std::size_t> first_difference(std::span<const std::byte> a, std::span<const std::byte> b) {
    if (a.size() != b.size()) return std::min(a.size(), b.size());
    for (std::size_t first = 0; first < a.size(); first += kCompareBytes) {
      const std::size_t count = std::min(kCompareBytes, a.size() - first);
      report_.bytes_compared += count;
      if (progress_) progress_(report_.bytes_compared, total_);
      if (std::memcmp(a.data() + first, b.data() + first, count) == 0) continue;
      const auto differs = std::mismatch(a.begin() + static_cast<std::ptrdiff_t>(first), a.end(),
                                         b.begin() + static_cast<std::ptrdiff_t>(first));
      return static_cast<std::size_t>(differs.first - a.begin());
    }
    return std::nullopt;
  }

  VerifyReport& report_;
  std::uint64_t total_;
  const ProgressFunction& progress_;
};

void compare_metadata(const ModelFile& model, const GgufMetadata& metadata, std::vector<std::string>& differences) {
  if (const auto config = parse_gguf_config(metadata); !config) {
    differences.push_back(fmt::format("METADATA {}", config.error().message));
  } else if (*config != model.config) {
    differences.emplace_back("METADATA clef.*: another config than the snapshot's");
  }
  if (const auto tokenizer = parse_gguf_tokenizer(metadata); !tokenizer) {
    differences.push_back(fmt::format("METADATA {}", tokenizer.error().message));
  } else if (*tokenizer != model.tokenizer) {
    differences.emplace_back("METADATA tokenizer.*: another tokenizer than the snapshot's");
  }
}

}  // namespace

Result<VerifyReport> verify(const std::filesystem::path& snapshot, const std::filesystem::path& gguf_path,
                            const ProgressFunction& progress) {
  const ModelFile model = TRY(open_snapshot(snapshot));
  const MappedTensors source = TRY(map_snapshot_tensors(snapshot));
  const MappedFile file = TRY(MappedFile::open(gguf_path));
  const Gguf gguf = TRY(parse_gguf(gguf_path.filename().string(), file.bytes()));

  const auto expected = TRY(expected_tensors(model.config, source.tensors));
  VerifyReport report;
  report.num_expected = static_cast<std::int64_t>(expected.size());
  compare_metadata(model, gguf.metadata, report.differences);
  Comparer comparer(report, gguf.tensor_bytes, progress);
  for (const auto& [name, tensor] : expected) {
    const auto found = gguf.tensors.find(name);
    if (found == gguf.tensors.end()) {
      report.differences.push_back(fmt::format("MISSING {}", name));
    } else {
      comparer.compare(name, tensor, found->second);
    }
  }
  for (const auto& [name, tensor] : gguf.tensors) {
    if (!expected.contains(name)) report.differences.push_back(fmt::format("UNEXPECTED {}", name));
  }
  return report;
}

}  // namespace clef
