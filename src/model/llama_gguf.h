// A Clef GGUF as llama.cpp's converter lays it out: other keys, other tensor names, DeltaNet's value heads in another
// order, the head's scales already computed, no vision tower.
// Source: llama.cpp, conversion/clef.py and conversion/qwen.py; gguf-py's names for the architecture "clef".
#pragma once

#include <memory>
#include <string_view>

#include "base/result.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/weights.h"

namespace clef {

bool is_llama_clef(const GgufMetadata& metadata);

// Errors begin with `model: ` and name the key or tensor. The config is validated.
Result<ModelConfig> parse_llama_config(const Gguf& gguf);

// Fills the fields with the snapshot's own bits. Matrices of F16 or F32 are taken where every value is a BF16 one, as
// it is when the file was made from the release; others are refused. What has to be put in order or narrowed is copied,
// into `owned`; the rest stays mapped.
Status bind_llama_weights(std::string_view label, const Gguf& gguf, const ModelConfig& config, ModelWeights& weights,
                          std::shared_ptr<void>& owned);

}  // namespace clef
