#include "model/model_file.h"

#include <cstring>

#include "base/mapped_file.h"
#include "base/paths.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
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

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "GGUF", 4) == 0;
}

}  // namespace

Result<ModelFile> open_snapshot(const std::filesystem::path& folder) {
  const std::string label = folder.string();
  const SnapshotTexts texts = TRY(read_snapshot_texts(folder));
  ModelFile model;
  model.config = TRY(within(label, parse_snapshot_config(folder, texts)));
  TRY(read_required(folder, "tokenizer.json"));
  model.tokenizer = TRY(within(label, parse_tokenizer(texts.tokenizer, texts.tokenizer_config)));
  TRY(check_vocabulary(model, label));
  auto mapped = std::make_shared<MappedTensors>(TRY(map_snapshot_tensors(folder)));
  TRY(bind(label, mapped->tensors, snapshot_bindings(model.config, model.weights)));
  model.bytes = mapped->bytes;
  mapped->tensors.clear();  // the fields point at the data; names are done with
  model.mappings = std::move(mapped);
  return model;
}

Result<ModelFile> parse_gguf_model(std::string_view label, std::span<const std::byte> bytes) {
  const Gguf gguf = TRY(parse_gguf(label, bytes));
  ModelFile model;
  model.config = TRY(within(label, parse_gguf_config(gguf.metadata)));
  model.tokenizer = TRY(within(label, parse_gguf_tokenizer(gguf.metadata)));
  TRY(check_vocabulary(model, label));
  TRY(bind(label, gguf.tensors, gguf_bindings(model.config, model.weights)));
  model.bytes = gguf.tensor_bytes;
  return model;
}

namespace {

Result<std::shared_ptr<MappedFile>> map_gguf(const std::filesystem::path& path) {
  if (!path_exists(path)) {
    return Error{Errc::io,
                 fmt::format("{}: no such file or folder: expected a snapshot folder or a GGUF", path.string())};
  }
  auto file = std::make_shared<MappedFile>(TRY(MappedFile::open(path)));
  if (is_gguf(file->bytes())) return file;
  return Error{
      Errc::bad_model,
      fmt::format("{}: not a model: expected a snapshot folder or a GGUF made by `clef-tool convert`{}", path.string(),
                  path.extension() == ".safetensors" ? " (give the folder, not one of its files)" : "")};
}

}  // namespace

Result<ModelFile> open_model(const std::filesystem::path& path) {
  if (is_folder(path)) return open_snapshot(path);
  auto file = TRY(map_gguf(path));
  ModelFile model = TRY(parse_gguf_model(path.filename().string(), file->bytes()));
  model.mappings = std::move(file);
  return model;
}

Result<TokenizerDefinition> open_tokenizer(const std::filesystem::path& path) {
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
