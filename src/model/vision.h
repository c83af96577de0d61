// The vision tower: patches to rows that replace pad embeddings.      Source: Qwen3_5VisionModel.forward.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/arena.h"
#include "model/config.h"
#include "model/device_weights.h"
#include "model/rope.h"
#include "model/weights.h"
#include "ops/device.h"
#include "record/encode.h"

namespace clef {

// How a batch's patches lie: it follows from the grids of its images and videos alone.
struct VisionLayout {
  explicit VisionLayout(Device& device) : tables(device) {}
  std::vector<std::array<std::int64_t, 3>> grids;  // of each, in patches: time, height, width
  std::int64_t patches = 0;                        // in all
  Tensor position_taps;                            // [patches, 4]  i32: rows of the position table
  Tensor position_weights;                         // [patches, 4]  f32
  Tensor cos, sin;                                 // [patches, head_dim / 2]  f32
  Tensor cu_segments;   // [1, segments + 1]  i32: an image is one segment, a video one for each slice
  DeviceTables tables;  // owns the above
};

// All images and videos of a batch, packed.
struct VisionBatch {
  std::int64_t patches = 0, merged = 0;        // merged: rows that leave the tower, a quarter of the patches
  Tensor levels;                               // [patches, patch width]  u8
  Tensor token_rows;                           // [1, merged]  i32: the batch's token that each merged row replaces
  std::shared_ptr<const VisionLayout> layout;  // none without patches
};

// Of an axis of patches: half of a head's pairs turn with the row, half with the column.
std::vector<float> vision_frequencies(const VisionConfig& config);

// A layout on the host, in the making. Who packs again and again keeps it, and with it the memory, whose pages would
// cost more than what is written there.
struct VisionLists {
  void start(std::size_t count, std::size_t angles);  // of patches in all, and of a row or column of them
  std::vector<std::int32_t> cu_segments, taps;        // as VisionLayout's
  std::vector<float> weights, cos, sin;
  std::size_t patches = 0;  // that are there
};

// What packing keeps from batch to batch: the last layout, since images of one size often follow each other.
struct VisionPacking {
  VisionPacking(const VisionConfig& config, Device& device_) : device(device_), angles(vision_frequencies(config)) {}
  Device& device;
  AngleTable angles;
  VisionLists lists;
  std::shared_ptr<const VisionLayout> layout;
};

// `first_tokens[i]` is the batch's first token of records[i]. What lies on the device of it is `tables`' and the
// layout's.
Result<VisionBatch> pack_vision(std::span<const EncodedRecord* const> records,
                                std::span<const std::int64_t> first_tokens, const VisionConfig& config,
                                VisionPacking& packing, DeviceTables& tables);

struct VisionScratch {
  Tensor x;                 // [patches, width]  f32, as `out`; the others are of the type asked for
  Tensor normed, attended;  // [patches, width]
  Tensor qkv;               // [patches, 3 * width]
  Tensor inner;             // [patches, intermediate]
  Tensor merger_inner;      // [merged, merge width]
  Tensor out;               // [merged, out hidden]  f32

  static std::size_t bytes(const VisionConfig& config, std::int64_t patches, DType activation);
  static VisionScratch take(const VisionConfig& config, std::int64_t patches, DType activation, Arena& arena);
};

class VisionTower {
 public:
  static Result<VisionTower> load(const VisionWeights& weights, const VisionConfig& config, WeightLoader& loader);

  // Leaves the rows in s.out, [merged, out_hidden_size].
  void forward(Pass& pass, const VisionBatch& batch, const VisionScratch& s) const;

 private:
  struct Block {
    std::string name;  // "block.0"
    DeviceNorm norm1, norm2;
    DeviceLinear qkv, proj, fc1, fc2;
  };
  DeviceLinear patch_embed_;
  Tensor pos_embed_;
  std::vector<Block> blocks_;
  DeviceNorm merger_norm_;
  DeviceLinear merger_fc1_, merger_fc2_;
  std::int64_t head_dim_ = 0;
};

}  // namespace clef
