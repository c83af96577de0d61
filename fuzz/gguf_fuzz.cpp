// The whole way from a GGUF's bytes to a model: nothing may crash, hang or allocate beyond what the bytes can hold.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "model/gguf.h"
#include "model/model_file.h"

namespace {

// Every byte that the model points at must be there to read.
void touch(const clef::MappedMatrix& matrix) {
  for (const std::byte& byte : {matrix.bytes.front(), matrix.bytes.back()}) {
    [[maybe_unused]] const volatile std::byte read = byte;
  }
  CHECK(matrix.bytes.size() == static_cast<std::size_t>(matrix.rows * matrix.cols) * clef::size_of(matrix.dtype));
}

void touch(const clef::ModelWeights& weights) {
  touch(weights.embed_tokens);
  touch(weights.lm_head);
  for (const clef::LayerWeights& layer : weights.layers) {
    touch(layer.mlp.gate);
    touch(layer.mlp.up);
    touch(layer.mlp.down);
    if (const auto* delta_net = std::get_if<clef::DeltaNetWeights>(&layer.mixer)) {
      for (const auto* matrix :
           {&delta_net->in_qkv, &delta_net->in_z, &delta_net->in_b, &delta_net->in_a, &delta_net->out}) {
        touch(*matrix);
      }
    } else {
      const auto& attention = std::get<clef::AttentionWeights>(layer.mixer);
      for (const auto* matrix : {&attention.q_gate, &attention.k, &attention.v, &attention.out}) touch(*matrix);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A mapping begins on a page; the fuzzer's buffer may begin anywhere.
  std::vector<std::byte> bytes(size);
  if (size > 0) std::memcpy(bytes.data(), data, size);
  if (const auto gguf = clef::parse_gguf("f", bytes)) {
    for (const auto& [key, value] : gguf->metadata) {
      const clef::GgufArray* array = value.if_array();
      if (array == nullptr) continue;
      if (array->element == clef::GgufType::string) CHECK(array->strings().size() == array->count);
      if (array->holds_integers()) CHECK(array->integers().size() == array->count);
    }
  }
  auto model = clef::parse_gguf_model("f", bytes);
  if (!model) return 0;
  touch(model->weights);
  const auto tokenizer = clef::Tokenizer::create(std::move(model->tokenizer));
  if (tokenizer) {
    for (const std::int32_t id : tokenizer->encode("ab <|end|>'s 12\n")) CHECK(id < model->config.text.vocab_size);
  }
  return 0;
}
