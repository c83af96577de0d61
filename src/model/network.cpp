#include "model/network.h"

#include <algorithm>

namespace clef {

Network::Network(const ModelFile& file, Device& device)
    : config_(file.config),
      device_(device),
      loader_(device),
      packing_(file.config, device),
      arena_(device),
      prefix_(device) {}

Result<std::unique_ptr<Network>> Network::load(const ModelFile& file, Device& device, bool has_token_table) {
  std::unique_ptr<Network> network(new Network(file, device));
  if (file.config.vision) {
    network->tower_ = TRY(VisionTower::load(file.weights.vision, *file.config.vision, network->loader_));
  }
  network->decoder_ = TRY(Decoder::load(file.weights, file.config.text, network->loader_));
  network->head_ = TRY(Head::load(file.weights, file.config.head, network->loader_));
  if (has_token_table) {
    auto table = TokenTable::make(network->decoder_, file.config.text, device);
    // Others may have taken the memory meanwhile: nothing is lost but time.
    if (!table && table.error().code != Errc::out_of_memory) return table.error();
    if (table) network->token_table_ = std::move(table).value();
  }
  return network;
}

Result<std::vector<Result<Decisions>>> Network::run(std::span<const EncodedRecord* const> records, Wrap wrap,
                                                    void* context) {
  const Precision precision = precision_for(config_.text, device_);
  std::vector<Result<Decisions>> decisions = TRY(run(records, precision, shares_prefix_, wrap, context));
  if (precision.activation == DType::f32) return decisions;
  // An activation past the range of f16 is infinite, and reaches every logit of its record and of no other.
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (decisions[i] || decisions[i].error().code != Errc::non_finite) continue;
    auto again = run(records.subspan(i, 1), Precision{}, false, nullptr, nullptr);
    decisions[i] = again ? std::move(again->front()) : std::move(again).error();
  }
  return decisions;
}

Result<std::vector<Result<Decisions>>> Network::run(std::span<const EncodedRecord* const> records,
                                                    const Precision& precision, bool shares_prefix, Wrap wrap,
                                                    void* context) {
  const bool is_known = shares_prefix && prefix_.is_of(records);
  const std::int64_t new_prefix = shares_prefix && !is_known ? KnownPrefix::tokens_of(records) : 0;
  // Without room to keep them nothing is lost but time.
  const bool keeps =
      new_prefix > 0 && prefix_.begin(*records.front(), new_prefix, config_.text, config_.head, precision);
  Batch batch = TRY(pack(records, config_, packing_, is_known ? &prefix_.rows() : nullptr));
  batch.kept = keeps ? &prefix_.rows() : nullptr;
  const bool has_vision = batch.vision.patches > 0;
  // Where media stand, the first layer reads what the tower made.
  const bool looks_up = token_table_ != nullptr && token_table_->is_for(precision) && !has_vision;
  batch.of_tokens = looks_up ? &token_table_->rows() : nullptr;
  const std::size_t head_bytes = HeadScratch::bytes(config_.head, batch);
  const std::size_t residual_bytes = DecoderMemory::residual_bytes(config_.text, batch.tokens);
  // The tower is done before the first layer, so it works in the layers' memory.
  const TokenRows rows{.tokens = batch.tokens, .all_tokens = batch.all_tokens};
  std::size_t bytes = DecoderMemory::bytes(config_.text, rows, precision);
  if (has_vision) {
    const std::size_t tower_bytes = VisionScratch::bytes(*config_.vision, batch.vision.patches, precision.activation);
    bytes = std::max(bytes, residual_bytes + tower_bytes);
  }
  TRY(arena_.reset(bytes + head_bytes));
  const HeadScratch head_scratch = HeadScratch::take(config_.head, batch, arena_);
  const std::size_t start = arena_.mark();
  const DecoderMemory memory = DecoderMemory::take(config_.text, rows, precision, arena_);
  std::unique_ptr<Pass> pass = device_.begin();
  if (wrap != nullptr) pass = wrap(std::move(pass), context);
  decoder_.embed(*pass, batch, memory);
  if (has_vision) {
    arena_.rewind(start + residual_bytes);
    const VisionScratch vision_scratch =
        VisionScratch::take(*config_.vision, batch.vision.patches, precision.activation, arena_);
    tower_->forward(*pass, batch.vision, vision_scratch);
    pass->run(PutRows{.y = memory.residual(), .x = vision_scratch.out, .index = batch.vision.token_rows});
  }
  decoder_.forward(*pass, batch, memory);
  head_.forward(*pass, batch, memory.residual(), head_scratch);
  // Asked for at once, so that they come with the end of the pass; they count once it has succeeded.
  std::vector<float> logits(static_cast<std::size_t>(batch.options));
  const Status downloaded = device_.download(std::as_writable_bytes(std::span(logits)), head_scratch.logits);
  TRY(pass->finish());
  TRY(downloaded);
  if (keeps) prefix_.succeed();
  return decide(batch, logits);
}

std::size_t Network::activation_bytes(std::int64_t tokens) const {
  Batch batch;
  batch.tokens = batch.all_tokens = tokens;
  const TokenRows rows{.tokens = tokens, .all_tokens = tokens};
  return DecoderMemory::bytes(config_.text, rows, precision_for(config_.text, device_)) +
         HeadScratch::bytes(config_.head, batch);
}

}  // namespace clef
