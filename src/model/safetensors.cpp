#include "model/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <set>

#include "base/paths.h"
#include "model/json_fields.h"
#include "text/json.h"

namespace clef {

namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr std::size_t kMaxRank = 8;
constexpr std::string_view kMetadata = "__metadata__";

Error bad(std::string_view file, const std::string& message) {
  return Error{Errc::bad_model, fmt::format("{}: safetensors: {}", file, message)};
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8}) {
    if (name == name_of(dtype)) return dtype;
  }
  return std::nullopt;
}

// The JSON reader keeps the last of a repeated member, as Python does, so a repeated name is looked for in the text,
// which is known to be well-formed here. The first key of the outermost object that occurs twice, as it is written.
std::optional<std::string> repeated_key(std::string_view text) {
  std::set<std::string_view> keys;
  std::string_view last_string;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      const std::size_t first = i + 1;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      last_string = text.substr(first, std::min(i, text.size()) - first);
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    } else if (c == ':' && depth == 1 && !keys.insert(last_string).second) {
      return std::string(last_string);
    }
  }
  return std::nullopt;
}

struct Range {
  std::uint64_t first = 0, end = 0;
  const std::string* name = nullptr;
};

// One member of the header. `data` is the file after its header.
Result<FileTensor> parse_entry(std::string_view file, const std::string& name, const Json& entry,
                               std::span<const std::byte> data, Range& range) {
  const JsonFields fields = TRY(JsonFields::of(fmt::format("{}: safetensors: tensor {}", file, name), entry));
  const std::string dtype_name = TRY(fields.string("dtype"));
  const std::optional<DType> dtype = parse_dtype(dtype_name);
  if (!dtype) {
    return Error{Errc::unsupported, fmt::format("{}: safetensors: tensor {} has type {}, expected F32, F16, BF16, I32, "
                                                "I64 or U8",
                                                file, name, dtype_name)};
  }
  Shape shape = TRY(fields.integers("shape"));
  const std::int64_t count = count_of(shape);
  if (shape.size() > kMaxRank || count < 0) {
    return bad(file, fmt::format("tensor {} has an impossible shape {}", name, to_string(shape)));
  }
  const std::vector<std::int64_t> offsets = TRY(fields.integers("data_offsets"));
  const auto size = static_cast<std::int64_t>(data.size());
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[0] > offsets[1] || offsets[1] > size) {
    return bad(file, fmt::format("tensor {} lies at {}, outside the {} bytes of data", name, to_string(offsets), size));
  }
  const std::int64_t length = offsets[1] - offsets[0];
  const auto width = static_cast<std::int64_t>(size_of(*dtype));
  if (length % width != 0 || length / width != count) {
    return bad(file, fmt::format("tensor {} has {} bytes, but {} {} take {}", name, length, name_of(*dtype),
                                 to_string(shape), fmt::format("{} values of {} bytes", count, width)));
  }
  range = {static_cast<std::uint64_t>(offsets[0]), static_cast<std::uint64_t>(offsets[1]), &name};
  return FileTensor{.file = std::string(file),
                    .dtype = *dtype,
                    .shape = std::move(shape),
                    .bytes = data.subspan(range.first, range.end - range.first)};
}

Status check_coverage(std::string_view file, std::vector<Range> ranges, std::uint64_t size) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first != b.first ? a.first < b.first : a.end < b.end; });
  std::uint64_t end = 0;
  const std::string* previous = nullptr;
  for (const Range& range : ranges) {
    if (range.first < end) return bad(file, fmt::format("tensors {} and {} overlap", *previous, *range.name));
    if (range.first > end) {
      return bad(file, fmt::format("{} bytes before tensor {} belong to no tensor", range.first - end, *range.name));
    }
    end = range.end;
    previous = range.name;
  }
  if (end != size) return bad(file, fmt::format("{} bytes at the end belong to no tensor", size - end));
  return {};
}

// The file a shard's name in an index stands for; a name that leaves the folder is refused.
Result<std::filesystem::path> shard_path(const std::filesystem::path& folder, const std::string& tensor,
                                         const Json& name) {
  const std::string* text = name.if_string();
  if (text == nullptr || text->empty() || text->find('/') != std::string::npos || *text == "..") {
    return Error{Errc::bad_model,
                 fmt::format("model.safetensors.index.json: weight_map.{}: expected a file name", tensor)};
  }
  return folder / *text;
}

}  // namespace

Result<TensorTable> parse_safetensors(std::string_view file, std::span<const std::byte> bytes,
                                      std::string_view prefix) {
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof header_bytes)
    return bad(file, fmt::format("{} bytes are no safetensors file", bytes.size()));
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | std::to_integer<std::uint64_t>(bytes[static_cast<std::size_t>(i)]);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - sizeof header_bytes) {
    return bad(file, fmt::format("a header of {} bytes in a file of {}", header_bytes, bytes.size()));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof header_bytes, header_bytes);
  const std::span<const std::byte> data = bytes.subspan(sizeof header_bytes + header_bytes);
  const std::string label = fmt::format("{}: safetensors: header", file);
  const Json document = TRY(parse_json_file(label, text));
  const JsonFields header = TRY(JsonFields::of(label, document));
  if (const auto name = repeated_key(text)) return bad(file, fmt::format("tensor {} is listed twice", *name));

  TensorTable tensors;
  std::vector<Range> ranges;
  for (const auto& [name, entry] : header.members()) {
    if (name == kMetadata) {
      TRY(header.object(kMetadata));
      continue;
    }
    Range range;
    FileTensor tensor = TRY(parse_entry(file, name, entry, data, range));
    ranges.push_back(range);
    tensors.emplace(fmt::format("{}{}", prefix, name), std::move(tensor));
  }
  TRY(check_coverage(file, std::move(ranges), data.size()));
  return tensors;
}

Status MappedTensors::add_safetensors(const std::filesystem::path& path, std::string_view prefix) {
  auto file = std::make_shared<const MappedFile>(TRY(MappedFile::open(path)));
  TensorTable added = TRY(parse_safetensors(path.filename().string(), file->bytes(), prefix));
  for (auto& [name, tensor] : added) {
    const auto [place, is_new] = tensors.emplace(name, std::move(tensor));
    if (!is_new) {
      return Error{Errc::bad_model,
                   fmt::format("{}: tensor {} is also in {}", path.filename().string(), name, place->second.file)};
    }
    bytes += place->second.bytes.size();
  }
  files.push_back(std::move(file));
  return {};
}

Status add_sharded_safetensors(const std::filesystem::path& folder, MappedTensors& tensors) {
  const std::string index_name = "model.safetensors.index.json";
  const std::filesystem::path index_path = folder / index_name;
  if (!path_exists(index_path)) {
    if (path_exists(folder / "model.safetensors")) return tensors.add_safetensors(folder / "model.safetensors");
    return Error{Errc::io, fmt::format("{}: no model.safetensors and no {}: is the download complete?", folder.string(),
                                       index_name)};
  }
  const MappedFile index_file = TRY(MappedFile::open(index_path));
  const std::string_view text(reinterpret_cast<const char*>(index_file.bytes().data()), index_file.bytes().size());
  const Json document = TRY(parse_json_file(index_name, text));
  const JsonFields index = TRY(JsonFields::of(index_name, document));
  const JsonFields weight_map = TRY(index.object("weight_map"));

  std::set<std::filesystem::path> shards;
  for (const auto& [name, shard] : weight_map.members()) shards.insert(TRY(shard_path(folder, name, shard)));
  for (const std::filesystem::path& shard : shards) {
    if (!path_exists(shard)) {
      return Error{Errc::io, fmt::format("{}: missing, though {} names it: is the download complete?", shard.string(),
                                         index_name)};
    }
    TRY(tensors.add_safetensors(shard));
  }
  for (const auto& [name, shard] : weight_map.members()) {
    const auto found = tensors.tensors.find(name);
    if (found == tensors.tensors.end()) {
      return Error{Errc::bad_model,
                   fmt::format("{}: missing tensor {}, which {} places there", *shard.if_string(), name, index_name)};
    }
    if (found->second.file != *shard.if_string()) {
      return Error{Errc::bad_model, fmt::format("{}: holds tensor {}, which {} places in {}", found->second.file, name,
                                                index_name, *shard.if_string())};
    }
  }
  if (weight_map.members().size() != tensors.tensors.size()) {
    std::set<std::string_view> listed;
    for (const auto& [name, shard] : weight_map.members()) listed.insert(name);
    for (const auto& [name, tensor] : tensors.tensors) {
      if (listed.contains(name)) continue;
      return Error{Errc::bad_model,
                   fmt::format("{}: holds tensor {}, which {} does not list", tensor.file, name, index_name)};
    }
  }
  return {};
}

std::string safetensors_header(std::span<const SafetensorsEntry> entries) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::uint64_t offset = 0;
  for (const SafetensorsEntry& entry : entries) {
    const std::uint64_t end = offset + static_cast<std::uint64_t>(count_of(entry.shape)) * size_of(entry.dtype);
    json += ',';
    append_json_string(json, entry.name);
    json += fmt::format(R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", name_of(entry.dtype),
                        fmt::join(entry.shape, ","), offset, end);
    offset = end;
  }
  json += '}';
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string header;
  for (int i = 0; i < 8; ++i) header += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return header + json;
}

}  // namespace clef
