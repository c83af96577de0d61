// The metadata of a Clef GGUF.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/snapshot.h"
#include "text/tokenizer.h"

namespace clef {

Status add_metadata(const ModelConfig& config, const TokenizerDefinition& tokenizer, const SnapshotTexts& texts,
                    GgufBuilder& builder);

}  // namespace clef
