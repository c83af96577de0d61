// Every stage of one record's forward pass against the reference's trace.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

#include "backend/open.h"
#include "engine/engine.h"
#include "model/safetensors.h"
#include "support/golden.h"
#include "support/pictures.h"

namespace clef {
namespace {

// Relative L2 distance of the last rows of `actual` from `expected`, which may hold the last rows alone.
double distance(std::span<const float> expected, std::span<const float> actual) {
  actual = actual.last(expected.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]), d = static_cast<double>(actual[i]) - e;
    difference += d * d;
    norm += e * e;
  }
  return std::sqrt(difference / norm);
}

std::span<const float> floats(const TensorTable& table, const std::string& name) {
  const auto found = table.find(name);
  if (found == table.end()) return {};
  const auto bytes = found->second.bytes;
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// Runs `request` with a trace and compares every stage of the golden file; returns how many there were.
int compare_trace(const std::string& request, const std::string& golden_file) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("clef_" + golden_file);
  auto device = open_device({.device = "cpu"});
  auto engine =
      Engine::open(test::test_data_path("clef-tiny"), std::move(device).value(), {.encode = {}, .trace = path});
  if (!engine) throw std::runtime_error(engine.error().message);
  const auto answer = (*engine)->answer(request);
  if (!answer) throw std::runtime_error(answer.error().message);
  const std::string expected_bytes = test::read_file(test::golden_path(golden_file));
  const std::string actual_bytes = test::read_file(path);
  std::filesystem::remove(path);
  const auto expected = parse_safetensors("golden", std::as_bytes(std::span(expected_bytes))).value();
  const auto actual = parse_safetensors("trace", std::as_bytes(std::span(actual_bytes))).value();
  // The trace names what the reference's modules return: q_norm and k_norm before rotary, the mixers' outputs before
  // they join the residual. Our ops fuse past those points; the stages around them are compared. The other three are
  // inputs, which the record's own tests compare exactly.
  const std::set<std::string> left_out = {"input_ids",      "layer.0.out_proj", "layer.3.o_proj", "layer.3.q_norm",
                                          "layer.3.k_norm", "pixel_values",     "image_grid_thw"};
  int compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (left_out.contains(name)) continue;
    const auto ours = floats(actual, name), golden = floats(expected, name);
    EXPECT_GE(ours.size(), golden.size()) << name;
    if (ours.size() < golden.size()) continue;
    const double d = distance(golden, ours);
    EXPECT_LE(d, 1e-5) << name;
    std::printf("%-24s %.1e\n", name.c_str(), d);
    ++compared;
  }
  return compared;
}

const Json& named(const std::vector<Json>& records, const std::string& name) {
  for (const Json& record : records) {
    if (*record.find("name")->if_string() == name) return record;
  }
  throw std::runtime_error("no golden record " + name);
}

TEST(Trace, MatchesTheReferenceStageByStage) {
  const auto records = test::golden_lines("text.jsonl");
  const std::string& request = *named(records, "noul_instructions").find("request_text")->if_string();
  EXPECT_EQ(compare_trace(request, "trace_text.safetensors"), 23);
}

// The request is the one that the trace's input_ids spell.
TEST(Trace, MatchesTheReferenceThroughTheVisionTower) {
  const Json request = Json::Object{
      {"model", Json("clef")},
      {"state", Json("s")},
      {"questions",
       Json(Json::Object{{"legible", Json(Json::Object{{"type", Json("noul")},
                                                       {"instructions", Json("Is the receipt total legible?")}})}})},
      {"images", Json(Json::Array{Json(test::golden_data_url("rgb.png"))})},
      {"media_kwargs", Json(Json::Object{{"min_pixels", Json(1024)}, {"max_pixels", Json(16384)}})}};
  EXPECT_EQ(compare_trace(to_compact_json(request), "trace_vision.safetensors"), 28);
}

}  // namespace
}  // namespace clef
