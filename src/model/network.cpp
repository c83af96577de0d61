#include "model/network.h"

namespace clef {

Network::Network(const ModelFile& file, Device& device)
    : config_(file.config), device_(device), loader_(device), arena_(device) {}

Result<std::unique_ptr<Network>> Network::load(const ModelFile& file, Device& device) {
  std::unique_ptr<Network> network(new Network(file, device));
  network->decoder_ = TRY(Decoder::load(file.weights, file.config.text, network->loader_));
  network->head_ = TRY(Head::load(file.weights, file.config.head, network->loader_));
  return network;
}

Result<std::vector<Result<Decisions>>> Network::run(std::span<const EncodedRecord* const> records, Wrap wrap,
                                                    void* context) {
  const Batch batch = TRY(pack(records, config_.text, device_));
  TRY(arena_.reset(DecoderScratch::bytes(config_.text, batch.tokens) + HeadScratch::bytes(config_.head, batch)));
  const DecoderScratch decoder_scratch = DecoderScratch::take(config_.text, batch.tokens, arena_);
  const HeadScratch head_scratch = HeadScratch::take(config_.head, batch, arena_);
  std::unique_ptr<Pass> pass = device_.begin();
  if (wrap != nullptr) pass = wrap(std::move(pass), context);
  decoder_.forward(*pass, batch, decoder_scratch);
  head_.forward(*pass, batch, decoder_scratch.normed, head_scratch);
  TRY(pass->finish());
  std::vector<float> logits(static_cast<std::size_t>(batch.options));
  TRY(device_.download(std::as_writable_bytes(std::span(logits)), head_scratch.logits));
  return decide(batch, logits);
}

std::size_t Network::activation_bytes(std::int64_t tokens) const {
  Batch batch;
  batch.tokens = tokens;
  return DecoderScratch::bytes(config_.text, tokens) + HeadScratch::bytes(config_.head, batch);
}

}  // namespace clef
