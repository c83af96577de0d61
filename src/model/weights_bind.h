// From named tensors to the fields of ModelWeights, by tables: a row says which tensor, of which shape, goes where.
//
// Snapshot and GGUF have each their tables (snapshot_bindings, gguf_bindings) and share the binder, so a field gets the
// same bits from either. A table also serves as the inventory of what a file must hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"
#include "model/weights.h"

namespace clef {

// What happens to a vector's values between the file and the field.
enum class Fold : std::uint8_t {
  none,
  one_plus,  // 1 + w in float32: the backbone's zero-centred norms
  neg_exp,   // -exp(A_log), in double, rounded once
};

// The types a tensor may be stored in.
enum class Storage : std::uint8_t { any_float, bf16, f32 };

// Blocks of a tensor's rows, in order; together they are the whole tensor.
struct MatrixRows {
  MappedMatrix* matrix;
  std::int64_t rows;
};
struct VectorPart {
  std::vector<float>* values;
  std::int64_t count;
};
struct ToMatrices {
  std::vector<MatrixRows> parts;
};
struct ToVectors {
  std::vector<VectorPart> parts;
  Fold fold = Fold::none;
};
// [channels, 1, taps] or [channels, taps] -> tap-major [taps, channels].
struct ToTapMajor {
  std::vector<float>* values;
  std::int64_t taps;
};
struct ToScalar {
  float* value;
};

struct Binding {
  std::string name;
  Shape shape;
  std::variant<ToMatrices, ToVectors, ToTapMajor, ToScalar> target;
  Storage storage = Storage::any_float;
};

// Rows for tables. `rows` of a fused matrix are the sum of its parts'.
Binding matrix(std::string name, MappedMatrix& field, std::int64_t rows, std::int64_t cols);
Binding fused(std::string name, std::vector<MatrixRows> parts, std::int64_t cols);
Binding vector(std::string name, std::vector<float>& field, std::int64_t count, Fold fold = Fold::none);

// Every tensor of a snapshot by its name there, head tensors as "head." + name; `weights` gets its layers sized and
// must outlive the table. Without the MTP layers, which are ignored where a snapshot has them.
std::vector<Binding> snapshot_bindings(const ModelConfig& config, ModelWeights& weights);

// Every tensor of a GGUF.
std::vector<Binding> gguf_bindings(const ModelConfig& config, ModelWeights& weights);

// The head's tensors, whose names snapshot and GGUF share.
void add_head_bindings(const HeadConfig& config, HeadWeights& weights, std::vector<Binding>& bindings);

// Fills the fields. Checks type, shape and alignment of each tensor; a tensor of `table` that no row names is an error.
// Errors begin with the tensor's file, or with `label` for a missing one.
Status bind(std::string_view label, const TensorTable& table, const std::vector<Binding>& bindings);

// One tensor widened to float32 and folded; what the binder, the converter and the verifier all use.
std::vector<float> widen(const FileTensor& tensor, Fold fold);

// Sizes `weights` as `config` says, with each layer's kind of mixer. Fields that already fit keep what they hold.
void size_layers(const ModelConfig& config, ModelWeights& weights);

}  // namespace clef
