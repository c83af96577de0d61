#include "model/convert.h"

#include <algorithm>
#include <optional>

#include "base/output_file.h"
#include "model/convert_metadata.h"
#include "model/gguf.h"
#include "model/model_file.h"
#include "model/snapshot.h"
#include "model/weights_bind.h"

namespace clef {

namespace {

constexpr std::size_t kWriteBytes = std::size_t{8} << 20;  // between two calls of the progress function

// How a tensor of the GGUF comes from tensors of the snapshot.
struct Rule {
  std::string name;                 // in the GGUF
  std::vector<std::string> inputs;  // in the snapshot; several are stacked by rows
  std::optional<Fold> fold = {};    // written as float32, folded; none: BF16 bytes as they are
};

using Rules = std::vector<Rule>;

void add_layer(Rules& rules, std::size_t layer, LayerType type) {
  const std::string out = fmt::format("blk.{}.", layer), in = fmt::format("model.language_model.layers.{}.", layer);
  const std::string mlp = in + "mlp.", mixer = in + (type == LayerType::full_attention ? "self_attn." : "linear_attn.");
  rules.push_back({out + "attn_norm.weight", {in + "input_layernorm.weight"}, Fold::one_plus});
  rules.push_back({out + "ffn_norm.weight", {in + "post_attention_layernorm.weight"}, Fold::one_plus});
  rules.push_back({out + "ffn_gate_up.weight", {mlp + "gate_proj.weight", mlp + "up_proj.weight"}});
  rules.push_back({out + "ffn_down.weight", {mlp + "down_proj.weight"}});
  if (type == LayerType::full_attention) {
    rules.push_back(
        {out + "attn_qkv.weight", {mixer + "q_proj.weight", mixer + "k_proj.weight", mixer + "v_proj.weight"}});
    rules.push_back({out + "attn_output.weight", {mixer + "o_proj.weight"}});
    rules.push_back({out + "attn_q_norm.weight", {mixer + "q_norm.weight"}, Fold::one_plus});
    rules.push_back({out + "attn_k_norm.weight", {mixer + "k_norm.weight"}, Fold::one_plus});
    return;
  }
  rules.push_back({out + "ssm_in.weight",
                   {mixer + "in_proj_qkv.weight", mixer + "in_proj_z.weight", mixer + "in_proj_b.weight",
                    mixer + "in_proj_a.weight"}});
  rules.push_back({out + "ssm_out.weight", {mixer + "out_proj.weight"}});
  rules.push_back({out + "ssm_conv1d.weight", {mixer + "conv1d.weight"}, Fold::none});
  rules.push_back({out + "ssm_dt.bias", {mixer + "dt_bias"}, Fold::none});
  rules.push_back({out + "ssm_a", {mixer + "A_log"}, Fold::neg_exp});
  rules.push_back({out + "ssm_norm.weight", {mixer + "norm.weight"}, Fold::none});
}

void add_vision_part(Rules& rules, const std::string& out, const std::string& in, std::optional<Fold> weight) {
  rules.push_back({"v." + out + ".weight", {"model.visual." + in + ".weight"}, weight});
  rules.push_back({"v." + out + ".bias", {"model.visual." + in + ".bias"}, Fold::none});
}

void add_vision(Rules& rules, std::int64_t depth) {
  add_vision_part(rules, "patch_embd", "patch_embed.proj", {});
  rules.push_back({"v.pos_embd.weight", {"model.visual.pos_embed.weight"}});
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::string out = fmt::format("blk.{}.", i), in = fmt::format("blocks.{}.", i);
    add_vision_part(rules, out + "ln1", in + "norm1", Fold::none);
    add_vision_part(rules, out + "attn_qkv", in + "attn.qkv", {});
    add_vision_part(rules, out + "attn_out", in + "attn.proj", {});
    add_vision_part(rules, out + "ln2", in + "norm2", Fold::none);
    add_vision_part(rules, out + "ffn_up", in + "mlp.linear_fc1", {});
    add_vision_part(rules, out + "ffn_down", in + "mlp.linear_fc2", {});
  }
  add_vision_part(rules, "post_ln", "merger.norm", Fold::none);
  add_vision_part(rules, "mm.0", "merger.linear_fc1", {});
  add_vision_part(rules, "mm.2", "merger.linear_fc2", {});
}

Rules conversion_rules(const ModelConfig& config, const TensorTable& tensors) {
  Rules rules;
  rules.push_back({"token_embd.weight", {"model.language_model.embed_tokens.weight"}});
  for (std::size_t i = 0; i < config.text.layer_types.size(); ++i) add_layer(rules, i, config.text.layer_types[i]);
  rules.push_back({"output_norm.weight", {"model.language_model.norm.weight"}, Fold::one_plus});
  rules.push_back({"output.weight", {"lm_head.weight"}});
  if (config.vision) add_vision(rules, config.vision->depth);
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with("head.")) rules.push_back({name, {name}});
  }
  return rules;
}

// Shape in the GGUF: inputs stacked, a convolution's kernel dimensions joined, scalars as one value.
Shape shape_of(const Rule& rule, const TensorTable& tensors) {
  const Shape& first = tensors.find(rule.inputs.front())->second.shape;
  if (first.empty()) return {1};
  if (first.size() == 1) return first;
  std::int64_t rows = 0;
  for (const std::string& input : rule.inputs) rows += tensors.find(input)->second.shape.front();
  return {rows, count_of(first) / first.front()};
}

Status check_inputs(const Rules& rules, const TensorTable& tensors) {
  std::size_t num_inputs = 0;
  for (const Rule& rule : rules) {
    num_inputs += rule.inputs.size();
    for (const std::string& name : rule.inputs) {
      const auto found = tensors.find(name);
      CHECK(found != tensors.end(), "{} was bound before", name);
      const FileTensor& tensor = found->second;
      if (rule.fold || tensor.dtype == DType::bf16) continue;
      return Error{Errc::unsupported, fmt::format("{}: model: tensor {} has type {}, the converter copies BF16 alone",
                                                  tensor.file, name, name_of(tensor.dtype))};
    }
  }
  CHECK(num_inputs == tensors.size(), "{} of {} tensors have a rule", num_inputs, tensors.size());
  return {};
}

class Writer {
 public:
  Writer(OutputFile& file, std::uint64_t total, const ProgressFunction& progress)
      : file_(file), total_(total), progress_(progress) {}

  // Pads with zeros up to `offset`.
  Status seek(std::uint64_t offset) {
    CHECK(offset >= file_.bytes_written());
    const std::string zeros(static_cast<std::size_t>(offset - file_.bytes_written()), '\0');
    return file_.write(zeros);
  }
  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), kWriteBytes);
      TRY(file_.write(bytes.first(count)));
      bytes = bytes.subspan(count);
      if (progress_) progress_(file_.bytes_written(), total_);
    }
    return {};
  }

 private:
  OutputFile& file_;
  std::uint64_t total_;
  const ProgressFunction& progress_;
};

Status write_tensor(Writer& writer, const Rule& rule, const TensorTable& tensors) {
  for (const std::string& name : rule.inputs) {
    const FileTensor& tensor = tensors.find(name)->second;
    if (rule.fold) {
      const std::vector<float> folded = widen(tensor, *rule.fold);
      TRY(writer.write(std::as_bytes(std::span(folded))));
    } else {
      TRY(writer.write(tensor.bytes));
    }
  }
  return {};
}

}  // namespace

Result<ConvertReport> convert(const std::filesystem::path& snapshot, const std::filesystem::path& out,
                              const ProgressFunction& progress) {
  // Whatever the engine would refuse is refused here, with the same words: names, shapes and types included.
  const ModelFile model = TRY(open_snapshot(snapshot));
  const SnapshotTexts texts = TRY(read_snapshot_texts(snapshot));
  const MappedTensors mapped = TRY(map_snapshot_tensors(snapshot));
  const Rules rules = conversion_rules(model.config, mapped.tensors);
  TRY(check_inputs(rules, mapped.tensors));

  GgufBuilder builder;
  TRY(add_metadata(model.config, model.tokenizer, texts, builder));
  for (const Rule& rule : rules) {
    builder.add_tensor(rule.name, rule.fold ? DType::f32 : DType::bf16, shape_of(rule, mapped.tensors));
  }
  const GgufBuilder::Layout layout = builder.layout();
  const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : ".";
  TRY(require_space(folder, layout.file_bytes));
  OutputFile file = TRY(OutputFile::create(out));
  Writer writer(file, layout.file_bytes, progress);
  TRY(writer.write(std::as_bytes(std::span(layout.header))));
  for (std::size_t i = 0; i < rules.size(); ++i) {
    TRY(writer.seek(layout.offsets[i]));
    TRY(write_tensor(writer, rules[i], mapped.tensors));
  }
  TRY(writer.seek(layout.file_bytes));
  TRY(file.commit());
  return ConvertReport{.num_tensors = static_cast<std::int64_t>(rules.size()), .file_bytes = layout.file_bytes};
}

}  // namespace clef
