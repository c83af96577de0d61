// A Clef GGUF's metadata as the config and the tokenizer that a snapshot would give.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "model/config.h"
#include "model/gguf.h"
#include "text/tokenizer.h"

namespace clef {

// Errors begin with `model: ` and name the key. The config is validated.
Result<ModelConfig> parse_gguf_config(const GgufMetadata& metadata);
Result<TokenizerDefinition> parse_gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace clef
