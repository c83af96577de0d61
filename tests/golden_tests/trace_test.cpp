// Every stage of one record's forward pass against the reference's trace.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "backend/open.h"
#include "engine/engine.h"
#include "model/safetensors.h"
#include "support/golden.h"

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

TEST(Trace, MatchesTheReferenceStageByStage) {
  std::string request;
  for (const Json& golden : test::golden_lines("text.jsonl")) {
    if (*golden.find("name")->if_string() == "noul_instructions") request = *golden.find("request_text")->if_string();
  }
  ASSERT_FALSE(request.empty());
  const auto path = std::filesystem::path(testing::TempDir()) / "clef_trace_test.safetensors";
  auto device = open_device({});
  auto engine = Engine::open(test::test_data_path("clef-tiny"), std::move(device).value(),
                             {.encode = {}, .max_batch_tokens = 16384, .trace = path});
  ASSERT_TRUE(engine) << engine.error().message;
  ASSERT_TRUE((*engine)->answer(request));

  const std::string expected_bytes = test::read_file(test::golden_path("trace_text.safetensors"));
  const std::string actual_bytes = test::read_file(path);
  std::filesystem::remove(path);
  const auto expected = parse_safetensors("golden", std::as_bytes(std::span(expected_bytes)));
  const auto actual = parse_safetensors("trace", std::as_bytes(std::span(actual_bytes)));
  ASSERT_TRUE(expected) << expected.error().message;
  ASSERT_TRUE(actual) << actual.error().message;
  // The trace names what the reference's modules return: q_norm and k_norm before rotary, the mixers' outputs before
  // they join the residual. Our ops fuse past those points; the stages around them are compared.
  const std::map<std::string, bool> fused = {{"input_ids", true},
                                             {"layer.0.out_proj", true},
                                             {"layer.3.o_proj", true},
                                             {"layer.3.q_norm", true},
                                             {"layer.3.k_norm", true}};
  int compared = 0;
  for (const auto& [name, tensor] : *expected) {
    if (fused.contains(name)) continue;
    const auto ours = floats(*actual, name), golden = floats(*expected, name);
    ASSERT_GE(ours.size(), golden.size()) << name;
    const double d = distance(golden, ours);
    EXPECT_LE(d, 1e-5) << name;
    std::printf("%-24s %.1e\n", name.c_str(), d);
    ++compared;
  }
  EXPECT_EQ(compared, 23);
}

}  // namespace
}  // namespace clef
