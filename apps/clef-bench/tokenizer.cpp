// Text to ids, on one thread.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "clef-bench/bench.h"
#include "text/tokenizer.h"

namespace clef::bench {

namespace {
std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
}  // namespace

int bench_tokenizer(const Settings& settings, const std::string& folder, const std::string& file) {
  auto definition = parse_tokenizer(read_all(folder + "/tokenizer.json"), read_all(folder + "/tokenizer_config.json"));
  if (!definition) {
    std::fprintf(stderr, "clef-bench: %s\n", definition.error().message.c_str());
    return 1;
  }
  auto tokenizer = Tokenizer::create(std::move(definition).value());
  if (!tokenizer) {
    std::fprintf(stderr, "clef-bench: %s\n", tokenizer.error().message.c_str());
    return 1;
  }
  const std::string text = read_all(file);
  std::size_t ids = 0;
  double peak = 0;
  const double seconds = time_beside_peak(
      settings, [&] { ids = tokenizer->encode(text).size(); }, peak);
  std::printf("%s: %zu bytes, %zu ids, %.1f ms, %.1f MB/s on one thread\n", machine_name().c_str(), text.size(), ids,
              seconds * 1e3, static_cast<double>(text.size()) / seconds / 1e6);
  return 0;
}

}  // namespace clef::bench
