#include "model/decoder.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/known_prefix.h"

namespace clef {

namespace {

DType product_input(Storage storage) { return storage == Storage::f32 ? DType::f32 : DType::f16; }

// Calls take(part, tensor, rows, cols, dtype) for the matrices of each part, in order, and `take_low` for their low
// parts; the parts' memory starts at the same place.
template <typename Take, typename TakeLow>
void each_part(DecoderScratch& s, const TextConfig& config, const TokenRows& rows, Storage storage, Take take_rows,
               TakeLow take_low) {
  const auto take = [&](int part, Tensor& tensor, std::int64_t cols, DType dtype) {
    take_rows(part, tensor, rows.tokens, cols, dtype);
  };
  const auto take_all = [&](int part, Tensor& tensor, std::int64_t cols, DType dtype) {
    take_rows(part, tensor, rows.all_tokens, cols, dtype);
  };
  const DType input = product_input(storage), inner = storage == Storage::f16 ? DType::f16 : DType::f32;
  const bool has_low = storage == Storage::f16_and_low;
  take(0, s.qkvz, config.conv_width() + config.value_width(), inner);
  take_all(0, s.query, config.key_width(), inner);
  take_all(0, s.key, config.key_width(), inner);
  take_all(0, s.value, config.value_width(), inner);
  take(0, s.mixed, config.value_width(), inner);
  take(0, s.gated, config.value_width(), input);
  if (has_low) take_low(0, s.gated_low, config.value_width());
  take(1, s.qgkv, 2 * config.query_width() + 2 * config.kv_width(), input);
  take(1, s.q, config.query_width(), input);
  take(1, s.attended, config.query_width(), input);
  if (rows.all_tokens > rows.tokens) take_all(1, s.kv, 2 * config.kv_width(), input);
  take(2, s.activated, config.intermediate_size, input);
  if (!has_low) return;
  take_low(2, s.activated_low, config.intermediate_size);
  take(2, s.low_sums, 2 * config.intermediate_size, DType::f16);
  take(2, s.remainder, config.intermediate_size, DType::f16);
}

std::size_t low_bytes(std::int64_t rows, std::int64_t cols) {
  return Arena::bytes_for(rows, low_stride(cols), DType::u8) + Arena::bytes_for(1, rows);
}
LowPart take_low_part(std::int64_t rows, std::int64_t cols, Arena& arena) {
  LowPart low;
  low.values = arena.take(rows, low_stride(cols), DType::u8).col_range(0, cols);
  low.scales = arena.take(1, rows);
  return low;
}

// What is of precise rows alone takes the first part of the memory for all.
DecoderScratch with(DecoderScratch s, const PreciseRows& precise) {
  if (!precise) return s;
  for (LowPart* low : {&s.normed_low, &s.gated_low, &s.activated_low}) *low = first_rows(*low, precise.count());
  for (Tensor* t : {&s.low_sums, &s.remainder}) *t = *t ? t->row_range(0, precise.count()) : *t;
  return s;
}

// Of the layers that are precise.
Storage precise_storage(const Precision& precision) {
  return precision.low_parts ? Storage::f16_and_low : Storage::f32;
}
Storage plain_storage(const Precision& precision) {
  return precision.activation == DType::f32 ? Storage::f32 : Storage::f16;
}

}  // namespace

std::size_t DecoderScratch::bytes(const TextConfig& config, const TokenRows& rows, Storage storage) {
  const std::int64_t tokens = rows.tokens;
  DecoderScratch unused;
  std::size_t parts[3] = {};
  each_part(
      unused, config, rows, storage,
      [&](int part, Tensor&, std::int64_t count, std::int64_t cols, DType dtype) {
        parts[part] += Arena::bytes_for(count, cols, dtype);
      },
      [&](int part, LowPart&, std::int64_t cols) { parts[part] += low_bytes(tokens, cols); });
  return Arena::bytes_for(tokens, config.hidden_size, product_input(storage)) +
         (storage == Storage::f16_and_low ? low_bytes(tokens, config.hidden_size) : 0) +
         Arena::bytes_for(tokens, 2 * config.linear_num_value_heads) + std::max({parts[0], parts[1], parts[2]});
}

DecoderScratch DecoderScratch::take(const TextConfig& config, const TokenRows& rows, const Tensor& residual,
                                    Storage storage, Arena& arena) {
  const std::int64_t tokens = rows.tokens;
  DecoderScratch s;
  s.residual = residual;
  s.normed = arena.take(tokens, config.hidden_size, product_input(storage));
  if (storage == Storage::f16_and_low) s.normed_low = take_low_part(tokens, config.hidden_size, arena);
  s.ba = arena.take(tokens, 2 * config.linear_num_value_heads);
  s.b = s.ba.col_range(0, config.linear_num_value_heads);
  s.a = s.ba.col_range(config.linear_num_value_heads, config.linear_num_value_heads);
  const std::size_t start = arena.mark();
  int part_before = 0;
  const auto enter = [&](int part) {
    if (part != part_before) arena.rewind(start);
    part_before = part;
  };
  each_part(
      s, config, rows, storage,
      [&](int part, Tensor& tensor, std::int64_t count, std::int64_t cols, DType dtype) {
        enter(part);
        tensor = arena.take(count, cols, dtype);
      },
      [&](int part, LowPart& low, std::int64_t cols) {
        enter(part);
        low = take_low_part(tokens, cols, arena);
      });
  s.qkv = s.qkvz.col_range(0, config.conv_width());
  s.z = s.qkvz.col_range(config.conv_width(), config.value_width());
  s.q_gate = s.qgkv.col_range(0, 2 * config.query_width());
  s.k = s.qgkv.col_range(2 * config.query_width(), config.kv_width());
  s.v = s.qgkv.col_range(2 * config.query_width() + config.kv_width(), config.kv_width());
  return s;
}

std::size_t DecoderMemory::residual_bytes(const TextConfig& config, std::int64_t tokens) {
  return Arena::bytes_for(tokens, config.hidden_size);
}

std::size_t DecoderMemory::bytes(const TextConfig& config, const TokenRows& rows, const Precision& precision) {
  const auto scratch = [&](Storage storage) { return DecoderScratch::bytes(config, rows, storage); };
  std::size_t most = scratch(plain_storage(precision));
  if (precision.precise_layers > 0) most = std::max(most, scratch(precise_storage(precision)));
  // With low parts it is about as much as f32; a record that is run again in f32 finds room in any case.
  most = std::max(most, scratch(Storage::f32));
  return residual_bytes(config, rows.tokens) + most;
}

DecoderMemory DecoderMemory::take(const TextConfig& config, const TokenRows& rows, const Precision& precision,
                                  Arena& arena) {
  const Tensor residual = arena.take(rows.tokens, config.hidden_size);
  const std::size_t start = arena.mark();
  DecoderMemory memory;
  memory.precise_layers = precision.precise_layers;
  memory.all_rows_precise = precision.activation == DType::f32;
  memory.rest = DecoderScratch::take(config, rows, residual, plain_storage(precision), arena);
  if (precision.precise_layers > 0) {
    arena.rewind(start);
    memory.precise = DecoderScratch::take(config, rows, residual, precise_storage(precision), arena);
  }
  return memory;
}

Precision precision_for(const TextConfig& config, const Device& device) {
  constexpr std::int64_t kPreciseLayers = 7, kSmallHidden = 1024;
  if (device.activation_dtype() == DType::f32) return {};
  if (!device.precise_layers() && config.hidden_size < kSmallHidden) return {};
  return {.activation = device.activation_dtype(),
          .precise_layers = device.precise_layers().value_or(kPreciseLayers),
          .low_parts = device.has_low_parts()};
}

Result<GatedDeltaNet> GatedDeltaNet::load(const DeltaNetWeights& weights, const TextConfig& config, bool has_low_parts,
                                          WeightLoader& loader) {
  GatedDeltaNet net;
  net.in_qkv_ = TRY(loader.matrix(weights.in_qkv));
  net.in_z_ = TRY(loader.matrix(weights.in_z));
  net.in_b_ = TRY(loader.matrix(weights.in_b));
  net.in_a_ = TRY(loader.matrix(weights.in_a));
  net.conv_ = TRY(loader.table(weights.conv, config.conv_width()));
  net.neg_exp_a_log_ = TRY(loader.vector(weights.neg_exp_a_log));
  net.dt_bias_ = TRY(loader.vector(weights.dt_bias));
  net.norm_ = TRY(loader.vector(weights.norm));
  net.out_ = TRY(loader.matrix(weights.out));
  if (has_low_parts) TRY(loader.low({net.in_qkv_, net.in_z_, net.in_b_, net.in_a_, net.out_}));
  net.key_head_dim_ = config.linear_key_head_dim;
  net.value_head_dim_ = config.linear_value_head_dim;
  net.eps_ = config.rms_norm_eps;
  return net;
}

void GatedDeltaNet::project(Pass& pass, const DecoderScratch& s, const PreciseRows& precise) const {
  pass.run(Projections{.y = s.qkvz,
                       .x = s.normed,
                       .first = in_qkv_,
                       .second = in_z_,
                       .third = {},
                       .gates = s.ba,
                       .gate_first = in_b_,
                       .gate_second = in_a_,
                       .precise = precise,
                       .low = s.normed_low});
}

void GatedDeltaNet::forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const PreciseRows& precise,
                            const std::string& name, std::size_t layer) const {
  pass.mark(name, "in_proj_qkv", s.qkv);
  pass.mark(name, "in_proj_z", s.z);
  pass.mark(name, "in_proj_b", s.b);
  pass.mark(name, "in_proj_a", s.a);
  Tensor known_qkv, known_b, known_a;
  if (batch.known != nullptr) {
    const PrefixRows::Layer& known = batch.known->layers[layer];
    known_qkv = known.qkv;
    known_b = known.ba.col_range(0, s.b.cols);
    known_a = known.ba.col_range(s.b.cols, s.a.cols);
  } else if (batch.kept != nullptr) {
    batch.kept->keep(pass, batch.kept->layers[layer].qkv, s.qkv);
    batch.kept->keep(pass, batch.kept->layers[layer].ba, s.ba);
  }
  pass.run(ShortConv{.q = s.query,
                     .k = s.key,
                     .v = s.value,
                     .x = s.qkv,
                     .weight = conv_,
                     .cu_seqlens = batch.cu_seqlens,
                     .head_dim = key_head_dim_,
                     .prefix = known_qkv});
  pass.run(DeltaNet{.y = s.mixed,
                    .q = s.query,
                    .k = s.key,
                    .v = s.value,
                    .b = s.b,
                    .a = s.a,
                    .neg_exp_a_log = neg_exp_a_log_,
                    .dt_bias = dt_bias_,
                    .cu_seqlens = batch.cu_seqlens,
                    .head_dim = key_head_dim_,
                    .value_dim = value_head_dim_,
                    .prefix_b = known_b,
                    .prefix_a = known_a});
  pass.run(GatedRmsNorm{
      .y = s.gated, .x = s.mixed, .z = s.z, .gain = norm_, .eps = eps_, .low = s.gated_low, .precise = precise});
  pass.mark(name, "gated_norm", s.gated);
  pass.run(LinearAdd{.y = s.residual, .x = s.gated, .w = out_, .bias = {}, .precise = precise, .low = s.gated_low});
}

Result<GatedAttention> GatedAttention::load(const AttentionWeights& weights, const TextConfig& config,
                                            WeightLoader& loader) {
  GatedAttention attention;
  attention.q_gate_ = TRY(loader.matrix(weights.q_gate));
  attention.k_ = TRY(loader.matrix(weights.k));
  attention.v_ = TRY(loader.matrix(weights.v));
  attention.q_norm_ = TRY(loader.vector(weights.q_norm));
  attention.k_norm_ = TRY(loader.vector(weights.k_norm));
  attention.out_ = TRY(loader.matrix(weights.out));
  attention.head_dim_ = config.head_dim;
  attention.height_pairs_ = config.mrope_section[1];
  attention.width_pairs_ = config.mrope_section[2];
  attention.eps_ = config.rms_norm_eps;
  return attention;
}

void GatedAttention::forward(Pass& pass, const Batch& batch, const DecoderScratch& s, const std::string& name,
                             std::size_t layer) const {
  pass.run(Projections{.y = s.qgkv, .x = s.normed, .first = q_gate_, .second = k_, .third = v_});
  pass.mark(name, "q_proj", s.q_gate);
  pass.mark(name, "k_proj", s.k);
  pass.mark(name, "v_proj", s.v);
  pass.run(QkNormRope{.q = s.q,
                      .k = s.k,
                      .q_gate = s.q_gate,
                      .k_raw = s.k,
                      .q_gain = q_norm_,
                      .k_gain = k_norm_,
                      .cos = batch.cos,
                      .sin = batch.sin,
                      .positions = batch.positions,
                      .height_pairs = height_pairs_,
                      .width_pairs = width_pairs_,
                      .eps = eps_});
  pass.mark(name, "q_rope", s.q);
  pass.mark(name, "k_rope", s.k);
  Tensor kv = s.qgkv.col_range(s.q_gate.cols, s.k.cols + s.v.cols);
  if (batch.known != nullptr) {
    pass.run(PrependRows{.y = s.kv, .x = kv, .prefix = batch.known->layers[layer].kv, .cu_seqlens = batch.cu_seqlens});
    kv = s.kv;
  } else if (batch.kept != nullptr) {
    batch.kept->keep(pass, batch.kept->layers[layer].kv, kv);
  }
  pass.run(Attention{.y = s.attended,
                     .q = s.q,
                     .k = kv.col_range(0, s.k.cols),
                     .v = kv.col_range(s.k.cols, s.v.cols),
                     .q_gate = s.q_gate,
                     .cu_seqlens = batch.cu_seqlens,
                     .head_dim = head_dim_,
                     .prefix = batch.known == nullptr ? 0 : batch.known->tokens});
  pass.mark(name, "attended", s.attended);
  pass.run(LinearAdd{.y = s.residual, .x = s.attended, .w = out_, .bias = {}});
}

Result<Decoder> Decoder::load(const ModelWeights& weights, const TextConfig& config, WeightLoader& loader) {
  Decoder decoder;
  decoder.embed_tokens_ = TRY(loader.matrix(weights.embed_tokens));
  decoder.norm_ = TRY(loader.vector(weights.norm));
  decoder.eps_ = config.rms_norm_eps;
  const Precision precision = precision_for(config, loader.device());
  for (const LayerWeights& from : weights.layers) {
    const bool has_low_parts =
        precision.low_parts && static_cast<std::int64_t>(decoder.layers_.size()) < precision.precise_layers;
    DecoderLayer layer;
    layer.name = fmt::format("layer.{}", decoder.layers_.size());
    layer.input_norm = TRY(loader.vector(from.input_norm));
    layer.post_attention_norm = TRY(loader.vector(from.post_attention_norm));
    if (const auto* delta_net = std::get_if<DeltaNetWeights>(&from.mixer)) {
      layer.mixer = TRY(GatedDeltaNet::load(*delta_net, config, has_low_parts, loader));
    } else {
      layer.mixer = TRY(GatedAttention::load(std::get<AttentionWeights>(from.mixer), config, loader));
    }
    layer.gate = TRY(loader.matrix(from.mlp.gate));
    layer.up = TRY(loader.matrix(from.mlp.up));
    layer.down = TRY(loader.matrix(from.mlp.down));
    if (has_low_parts) TRY(loader.low({layer.gate, layer.up, layer.down}));
    decoder.layers_.push_back(std::move(layer));
  }
  return decoder;
}

void Decoder::embed(Pass& pass, const Batch& batch, const DecoderMemory& memory) const {
  pass.run(Embed{.y = memory.residual(), .ids = batch.ids, .table = embed_tokens_});
  pass.mark("embeddings", {}, memory.residual());
}

void Decoder::project_tokens(Pass& pass, const Tensor& ids, const DecoderMemory& memory,
                             const FirstProducts& to) const {
  const DecoderLayer& layer = layers_.front();
  DecoderScratch s = memory.precise_layers > 0 ? memory.precise : memory.rest;
  s.qkvz = to.qkvz;
  s.ba = to.ba;
  pass.run(Embed{.y = s.residual, .ids = ids, .table = embed_tokens_});
  pass.run(RmsNorm{.y = s.normed, .x = s.residual, .gain = layer.input_norm, .eps = eps_, .low = s.normed_low});
  std::get<GatedDeltaNet>(layer.mixer).project(pass, s, {});
}

void Decoder::forward(Pass& pass, const Batch& batch, const DecoderMemory& memory) const {
  const Tensor residual = memory.residual();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    const bool is_precise = static_cast<std::int64_t>(i) < memory.precise_layers;
    const PreciseRows precise = is_precise && !memory.all_rows_precise ? batch.precise : PreciseRows{};
    const DecoderScratch mlp = is_precise ? with(memory.precise, precise) : memory.rest;
    DecoderScratch mixer = std::holds_alternative<GatedAttention>(layer.mixer) ? memory.rest : mlp;
    // Of what the very first product reads all rows are precise.
    const PreciseRows precise_in = i == 0 ? PreciseRows{} : precise;
    if (i == 0 && is_precise) mixer.normed_low = memory.precise.normed_low;
    const auto* const delta_net = std::get_if<GatedDeltaNet>(&layer.mixer);
    if (i == 0 && batch.of_tokens != nullptr) {
      pass.run(TakeRows{.y = mixer.qkvz, .ids = batch.ids, .table = batch.of_tokens->qkvz});
      pass.run(TakeRows{.y = mixer.ba, .ids = batch.ids, .table = batch.of_tokens->ba});
    } else {
      pass.run(RmsNorm{.y = mixer.normed,
                       .x = residual,
                       .gain = layer.input_norm,
                       .eps = eps_,
                       .low = mixer.normed_low,
                       .precise = precise_in});
      if (delta_net != nullptr) delta_net->project(pass, mixer, precise_in);
    }
    if (delta_net != nullptr) {
      delta_net->forward(pass, batch, mixer, precise, layer.name, i);
    } else {
      std::get<GatedAttention>(layer.mixer).forward(pass, batch, mixer, layer.name, i);
    }
    pass.run(RmsNorm{.y = mlp.normed,
                     .x = residual,
                     .gain = layer.post_attention_norm,
                     .eps = eps_,
                     .low = mlp.normed_low,
                     .precise = precise});
    pass.run(LinearSwiglu{.y = mlp.activated,
                          .x = mlp.normed,
                          .gate = layer.gate,
                          .up = layer.up,
                          .precise = precise,
                          .low = mlp.normed_low,
                          .y_low = mlp.activated_low,
                          .low_sums = mlp.low_sums,
                          .remainder = mlp.remainder});
    pass.run(LinearAdd{
        .y = residual, .x = mlp.activated, .w = layer.down, .bias = {}, .precise = precise, .low = mlp.activated_low});
    pass.mark(layer.name, {}, residual);
  }
  pass.run(RmsNorm{.y = residual, .x = residual, .gain = norm_, .eps = eps_});  // in f32: the head wants it so
  pass.mark("hidden", {}, residual);
}

}  // namespace clef
