#include "model/inspect.h"

#include <algorithm>
#include <map>

#include "base/mapped_file.h"
#include "base/paths.h"
#include "model/model_file.h"
#include "model/snapshot.h"
#include "text/utf8.h"

namespace clef {

namespace {

constexpr std::size_t kMaxListed = 8;      // elements of a list that are shown
constexpr std::size_t kMaxTextWidth = 72;  // of a value in the table

// Foreign files may hold any bytes where text should be: what is no UTF-8 becomes U+FFFD.
std::string valid_text(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence_length(text, at);
    out += length == 0 ? std::string_view("\uFFFD") : text.substr(at, length);
    at += std::max<std::size_t>(length, 1);
  }
  return out;
}

// On one line of a terminal.
std::string printable(std::string_view text) {
  std::string out = valid_text(text);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return out;
}

Json to_json(const GgufValue& value) {
  if (const std::uint64_t* number = value.if_unsigned()) return Json(Json::Integer{std::to_string(*number)});
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value.value)) return Json(*number);
  if (const double* number = value.if_float()) return Json(*number);
  if (const bool* flag = std::get_if<bool>(&value.value)) return Json(*flag);
  if (const std::string_view* text = value.if_string()) return Json(valid_text(*text));
  const GgufArray& array = *value.if_array();
  Json::Array first;
  if (array.element == GgufType::string) {
    for (const std::string_view text : array.strings()) {
      if (first.size() == kMaxListed) break;
      first.emplace_back(valid_text(text));
    }
  } else if (array.holds_integers()) {
    for (const std::int64_t number : array.integers()) {
      if (first.size() == kMaxListed) break;
      first.emplace_back(number);
    }
  }
  return Json(Json::Object{{"type", Json(std::string(name_of(array.element)))},
                           {"count", Json(Json::Integer{std::to_string(array.count)})},
                           {"first", Json(std::move(first))}});
}

void add_tensors(const TensorTable& tensors, Inspection& out) {
  for (const auto& [name, tensor] : tensors) {
    out.tensors.push_back(
        {valid_text(name), tensor.file, std::string(name_of(tensor.dtype)), tensor.shape, tensor.bytes.size()});
    out.tensor_bytes += tensor.bytes.size();
  }
}

void add_config(const ModelConfig& config, Inspection& out) {
  const auto add = [&](const char* name, std::int64_t value) { out.metadata.emplace_back(name, Json(value)); };
  const TextConfig& text = config.text;
  out.metadata.emplace_back("name", Json(config.name));
  add("text.layers", text.num_layers());
  add("text.full_attention_layers",
      std::count(text.layer_types.begin(), text.layer_types.end(), LayerType::full_attention));
  add("text.hidden_size", text.hidden_size);
  add("text.intermediate_size", text.intermediate_size);
  add("text.vocab_size", text.vocab_size);
  add("text.attention_heads", text.num_attention_heads);
  add("text.key_value_heads", text.num_key_value_heads);
  add("text.head_dim", text.head_dim);
  add("text.linear_key_heads", text.linear_num_key_heads);
  add("text.linear_value_heads", text.linear_num_value_heads);
  add("head.width", config.head.width);
  add("head.routing_layers", config.head.routing_layers);
  add("head.layers", config.head.layers);
  add("head.heads", config.head.heads);
  add("head.feedforward", config.head.feedforward);
  if (!config.vision) return;
  add("vision.blocks", config.vision->depth);
  add("vision.hidden_size", config.vision->hidden_size);
  add("vision.heads", config.vision->num_heads);
  add("vision.image_min_pixels", config.vision->image_min_pixels);
  add("vision.image_max_pixels", config.vision->image_max_pixels);
}

// Whether the engine would take it, and what it understands of it.
void add_verdict(const std::filesystem::path& path, bool with_config, Inspection& out) {
  const auto model = open_model(path);
  if (!model) {
    out.problem = model.error().message;
    return;
  }
  if (with_config) add_config(model->config, out);
  out.metadata.emplace_back("tokenizer.split_pattern",
                            Json(model->tokenizer.pattern == SplitPattern::qwen2 ? "qwen2" : "qwen35"));
  out.metadata.emplace_back("tokenizer.tokens", Json(static_cast<std::int64_t>(model->tokenizer.tokens.size())));
}

std::string short_text(const Json& value) {
  std::string text = value.if_string() != nullptr ? printable(*value.if_string()) : printable(to_compact_json(value));
  if (const Json* count = value.find("count")) {
    text = fmt::format("{} x {}, {} ...", to_compact_json(*count), *value.find("type")->if_string(),
                       printable(to_compact_json(*value.find("first"))));
  }
  if (text.size() <= kMaxTextWidth) return text;
  return std::string(utf8_prefix(text, kMaxTextWidth - 3)) + "...";
}

}  // namespace

Result<Inspection> inspect(const std::filesystem::path& path) {
  Inspection out;
  out.path = path.string();
  if (is_folder(path)) {
    out.kind = "snapshot";
    TRY(read_snapshot_texts(path));
    add_verdict(path, true, out);
    auto mapped = map_snapshot_tensors(path);
    if (mapped) add_tensors(mapped->tensors, out);
    return out;
  }
  const MappedFile file = TRY(MappedFile::open(path));
  const std::string label = path.filename().string();
  if (path.extension() == ".safetensors") {
    out.kind = "safetensors";
    add_tensors(TRY(parse_safetensors(label, file.bytes())), out);
    return out;
  }
  const Gguf gguf = TRY(parse_gguf(label, file.bytes()));
  out.kind = "GGUF";
  for (const auto& [key, value] : gguf.metadata) out.metadata.emplace_back(valid_text(key), to_json(value));
  add_tensors(gguf.tensors, out);
  add_verdict(path, false, out);
  return out;
}

std::string to_text(const Inspection& inspection, bool with_tensors) {
  std::string out = fmt::format("{}: {}\n", inspection.path, inspection.kind);
  std::size_t width = 0;
  for (const auto& [key, value] : inspection.metadata) width = std::max(width, key.size());
  for (const auto& [key, value] : inspection.metadata) {
    out += fmt::format("  {:<{}}  {}\n", printable(key), width, short_text(value));
  }
  std::map<std::string, std::pair<std::size_t, std::size_t>> by_type;
  for (const Inspection::Tensor& tensor : inspection.tensors) {
    auto& [count, bytes] = by_type[tensor.dtype];
    ++count;
    bytes += tensor.bytes;
  }
  out += fmt::format("  {} tensors, {:.3f} GB", inspection.tensors.size(),
                     static_cast<double>(inspection.tensor_bytes) / 1e9);
  for (const auto& [dtype, sums] : by_type) {
    out += fmt::format("; {} {}, {:.3f} GB", sums.first, dtype, static_cast<double>(sums.second) / 1e9);
  }
  out += '\n';
  if (with_tensors) {
    width = 0;
    for (const Inspection::Tensor& tensor : inspection.tensors) width = std::max(width, tensor.name.size());
    for (const Inspection::Tensor& tensor : inspection.tensors) {
      out += fmt::format("  {:<{}}  {:<4}  {:<20}  {}\n", printable(tensor.name), width, tensor.dtype,
                         to_string(tensor.shape), tensor.file);
    }
  }
  if (!inspection.problem.empty()) out += fmt::format("  cannot be opened as a model: {}\n", inspection.problem);
  return out;
}

Json to_json(const Inspection& inspection, bool with_tensors) {
  Json::Object metadata;
  for (const auto& [key, value] : inspection.metadata) metadata.emplace_back(key, value);
  Json::Object out{{"path", Json(inspection.path)},
                   {"kind", Json(inspection.kind)},
                   {"metadata", Json(std::move(metadata))},
                   {"num_tensors", Json(static_cast<std::int64_t>(inspection.tensors.size()))},
                   {"tensor_bytes", Json(static_cast<std::int64_t>(inspection.tensor_bytes))}};
  if (with_tensors) {
    Json::Array tensors;
    for (const Inspection::Tensor& tensor : inspection.tensors) {
      Json::Array shape;
      for (const std::int64_t size : tensor.shape) shape.emplace_back(size);
      tensors.emplace_back(Json::Object{{"name", Json(tensor.name)},
                                        {"file", Json(tensor.file)},
                                        {"dtype", Json(tensor.dtype)},
                                        {"shape", Json(std::move(shape))},
                                        {"bytes", Json(static_cast<std::int64_t>(tensor.bytes))}});
    }
    out.emplace_back("tensors", Json(std::move(tensors)));
  }
  out.emplace_back("problem", inspection.problem.empty() ? Json() : Json(inspection.problem));
  return Json(std::move(out));
}

}  // namespace clef
