#include "model/network.h"

#include <algorithm>

namespace clef {

Network::Network(const ModelFile& file, Device& device)
    : config_(file.config), device_(device), loader_(device), arena_(device) {}

Result<std::unique_ptr<Network>> Network::load(const ModelFile& file, Device& device) {
  std::unique_ptr<Network> network(new Network(file, device));
  if (file.config.vision) {
    network->tower_ = TRY(VisionTower::load(file.weights.vision, *file.config.vision, network->loader_));
  }
  network->decoder_ = TRY(Decoder::load(file.weights, file.config.text, network->loader_));
  network->head_ = TRY(Head::load(file.weights, file.config.head, network->loader_));
  return network;
}

Result<std::vector<Result<Decisions>>> Network::run(std::span<const EncodedRecord* const> records, Wrap wrap,
                                                    void* context) {
  const DType activation = device_.activation_dtype();
  std::vector<Result<Decisions>> decisions = TRY(run(records, activation, wrap, context));
  if (activation == DType::f32) return decisions;
  // An activation past the range of f16 is infinite, and reaches every logit of its record and of no other.
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (decisions[i] || decisions[i].error().code != Errc::non_finite) continue;
    decisions[i] = std::move(TRY(run(records.subspan(i, 1), DType::f32, nullptr, nullptr)).front());
  }
  return decisions;
}

Result<std::vector<Result<Decisions>>> Network::run(std::span<const EncodedRecord* const> records, DType activation,
                                                    Wrap wrap, void* context) {
  const Batch batch = TRY(pack(records, config_, device_));
  const bool has_vision = batch.vision.patches > 0;
  const std::size_t head_bytes = HeadScratch::bytes(config_.head, batch);
  // The tower is done before the first layer, so it works in the layers' memory.
  std::size_t bytes = DecoderScratch::bytes(config_.text, batch.tokens, activation) + head_bytes;
  if (has_vision) {
    bytes = std::max(bytes, DecoderScratch::residual_bytes(config_.text, batch.tokens, activation) + head_bytes +
                                VisionScratch::bytes(*config_.vision, batch.vision.patches, activation));
  }
  TRY(arena_.reset(bytes));
  const HeadScratch head_scratch = HeadScratch::take(config_.head, batch, arena_);
  const std::size_t start = arena_.mark();
  const DecoderScratch decoder_scratch = DecoderScratch::take(config_.text, batch.tokens, activation, arena_);
  std::unique_ptr<Pass> pass = device_.begin();
  if (wrap != nullptr) pass = wrap(std::move(pass), context);
  decoder_.embed(*pass, batch, decoder_scratch);
  if (has_vision) {
    arena_.rewind(start + DecoderScratch::residual_bytes(config_.text, batch.tokens, activation));
    const VisionScratch vision_scratch = VisionScratch::take(*config_.vision, batch.vision.patches, activation, arena_);
    tower_->forward(*pass, batch.vision, vision_scratch);
    pass->run(PutRows{.y = decoder_scratch.residual, .x = vision_scratch.out, .index = batch.vision.token_rows});
  }
  decoder_.forward(*pass, batch, decoder_scratch);
  head_.forward(*pass, batch, decoder_scratch.residual, head_scratch);
  TRY(pass->finish());
  std::vector<float> logits(static_cast<std::size_t>(batch.options));
  TRY(device_.download(std::as_writable_bytes(std::span(logits)), head_scratch.logits));
  return decide(batch, logits);
}

std::size_t Network::activation_bytes(std::int64_t tokens) const {
  Batch batch;
  batch.tokens = tokens;
  return DecoderScratch::bytes(config_.text, tokens, device_.activation_dtype()) +
         HeadScratch::bytes(config_.head, batch);
}

}  // namespace clef
