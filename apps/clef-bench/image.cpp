// A picture file to the patches of the vision tower, on one thread.
#include <fmt/format.h>
#include <time.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <string_view>

#include "clef-bench/bench.h"
#include "media/base64.h"
#include "media/image.h"
#include "media/patchify.h"
#include "media/resize.h"

namespace clef::bench {
namespace {

// What this thread has computed, whatever else the machine is doing.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double time_thread(const std::function<void()>& work) {
  const double start = thread_seconds();
  work();
  return thread_seconds() - start;
}

int fail(const std::string& message) {
  std::fprintf(stderr, "clef-bench: %s\n", message.c_str());
  return 1;
}

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

int bench_image(const Settings& settings, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> text{std::istreambuf_iterator<char>(in), {}};
  const std::span<const std::uint8_t> file(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const auto header = probe_image(file);
  if (!header) return fail(fmt::format("{}: {}", path, header.error().message));
  const auto size = smart_resize(header->height, header->width, {});
  if (!size) return fail(fmt::format("{}: {}", path, size.error().message));

  struct Times {
    std::vector<double> decode, resize, patch, total;
  } times;
  for (int run = -1; run < settings.runs; ++run) {  // the first warms up
    std::optional<Image> image;
    std::vector<std::uint8_t> patches;
    std::string error;
    const double decode = time_thread([&] {
      auto decoded = decode_image(file);
      if (decoded) {
        image = std::move(decoded).value();
      } else {
        error = decoded.error().message;
      }
    });
    if (!image) return fail(fmt::format("{}: {}", path, error));
    const double resized = time_thread([&] { image = resize(std::move(*image), size->height, size->width); });
    const double patched = time_thread([&] {
      patches.resize(static_cast<std::size_t>(patches_bytes(size->height, size->width)));
      patchify(*image, *image, patches.data());
    });
    if (run < 0) continue;
    times.decode.push_back(decode);
    times.resize.push_back(resized);
    times.patch.push_back(patched);
    times.total.push_back(decode + resized + patched);
  }

  std::string base64;
  for (std::size_t i = 0; i < std::size_t{16} << 20; ++i) base64 += kAlphabet[i * 7 % 61];
  std::vector<double> base64_seconds;
  for (int run = 0; run < settings.runs; ++run) {
    base64_seconds.push_back(time_thread([&] {
      if (!decode_base64(base64, base64.size())) std::abort();
    }));
  }

  std::printf("%s, one thread, CPU time, %s pixel kernels\n", machine_name().c_str(), media::best_pixel_kernels().name);
  std::printf("%s: %s %ldx%ld, %zu bytes, to %ldx%ld\n", path.c_str(), std::string(name_of(header->format)).c_str(),
              static_cast<long>(header->width), static_cast<long>(header->height), text.size(),
              static_cast<long>(size->width), static_cast<long>(size->height));
  std::printf("decode %7.2f ms\nresize %7.2f ms\npatch  %7.2f ms\ntotal  %7.2f ms\n", median(times.decode) * 1e3,
              median(times.resize) * 1e3, median(times.patch) * 1e3, median(times.total) * 1e3);
  std::printf("base64 %7.2f GB/s of text\n", static_cast<double>(base64.size()) / median(base64_seconds) / 1e9);
  return 0;
}

}  // namespace clef::bench
