#include "model/gguf_model.h"

#include <limits>

#include "model/gguf_keys.h"
#include "model/json_fields.h"
#include "text/json.h"
#include "text/tokenizer_split.h"

namespace clef {

using namespace gguf_key;

namespace {

constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;

Error missing(std::string_view key) { return Error{Errc::bad_model, fmt::format("model: missing or invalid {}", key)}; }

// Typed members of the metadata.
class Keys {
 public:
  explicit Keys(const GgufMetadata& metadata) : metadata_(metadata) {}

  bool has(std::string_view key) const { return metadata_.contains(key); }

  Result<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most) const {
    const GgufValue* value = find(key);
    const std::uint64_t* number = value == nullptr ? nullptr : value->if_unsigned();
    if (number == nullptr) return missing(key);
    if (*number < static_cast<std::uint64_t>(least) || *number > static_cast<std::uint64_t>(most)) {
      return Error{Errc::bad_model, fmt::format("{}: expected an integer from {} to {}, got {}", missing(key).message,
                                                least, most, *number)};
    }
    return static_cast<std::int64_t>(*number);
  }
  Result<std::int64_t> size(std::string_view key) const { return integer(key, 1, kMaxDimension); }
  Result<std::int32_t> token_id(std::string_view key) const {
    return static_cast<std::int32_t>(TRY(integer(key, 0, kMaxDimension)));
  }
  Result<float> number(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr || value->if_float() == nullptr) return missing(key);
    return static_cast<float>(*value->if_float());
  }
  Result<std::string_view> string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr || value->if_string() == nullptr) return missing(key);
    return *value->if_string();
  }
  Result<std::vector<std::int64_t>> integers(std::string_view key) const {
    const GgufValue* value = find(key);
    const GgufArray* array = value == nullptr ? nullptr : value->if_array();
    if (array == nullptr || !array->holds_integers()) return missing(key);
    return array->integers();
  }
  Result<std::vector<std::string_view>> strings(std::string_view key) const {
    const GgufValue* value = find(key);
    const GgufArray* array = value == nullptr ? nullptr : value->if_array();
    if (array == nullptr || array->element != GgufType::string) return missing(key);
    return array->strings();
  }

 private:
  const GgufValue* find(std::string_view key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }
  const GgufMetadata& metadata_;
};

Result<std::vector<LayerType>> parse_layer_types(const Keys& keys) {
  const std::int64_t num_layers = TRY(keys.integer(kBlockCount, 1, 128));
  const std::vector<std::int64_t> stored = TRY(keys.integers(kLayerTypes));
  if (static_cast<std::int64_t>(stored.size()) != num_layers) {
    return Error{Errc::bad_model,
                 fmt::format("model: bad layer_types: {} of them for {} layers", stored.size(), num_layers)};
  }
  std::vector<LayerType> types;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] != 0 && stored[i] != 1) {
      return Error{Errc::bad_model, fmt::format("model: layer {} has unknown type {}", i, stored[i])};
    }
    types.push_back(static_cast<LayerType>(stored[i]));
  }
  return types;
}

Result<TextConfig> parse_text(const Keys& keys) {
  TextConfig c;
  c.hidden_size = TRY(keys.size(kEmbeddingLength));
  c.intermediate_size = TRY(keys.size(kFeedForwardLength));
  c.vocab_size = TRY(keys.size(kVocabSize));
  c.layer_types = TRY(parse_layer_types(keys));
  c.num_attention_heads = TRY(keys.size(kHeadCount));
  c.num_key_value_heads = TRY(keys.size(kHeadCountKv));
  c.head_dim = TRY(keys.size(kKeyLength));
  if (TRY(keys.size(kValueLength)) != c.head_dim) {
    return Error{Errc::unsupported, fmt::format("model: {} differs from {}", kValueLength, kKeyLength)};
  }
  c.linear_num_key_heads = TRY(keys.size(kSsmKeyHeads));
  c.linear_num_value_heads = TRY(keys.size(kSsmValueHeads));
  c.linear_key_head_dim = TRY(keys.size(kSsmKeyHeadDim));
  c.linear_value_head_dim = TRY(keys.size(kSsmValueHeadDim));
  c.linear_conv_kernel_dim = TRY(keys.size(kConvKernel));
  c.rms_norm_eps = TRY(keys.number(kRmsEpsilon));
  c.rope_theta = TRY(keys.number(kRopeBase));
  c.rotary_dim = TRY(keys.size(kRopeDimensions));
  c.mrope_section = TRY(keys.integers(kRopeSections));
  return c;
}

Result<HeadConfig> parse_head(const Keys& keys, std::int64_t hidden_size) {
  HeadConfig c;
  c.hidden_size = hidden_size;
  c.width = TRY(keys.size(kHeadWidth));
  c.routing_layers = TRY(keys.size(kHeadRoutingLayers));
  c.layers = TRY(keys.size(kHeadLayers));
  c.heads = TRY(keys.size(kHeadHeads));
  c.feedforward = TRY(keys.size(kHeadFeedForward));
  return c;
}

Result<VisionConfig> parse_vision(const Keys& keys, std::int64_t hidden_size) {
  VisionConfig c;
  c.depth = TRY(keys.size(kVisionBlockCount));
  c.hidden_size = TRY(keys.size(kVisionEmbeddingLength));
  c.intermediate_size = TRY(keys.size(kVisionFeedForwardLength));
  c.num_heads = TRY(keys.size(kVisionHeadCount));
  c.in_channels = 3;
  c.patch_size = TRY(keys.size(kVisionPatchSize));
  c.spatial_merge_size = TRY(keys.size(kVisionMergeSize));
  c.temporal_patch_size = TRY(keys.size(kVisionTemporalPatchSize));
  c.num_position_embeddings = TRY(keys.size(kVisionPositions));
  c.out_hidden_size = hidden_size;
  c.image_token_id = TRY(keys.token_id(kVisionImageTokenId));
  c.vision_start_token_id = TRY(keys.token_id(kVisionStartTokenId));
  c.vision_end_token_id = TRY(keys.token_id(kVisionEndTokenId));
  c.video_token_id = TRY(keys.token_id(kVisionVideoTokenId));
  if (!keys.has(kVisionImageProcessor)) {
    return Error{Errc::bad_model, "model: incomplete clef.vision.* keys (no image_processor)"};
  }
  if (auto read = read_image_processor(kVisionImageProcessor, TRY(keys.string(kVisionImageProcessor)), c); !read) {
    return Error{Errc::unsupported, fmt::format("model: {} describes preprocessing this engine does not implement: {}",
                                                kVisionImageProcessor, read.error().message)};
  }
  constexpr std::int64_t kMaxPixels = std::numeric_limits<std::int32_t>::max();
  for (const auto& [key, value] :
       {std::pair{kVisionMinPixels, c.image_min_pixels}, {kVisionMaxPixels, c.image_max_pixels}}) {
    const std::int64_t stored = TRY(keys.integer(key, 1, kMaxPixels));
    if (stored != value) {
      return Error{Errc::bad_model,
                   fmt::format("model: {} is {}, but {} says {}", key, stored, kVisionImageProcessor, value)};
    }
  }
  if (keys.has(kVisionVideoProcessor)) c.video_processor = TRY(keys.string(kVisionVideoProcessor));
  return c;
}

// Every "Regex" of a pre_tokenizer, at any depth.
void collect_regexes(const Json& value, std::vector<std::string>& out) {
  if (const Json::Array* array = value.if_array()) {
    for (const Json& item : *array) collect_regexes(item, out);
  } else if (const Json::Object* object = value.if_object()) {
    for (const auto& [key, member] : *object) {
      if (key == "Regex" && member.if_string() != nullptr) out.push_back(*member.if_string());
      collect_regexes(member, out);
    }
  }
}

// Refuses a file made from a tokenizer that splits or normalises otherwise than ours.
Status check_definitions(const Keys& keys) {
  const Json pre = TRY(parse_json_file(kPreTokenizer, TRY(keys.string(kPreTokenizer))));
  std::vector<std::string> regexes;
  collect_regexes(pre, regexes);
  const auto is_known = [](std::string_view regex) {
    return regex == regex_of(SplitPattern::qwen2) || regex == regex_of(SplitPattern::qwen35);
  };
  if (regexes.size() != 1 || !is_known(regexes.front())) {
    return Error{Errc::unsupported, "tokenizer: split regex differs from the implemented ones"};
  }
  const Json normalizer = TRY(parse_json_file(kNormalizer, TRY(keys.string(kNormalizer))));
  const Json* type = normalizer.find("type");
  if (type == nullptr || *type != Json("NFC")) return Error{Errc::unsupported, "tokenizer: normalizer is not NFC"};
  return {};
}

// Files without the key come from converters that did not know of the choice; Clef and Clef-Flash name Qwen2Tokenizer.
Result<SplitPattern> parse_split_pattern(const Keys& keys) {
  if (!keys.has(kSplitPattern)) return SplitPattern::qwen2;
  const std::string_view name = TRY(keys.string(kSplitPattern));
  if (name == "qwen2") return SplitPattern::qwen2;
  if (name == "qwen35") return SplitPattern::qwen35;
  return Error{Errc::unsupported,
               fmt::format("tokenizer: unknown {} \"{}\", expected qwen2 or qwen35", kSplitPattern, name)};
}

}  // namespace

Result<ModelConfig> parse_gguf_config(const GgufMetadata& metadata) {
  const Keys keys(metadata);
  const auto architecture = keys.string(kArchitecture);
  if (!architecture || *architecture != kClef) {
    return Error{
        Errc::unsupported,
        fmt::format("model: not a clef GGUF (architecture {}); make one with `clef-tool convert SNAPSHOT OUT.gguf`",
                    architecture ? *architecture : "missing")};
  }
  ModelConfig config;
  if (keys.has(kName)) config.name = TRY(keys.string(kName));
  config.text = TRY(parse_text(keys));
  config.head = TRY(parse_head(keys, config.text.hidden_size));
  if (keys.has(kVisionBlockCount)) config.vision = TRY(parse_vision(keys, config.text.hidden_size));
  TRY(validate(config));
  return config;
}

Result<TokenizerDefinition> parse_gguf_tokenizer(const GgufMetadata& metadata) {
  const Keys keys(metadata);
  if (TRY(keys.string(kTokenizerModel)) != "gpt2") {
    return Error{Errc::unsupported, "tokenizer: expected byte-level BPE (gpt2)"};
  }
  const std::string_view pre = TRY(keys.string(kTokenizerPre));
  if (pre != "qwen35" && pre != "qwen2") {
    return Error{Errc::unsupported, fmt::format("tokenizer: unsupported pre-tokenizer \"{}\"", pre)};
  }
  // llama.cpp's files tell of the definitions by `pre` alone.
  if (keys.has(kPreTokenizer) || !metadata.contains("clef.decision.type")) TRY(check_definitions(keys));
  const std::vector<std::string_view> tokens = TRY(keys.strings(kTokens));
  const std::vector<std::int64_t> types = TRY(keys.integers(kTokenTypes));
  if (types.size() != tokens.size()) {
    return Error{Errc::bad_model, fmt::format("tokenizer: {} tokens, but {} types", tokens.size(), types.size())};
  }
  TokenizerDefinition definition;
  definition.pattern = TRY(parse_split_pattern(keys));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    definition.tokens.emplace_back(tokens[i]);
    if (types[i] == kTokenControl || types[i] == kTokenUserDefined) {
      definition.added_tokens.push_back({.id = static_cast<std::int32_t>(i),
                                         .content = std::string(tokens[i]),
                                         .special = types[i] == kTokenControl});
    } else if (types[i] == kTokenUnused) {
      definition.tokens.back().clear();
    } else if (types[i] != kTokenNormal) {
      return Error{Errc::bad_model, fmt::format("tokenizer: token {} has unknown type {}", i, types[i])};
    }
  }
  for (const std::string_view merge : TRY(keys.strings(kMerges))) {
    const std::size_t space = merge.find(' ');
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      return Error{Errc::bad_model,
                   fmt::format("tokenizer: merge {} is not two tokens with a space between", definition.merges.size())};
    }
    definition.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return definition;
}

}  // namespace clef
