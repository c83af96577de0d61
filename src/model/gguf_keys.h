// Names of the metadata that a Clef GGUF carries, for the reader and the converter.
#pragma once

#include <string_view>

namespace clef::gguf_key {

inline constexpr std::string_view kArchitecture = "general.architecture";
inline constexpr std::string_view kClef = "clef";  // the architecture's value
inline constexpr std::string_view kName = "general.name";

inline constexpr std::string_view kBlockCount = "clef.block_count";
inline constexpr std::string_view kEmbeddingLength = "clef.embedding_length";
inline constexpr std::string_view kFeedForwardLength = "clef.feed_forward_length";
inline constexpr std::string_view kHeadCount = "clef.attention.head_count";
inline constexpr std::string_view kHeadCountKv = "clef.attention.head_count_kv";
inline constexpr std::string_view kKeyLength = "clef.attention.key_length";
inline constexpr std::string_view kValueLength = "clef.attention.value_length";
inline constexpr std::string_view kRmsEpsilon = "clef.attention.layer_norm_rms_epsilon";
inline constexpr std::string_view kRopeBase = "clef.rope.freq_base";
inline constexpr std::string_view kRopeDimensions = "clef.rope.dimension_count";
inline constexpr std::string_view kRopeSections = "clef.rope.mrope_section";
inline constexpr std::string_view kVocabSize = "clef.vocab_size";
inline constexpr std::string_view kLayerTypes = "clef.layer_types";  // 1: full attention, 0: DeltaNet
inline constexpr std::string_view kConvKernel = "clef.ssm.conv_kernel";
inline constexpr std::string_view kSsmKeyHeads = "clef.ssm.k_heads";
inline constexpr std::string_view kSsmValueHeads = "clef.ssm.v_heads";
inline constexpr std::string_view kSsmKeyHeadDim = "clef.ssm.k_head_dim";
inline constexpr std::string_view kSsmValueHeadDim = "clef.ssm.v_head_dim";

inline constexpr std::string_view kHeadWidth = "clef.head.width";
inline constexpr std::string_view kHeadRoutingLayers = "clef.head.routing_layers";
inline constexpr std::string_view kHeadLayers = "clef.head.layers";
inline constexpr std::string_view kHeadHeads = "clef.head.heads";
inline constexpr std::string_view kHeadFeedForward = "clef.head.feedforward";

inline constexpr std::string_view kVisionBlockCount = "clef.vision.block_count";  // absent: a model for text alone
inline constexpr std::string_view kVisionEmbeddingLength = "clef.vision.embedding_length";
inline constexpr std::string_view kVisionFeedForwardLength = "clef.vision.feed_forward_length";
inline constexpr std::string_view kVisionHeadCount = "clef.vision.attention.head_count";
inline constexpr std::string_view kVisionPatchSize = "clef.vision.patch_size";
inline constexpr std::string_view kVisionMergeSize = "clef.vision.spatial_merge_size";
inline constexpr std::string_view kVisionTemporalPatchSize = "clef.vision.temporal_patch_size";
inline constexpr std::string_view kVisionPositions = "clef.vision.position_embeddings";
inline constexpr std::string_view kVisionImageTokenId = "clef.vision.image_token_id";
inline constexpr std::string_view kVisionStartTokenId = "clef.vision.start_token_id";
inline constexpr std::string_view kVisionEndTokenId = "clef.vision.end_token_id";
inline constexpr std::string_view kVisionVideoTokenId = "clef.vision.video_token_id";
inline constexpr std::string_view kVisionMinPixels = "clef.vision.image.min_pixels";
inline constexpr std::string_view kVisionMaxPixels = "clef.vision.image.max_pixels";
inline constexpr std::string_view kVisionImageProcessor = "clef.vision.image_processor";  // sorted JSON
inline constexpr std::string_view kVisionVideoProcessor = "clef.vision.video_processor";  // sorted JSON; optional

inline constexpr std::string_view kTokenizerModel = "tokenizer.ggml.model";
inline constexpr std::string_view kTokenizerPre = "tokenizer.ggml.pre";
inline constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
inline constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";
inline constexpr std::string_view kMerges = "tokenizer.ggml.merges";
inline constexpr std::string_view kEosTokenId = "tokenizer.ggml.eos_token_id";
inline constexpr std::string_view kPaddingTokenId = "tokenizer.ggml.padding_token_id";
inline constexpr std::string_view kPreTokenizer = "clef.tokenizer.pre_tokenizer";  // JSON, as tokenizer.json has it
inline constexpr std::string_view kNormalizer = "clef.tokenizer.normalizer";       // JSON, as tokenizer.json has it
// "qwen2" or "qwen35": the split pattern in use, which tokenizer_class decides and pre_tokenizer alone does not tell.
inline constexpr std::string_view kSplitPattern = "clef.tokenizer.split_pattern";

// Values of token_type. Source: llama.cpp's token types, which GGUF files carry.
inline constexpr int kTokenNormal = 1, kTokenControl = 3, kTokenUserDefined = 4, kTokenUnused = 5;

}  // namespace clef::gguf_key
