#include "model/convert_metadata.h"

#include "model/gguf_keys.h"
#include "model/json_fields.h"
#include "text/json.h"

namespace clef {

using namespace gguf_key;

namespace {

// Sizes were checked to lie far below 2^32.
void add_size(GgufBuilder& builder, std::string_view key, std::int64_t value) {
  builder.add_u32(key, static_cast<std::uint32_t>(value));
}

void add_text(const TextConfig& c, GgufBuilder& builder) {
  add_size(builder, kBlockCount, c.num_layers());
  add_size(builder, kEmbeddingLength, c.hidden_size);
  add_size(builder, kFeedForwardLength, c.intermediate_size);
  add_size(builder, kHeadCount, c.num_attention_heads);
  add_size(builder, kHeadCountKv, c.num_key_value_heads);
  add_size(builder, kKeyLength, c.head_dim);
  add_size(builder, kValueLength, c.head_dim);
  builder.add_f32(kRmsEpsilon, c.rms_norm_eps);
  builder.add_f32(kRopeBase, c.rope_theta);
  add_size(builder, kRopeDimensions, c.rotary_dim);
  builder.add_i32s(kRopeSections, std::vector<std::int32_t>(c.mrope_section.begin(), c.mrope_section.end()));
  add_size(builder, kVocabSize, c.vocab_size);
  std::vector<std::int32_t> types;
  for (const LayerType type : c.layer_types) types.push_back(static_cast<std::int32_t>(type));
  builder.add_i32s(kLayerTypes, types);
  add_size(builder, kConvKernel, c.linear_conv_kernel_dim);
  add_size(builder, kSsmKeyHeads, c.linear_num_key_heads);
  add_size(builder, kSsmValueHeads, c.linear_num_value_heads);
  add_size(builder, kSsmKeyHeadDim, c.linear_key_head_dim);
  add_size(builder, kSsmValueHeadDim, c.linear_value_head_dim);
}

void add_head(const HeadConfig& c, GgufBuilder& builder) {
  add_size(builder, kHeadWidth, c.width);
  add_size(builder, kHeadRoutingLayers, c.routing_layers);
  add_size(builder, kHeadLayers, c.layers);
  add_size(builder, kHeadHeads, c.heads);
  add_size(builder, kHeadFeedForward, c.feedforward);
}

void add_vision(const VisionConfig& c, GgufBuilder& builder) {
  add_size(builder, kVisionBlockCount, c.depth);
  add_size(builder, kVisionEmbeddingLength, c.hidden_size);
  add_size(builder, kVisionFeedForwardLength, c.intermediate_size);
  add_size(builder, kVisionHeadCount, c.num_heads);
  add_size(builder, kVisionPatchSize, c.patch_size);
  add_size(builder, kVisionMergeSize, c.spatial_merge_size);
  add_size(builder, kVisionTemporalPatchSize, c.temporal_patch_size);
  add_size(builder, kVisionPositions, c.num_position_embeddings);
  add_size(builder, kVisionImageTokenId, c.image_token_id);
  add_size(builder, kVisionStartTokenId, c.vision_start_token_id);
  add_size(builder, kVisionEndTokenId, c.vision_end_token_id);
  add_size(builder, kVisionVideoTokenId, c.video_token_id);
  add_size(builder, kVisionMinPixels, c.image_min_pixels);
  add_size(builder, kVisionMaxPixels, c.image_max_pixels);
  builder.add_string(kVisionImageProcessor, c.image_processor);
  if (!c.video_processor.empty()) builder.add_string(kVisionVideoProcessor, c.video_processor);
}

void add_tokens(const TokenizerDefinition& tokenizer, GgufBuilder& builder) {
  builder.add_strings(kTokens, tokenizer.tokens);
  std::vector<std::int32_t> types;
  for (const std::string& token : tokenizer.tokens) types.push_back(token.empty() ? kTokenUnused : kTokenNormal);
  for (const AddedToken& token : tokenizer.added_tokens) {
    types[static_cast<std::size_t>(token.id)] = token.special ? kTokenControl : kTokenUserDefined;
  }
  builder.add_i32s(kTokenTypes, types);
  std::vector<std::string> merges;
  for (const auto& [left, right] : tokenizer.merges) merges.push_back(fmt::format("{} {}", left, right));
  builder.add_strings(kMerges, merges);
}

// The id of the token that tokenizer_config.json names as text or as an object with "content"; absent: no key.
Status add_named_token(const TokenizerDefinition& tokenizer, const JsonFields& config, std::string_view member,
                       std::string_view key, GgufBuilder& builder) {
  if (!config.has(member)) return {};
  const auto object = config.object(member);
  const std::string content = object ? TRY(object->string("content")) : TRY(config.string(member));
  for (const AddedToken& token : tokenizer.added_tokens) {
    if (token.content != content) continue;
    add_size(builder, key, token.id);
    return {};
  }
  return config.error(member, "one of the added tokens");
}

}  // namespace

Status add_metadata(const ModelConfig& config, const TokenizerDefinition& tokenizer, const SnapshotTexts& texts,
                    GgufBuilder& builder) {
  builder.add_string(kArchitecture, kClef);
  builder.add_string(kName, config.name);
  add_text(config.text, builder);
  add_head(config.head, builder);
  if (config.vision) add_vision(*config.vision, builder);

  builder.add_string(kTokenizerModel, "gpt2");
  builder.add_string(kTokenizerPre, "qwen35");
  add_tokens(tokenizer, builder);
  if (!texts.tokenizer_config.empty()) {
    const Json document = TRY(parse_json_file("tokenizer_config.json", texts.tokenizer_config));
    const JsonFields fields = TRY(JsonFields::of("tokenizer_config.json", document));
    TRY(add_named_token(tokenizer, fields, "eos_token", kEosTokenId, builder));
    TRY(add_named_token(tokenizer, fields, "pad_token", kPaddingTokenId, builder));
  }
  const Json document = TRY(parse_json_file("tokenizer.json", texts.tokenizer));
  const auto text_of = [&](std::string_view name) {
    const Json* member = document.find(name);
    return member == nullptr ? std::string("null") : to_compact_json(*member);
  };
  builder.add_string(kPreTokenizer, text_of("pre_tokenizer"));
  builder.add_string(kNormalizer, text_of("normalizer"));
  builder.add_string(kSplitPattern, tokenizer.pattern == SplitPattern::qwen2 ? "qwen2" : "qwen35");
  return {};
}

}  // namespace clef
