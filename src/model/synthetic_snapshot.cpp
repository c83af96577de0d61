#include "model/synthetic_snapshot.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <vector>

#include "base/output_file.h"
#include "base/paths.h"
#include "base/thread_pool.h"
#include "model/model_file.h"
#include "model/snapshot.h"
#include "model/synthetic.h"
#include "model/weights_bind.h"
#include "text/json.h"

namespace clef {

namespace {

constexpr std::int64_t kBlockElements = std::int64_t{1} << 19;  // 1 MB, what a thread makes and writes at a time
constexpr std::int64_t kBlocksPerReport = 64;                   // between two calls of the progress function

Json* find_member(Json& object, std::string_view name) {
  Json::Object* members = object.if_object();
  if (members == nullptr) return nullptr;
  for (auto& [key, value] : *members) {
    if (key == name) return &value;
  }
  return nullptr;
}

void set_member(Json& object, const std::string& name, Json value) {
  if (Json* member = find_member(object, name)) {
    *member = std::move(value);
  } else {
    object.if_object()->emplace_back(name, std::move(value));
  }
}

// config.json with another number of layers, whose types go on in the file's own rhythm, or without its tower.
Result<std::string> adjust_config(const std::string& text, const ModelConfig& config,
                                  const SynthesizeOptions& options) {
  if (!options.num_layers && options.vision) return text;
  Json document = TRY(parse_json(text));
  if (options.num_layers) {
    Json* text_config = find_member(document, "text_config");
    CHECK(text_config != nullptr);
    const std::vector<LayerType>& types = config.text.layer_types;
    Json::Array names;
    for (std::int64_t i = 0; i < *options.num_layers; ++i) {
      const LayerType type = types[static_cast<std::size_t>(i) % types.size()];
      names.emplace_back(type == LayerType::full_attention ? "full_attention" : "linear_attention");
    }
    set_member(*text_config, "num_hidden_layers", Json(*options.num_layers));
    set_member(*text_config, "layer_types", Json(std::move(names)));
  }
  if (!options.vision)
    std::erase_if(*document.if_object(), [](const auto& member) { return member.first == "vision_config"; });
  return to_compact_json(document) + "\n";
}

struct Shard {
  std::string name;
  std::vector<SafetensorsEntry> entries;
  std::uint64_t bytes = 0;
};

// The backbone's tensors in shards, then the head's as a file of its own.
std::vector<Shard> plan_shards(const std::vector<Binding>& inventory, std::uint64_t shard_bytes) {
  std::vector<Shard> shards(1);
  Shard head{.name = "joint_head.safetensors", .entries = {}, .bytes = 0};
  for (const Binding& binding : inventory) {
    const std::uint64_t bytes = static_cast<std::uint64_t>(count_of(binding.shape)) * size_of(DType::bf16);
    const bool is_head = binding.name.starts_with("head.");
    if (!is_head && !shards.back().entries.empty() && shards.back().bytes + bytes > shard_bytes) shards.emplace_back();
    Shard& shard = is_head ? head : shards.back();
    shard.entries.push_back({is_head ? binding.name.substr(5) : binding.name, DType::bf16, binding.shape});
    shard.bytes += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  shards.push_back(std::move(head));
  // By name, as the safetensors library writes tensors of one type.
  for (Shard& shard : shards) {
    std::sort(shard.entries.begin(), shard.entries.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; });
  }
  return shards;
}

class Writer {
 public:
  Writer(const SyntheticOptions& options, std::uint64_t total, const ProgressFunction& progress)
      : options_(options), total_(total), progress_(progress) {}

  Status write_shard(const std::filesystem::path& path, const Shard& shard, std::string_view formula_prefix) {
    OutputFile file = TRY(OutputFile::create(path));
    const std::string header = safetensors_header(shard.entries);
    TRY(file.write(header));
    std::uint64_t offset = header.size();
    for (const SafetensorsEntry& entry : shard.entries) {
      const SyntheticTensor tensor(fmt::format("{}{}", formula_prefix, entry.name), entry.shape, options_);
      const std::int64_t count = count_of(entry.shape);
      TRY(write_tensor(file, offset, tensor, count));
      offset += static_cast<std::uint64_t>(count) * sizeof(std::uint16_t);
    }
    return file.commit();
  }

 private:
  Status write_tensor(const OutputFile& file, std::uint64_t offset, const SyntheticTensor& tensor, std::int64_t count) {
    const std::int64_t num_blocks = (count + kBlockElements - 1) / kBlockElements;
    for (std::int64_t first = 0; first < num_blocks; first += kBlocksPerReport) {
      const std::int64_t group = std::min(kBlocksPerReport, num_blocks - first);
      Status status;
      std::mutex mutex;  // guards status
      pool_.for_each(group, [&](std::int64_t index, int thread) {
        const std::int64_t begin = (first + index) * kBlockElements;
        const std::span<std::uint16_t> block(scratch_[static_cast<std::size_t>(thread)].data(),
                                             static_cast<std::size_t>(std::min(kBlockElements, count - begin)));
        tensor.fill(begin, block);
        Status written =
            file.write_at(offset + static_cast<std::uint64_t>(begin) * sizeof(std::uint16_t), std::as_bytes(block));
        if (written) return;
        const std::lock_guard lock(mutex);
        status = std::move(written);
      });
      TRY(std::move(status));
      done_ += static_cast<std::uint64_t>(std::min(group * kBlockElements, count - first * kBlockElements)) *
               sizeof(std::uint16_t);
      if (progress_) progress_(done_, total_);
    }
    return {};
  }

  const SyntheticOptions& options_;
  std::uint64_t total_, done_ = 0;
  const ProgressFunction& progress_;
  ThreadPool pool_{0};
  std::vector<std::vector<std::uint16_t>> scratch_ = std::vector<std::vector<std::uint16_t>>(
      static_cast<std::size_t>(pool_.num_threads()), std::vector<std::uint16_t>(kBlockElements));
};

std::string index_json(std::span<const Shard> shards) {
  std::uint64_t total = 0;
  std::string map;
  for (const Shard& shard : shards) {
    total += shard.bytes;
    for (const SafetensorsEntry& entry : shard.entries) {
      if (!map.empty()) map += ",\n";
      map += "    ";
      append_json_string(map, entry.name);
      map += ": ";
      append_json_string(map, shard.name);
    }
  }
  return fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{\n{}\n  }}\n}}\n", total, map);
}

const std::filesystem::path& tokenizer_folder(const SynthesizeOptions& options) {
  return options.tokenizer_folder.empty() ? options.config_folder : options.tokenizer_folder;
}

// A tokenizer made for another model must at least stay inside this one's embedding.
Status check_tokenizer(const SynthesizeOptions& options, std::int64_t vocab_size) {
  const TokenizerDefinition tokenizer = TRY(open_tokenizer(tokenizer_folder(options)));
  if (static_cast<std::int64_t>(tokenizer.tokens.size()) <= vocab_size) return {};
  return Error{Errc::bad_model,
               fmt::format("{}: ids up to {}, but config.json's vocab_size is {}", tokenizer_folder(options).string(),
                           tokenizer.tokens.size() - 1, vocab_size)};
}

Status copy_texts(const SynthesizeOptions& options, const std::string& config) {
  TRY(write_file(options.out_folder / "config.json", config));
  for (const std::string_view name : {"joint_head_config.json", "processor_config.json", "preprocessor_config.json",
                                      "video_preprocessor_config.json", "synthetic.json"}) {
    const std::filesystem::path from = options.config_folder / name;
    if (path_exists(from)) TRY(write_file(options.out_folder / name, TRY(read_text_file(from, kMaxTextBytes))));
  }
  for (const std::string_view name : {"tokenizer.json", "tokenizer_config.json"}) {
    TRY(write_file(options.out_folder / name, TRY(read_required(tokenizer_folder(options), name))));
  }
  return {};
}

}  // namespace

Result<SynthesizeReport> synthesize(const SynthesizeOptions& options, const ProgressFunction& progress) {
  SnapshotTexts texts = TRY(read_snapshot_texts(options.config_folder));
  ModelConfig config = TRY(parse_snapshot_config(options.config_folder, texts));
  texts.config = TRY(adjust_config(texts.config, config, options));
  config = TRY(parse_snapshot_config(options.config_folder, texts));
  TRY(check_tokenizer(options, config.text.vocab_size));
  SyntheticOptions formula;
  if (path_exists(options.config_folder / "synthetic.json")) {
    formula =
        TRY(parse_synthetic_options(TRY(read_text_file(options.config_folder / "synthetic.json", kMaxTextBytes))));
  }

  ModelWeights unused_weights;
  const std::vector<Binding> inventory = snapshot_bindings(config, unused_weights);
  const std::vector<Shard> shards = plan_shards(inventory, options.shard_bytes);
  SynthesizeReport report{.num_tensors = static_cast<std::int64_t>(inventory.size()),
                          .num_shards = static_cast<std::int64_t>(shards.size())};
  for (const Shard& shard : shards) report.bytes += shard.bytes;

  std::error_code failure;
  std::filesystem::create_directories(options.out_folder, failure);
  if (failure)
    return Error{Errc::io, fmt::format("{}: cannot create: {}", options.out_folder.string(), failure.message())};
  const std::uint64_t slack = std::uint64_t{64} << 20;  // headers, tokenizer, the file system's own tables
  TRY(require_space(options.out_folder, report.bytes + slack));
  const std::filesystem::path index = options.out_folder / "model.safetensors.index.json";
  std::filesystem::remove(index, failure);  // until this run is done, the folder is not a model

  TRY(copy_texts(options, texts.config));
  Writer writer(formula, report.bytes, progress);
  for (const Shard& shard : shards) {
    const bool is_head = &shard == &shards.back();
    TRY(writer.write_shard(options.out_folder / shard.name, shard, is_head ? "head." : ""));
  }
  TRY(write_file(index, index_json(std::span(shards).first(shards.size() - 1))));
  return report;
}

}  // namespace clef
