#include "model/model_file.h"

#include <cstdlib>
#include <utility>

#include "base/mapped_file.h"
#include "base/paths.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
#include "model/hub_cache.h"
#include "model/llama_gguf.h"
#include "model/other_models.h"
#include "model/snapshot.h"
#include "model/weights_bind.h"

namespace clef {

namespace {

Status check_vocabulary(const ModelFile& model, std::string_view label) {
  if (static_cast<std::int64_t>(model.tokenizer.tokens.size()) <= model.config.text.vocab_size) return {};
  return Error{Errc::bad_model, fmt::format("{}: the tokenizer has {} tokens, the embedding only {} rows", label,
                                            model.tokenizer.tokens.size(), model.config.text.vocab_size)};
}

// The file's name before a message of one of its parts.
template <typename T>
Result<T> within(std::string_view label, Result<T> result) {
  if (result) return result;
  return Error{result.error().code, fmt::format("{}: {}", label, result.error().message)};
}

Result<std::filesystem::path> locate(const std::filesystem::path& named) {
  return find_model(named, hub_cache_folder([](const char* name) { return std::getenv(name); }));
}

}  // namespace

Result<ModelFile> open_snapshot(const std::filesystem::path& folder) {
  const std::string label = folder.string();
  TRY(check_folder_kind(folder));
  const SnapshotTexts texts = TRY(read_snapshot_texts(folder));
  ModelFile model;
  model.config = TRY(within(label, parse_snapshot_config(folder, texts)));
  TRY(read_required(folder, "tokenizer.json"));
  model.tokenizer = TRY(within(label, parse_tokenizer(texts.tokenizer, texts.tokenizer_config)));
  TRY(check_vocabulary(model, label));
  auto mapped = std::make_shared<MappedTensors>(TRY(map_snapshot_tensors(folder)));
  TRY(clef::bind(label, mapped->tensors, snapshot_bindings(model.config, model.weights)));
  model.bytes = mapped->bytes;
  mapped->tensors.clear();  // the fields point at the data; names are done with
  model.mappings = std::move(mapped);
  return model;
}

namespace {

Result<ModelFile> parse_llama_model(std::string_view label, const Gguf& gguf) {
  ModelFile model;
  model.config = TRY(within(label, parse_llama_config(gguf)));
  model.tokenizer = TRY(within(label, parse_gguf_tokenizer(gguf.metadata)));
  TRY(check_vocabulary(model, label));
  TRY(bind_llama_weights(label, gguf, model.config, model.weights, model.mappings));
  model.bytes = gguf.tensor_bytes;
  return model;
}

}  // namespace

Result<ModelFile> parse_gguf_model(std::string_view label, std::span<const std::byte> bytes) {
  TRY(check_gguf_kind(label, TRY(parse_gguf_metadata(label, bytes))));
  const Gguf gguf = TRY(parse_gguf(label, bytes));
  if (is_llama_clef(gguf.metadata)) return parse_llama_model(label, gguf);
  TRY(check_gguf_tensors(label, gguf.tensors));
  ModelFile model;
  model.config = TRY(within(label, parse_gguf_config(gguf.metadata)));
  model.tokenizer = TRY(within(label, parse_gguf_tokenizer(gguf.metadata)));
  TRY(check_vocabulary(model, label));
  TRY(clef::bind(label, gguf.tensors, gguf_bindings(model.config, model.weights)));
  model.bytes = gguf.tensor_bytes;
  return model;
}

namespace {

Result<std::shared_ptr<MappedFile>> map_gguf(const std::filesystem::path& path) {
  auto file = std::make_shared<MappedFile>(TRY(MappedFile::open(path)));
  TRY(check_file_kind(path, file->bytes()));
  return file;
}

}  // namespace

Result<ModelFile> open_model(const std::filesystem::path& named) {
  const std::filesystem::path path = TRY(locate(named));
  if (is_folder(path)) return open_snapshot(path);
  auto file = TRY(map_gguf(path));
  ModelFile model = TRY(parse_gguf_model(path.filename().string(), file->bytes()));
  // What a parser had to copy lives beside the mapping.
  model.mappings = std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(std::move(file),
                                                                                             std::move(model.mappings));
  return model;
}

Result<TokenizerDefinition> open_tokenizer(const std::filesystem::path& named) {
  const std::filesystem::path path = TRY(locate(named));
  if (is_folder(path)) {
    const std::string tokenizer = TRY(read_required(path, "tokenizer.json"));
    const std::string config = path_exists(path / "tokenizer_config.json")
                                   ? TRY(read_text_file(path / "tokenizer_config.json", kMaxTextBytes))
                                   : std::string();
    return within(path.string(), parse_tokenizer(tokenizer, config));
  }
  const auto file = TRY(map_gguf(path));
  const std::string label = path.filename().string();
  const Gguf gguf = TRY(parse_gguf(label, file->bytes()));
  return within(label, parse_gguf_tokenizer(gguf.metadata));
}

}  // namespace clef
