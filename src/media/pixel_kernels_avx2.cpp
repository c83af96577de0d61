// The inner loops over pixels for AVX2; compiled with that instruction set's flags, so nothing but the table leaves it.
//
// Two products are summed at a time by _mm256_madd_epi16: int16 weights times pixels widened to int16, exact in int32.
#if defined(__x86_64__)

#include <immintrin.h>

#include "media/pixel_kernels.h"

namespace clef::media {
namespace {

__m128i load16(const std::uint8_t* from) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)); }
void store16(std::uint8_t* to, __m128i value) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to), value); }

// Four pixels (12 of 16 bytes) as r0 r1 g0 g1 b0 b1 0 0, then the same of pixels 2 and 3, each as int16.
__m256i widen_pixel_pairs(__m128i pixels) {
  const __m128i order = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 6, 9, 7, 10, 8, 11, -1, -1);
  return _mm256_cvtepu8_epi16(_mm_shuffle_epi8(pixels, order));
}

void resize_row(const std::uint8_t* in, const AxisView& axis, std::uint8_t* out) {
  const __m256i weight_order = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const __m128i half = _mm_set1_epi32(1 << (axis.precision - 1)), shift = _mm_cvtsi32_si128(axis.precision);
  const std::int16_t* weights = axis.weights;
  for (std::int64_t i = 0; i < axis.size; ++i) {
    const std::uint8_t* pixel = in + 3 * static_cast<std::int64_t>(axis.first[i]);
    __m256i sums = _mm256_setzero_si256();  // r g b 0 of pixels 0, 1 (mod 4) and of 2, 3
    for (std::int64_t j = 0; j < axis.taps; j += kTapStep, pixel += 3 * kTapStep, weights += kTapStep) {
      const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights));
      const __m256i weight_pairs = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(four), weight_order);
      sums = _mm256_add_epi32(sums, _mm256_madd_epi16(widen_pixel_pairs(load16(pixel)), weight_pairs));
    }
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    sum = _mm_sra_epi32(_mm_add_epi32(sum, half), shift);
    const __m128i words = _mm_packs_epi32(sum, sum);
    const int pixel_out = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    out[3 * i] = static_cast<std::uint8_t>(pixel_out);
    out[3 * i + 1] = static_cast<std::uint8_t>(pixel_out >> 8);
    out[3 * i + 2] = static_cast<std::uint8_t>(pixel_out >> 16);
  }
}

// Both weights of two neighbouring rows, for interleaved bytes of them.
__m256i weight_pair(const std::int16_t* weights) {
  return _mm256_set1_epi32(static_cast<int>(static_cast<std::uint16_t>(weights[0]) |
                                            static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[1])) << 16));
}

void blend_rows(const std::uint8_t* const* rows, const std::int16_t* weights, std::int64_t taps, int precision,
                std::int64_t num_bytes, std::uint8_t* out) {
  const __m256i half = _mm256_set1_epi32(1 << (precision - 1));
  const __m128i shift = _mm_cvtsi32_si128(precision);
  std::int64_t x = 0;
  for (; x + 16 <= num_bytes; x += 16) {
    __m256i low = half, high = half;  // columns x .. x + 7 and x + 8 .. x + 15
    for (std::int64_t j = 0; j < taps; j += 2) {
      const __m128i a = load16(rows[j] + x), b = load16(rows[j + 1] + x);
      const __m256i pair = weight_pair(weights + j);
      low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b)), pair));
      high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b)), pair));
    }
    low = _mm256_sra_epi32(low, shift);
    high = _mm256_sra_epi32(high, shift);
    // Packing works within 128-bit lanes: 0-3 8-11 4-7 12-15, put in order by quarters.
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
    store16(out + x, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  for (; x < num_bytes; ++x) {
    std::int32_t sum = 1 << (precision - 1);
    for (std::int64_t j = 0; j < taps; ++j) sum += weights[j] * rows[j][x];
    sum >>= precision;
    out[x] = static_cast<std::uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
}

// Of 48 bytes r0 g0 b0 r1 ..., one colour's 16, gathered from the three 16-byte parts.
__m128i gather(__m128i first, __m128i second, __m128i third, __m128i from_first, __m128i from_second,
               __m128i from_third) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(first, from_first), _mm_shuffle_epi8(second, from_second)),
                      _mm_shuffle_epi8(third, from_third));
}

void split_patch(const std::uint8_t* in, std::int64_t stride, std::uint8_t* planes) {
  const __m128i red1 = _mm_setr_epi8(0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i red2 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14, -1, -1, -1, -1, -1);
  const __m128i red3 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 4, 7, 10, 13);
  const __m128i green1 = _mm_setr_epi8(1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i green2 = _mm_setr_epi8(-1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15, -1, -1, -1, -1, -1);
  const __m128i green3 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 2, 5, 8, 11, 14);
  const __m128i blue1 = _mm_setr_epi8(2, 5, 8, 11, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m128i blue2 = _mm_setr_epi8(-1, -1, -1, -1, -1, 1, 4, 7, 10, 13, -1, -1, -1, -1, -1, -1);
  const __m128i blue3 = _mm_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 3, 6, 9, 12, 15);
  for (int y = 0; y < 16; ++y, in += stride, planes += 16) {
    const __m128i a = load16(in), b = load16(in + 16), c = load16(in + 32);
    store16(planes, gather(a, b, c, red1, red2, red3));
    store16(planes + 512, gather(a, b, c, green1, green2, green3));
    store16(planes + 1024, gather(a, b, c, blue1, blue2, blue3));
  }
}

}  // namespace

constinit const PixelKernels kPixelKernelsAvx2 = {"avx2", resize_row, blend_rows, split_patch};

}  // namespace clef::media

#endif
