// Requests with media: what is taken, what is refused and in which order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "record/encode.h"
#include "record/media_positions.h"
#include "support/golden.h"
#include "support/pictures.h"

namespace clef {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = [] {
    auto definition = parse_tokenizer(test::read_file(test::golden_path("clef-tiny/tokenizer.json")),
                                      test::read_file(test::golden_path("clef-tiny/tokenizer_config.json")));
    CHECK(definition.has_value(), "{}", definition.error().message);
    auto tokenizer = Tokenizer::create(std::move(definition).value());
    CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
    return std::move(tokenizer).value();
  }();
  return loaded;
}

constexpr std::int32_t kImagePad = 4012;
const VisionInput kVision = {
    .image_token_id = kImagePad, .video_token_id = 4013, .vision_start_token_id = 4009, .vision_end_token_id = 4010};

// `members`: what follows the questions, such as R"("images":[])".
std::string request_text(std::string_view members, std::string_view state = "x") {
  return fmt::format(R"({{"model":"m","state":"{}","questions":{{"a":{{"type":"noul"}}}},{}}})", state, members);
}

Result<Request> parse(std::string_view text) { return parse_request(TRY(parse_json(text))); }

Result<EncodedRecord> encode_text(std::string_view text, const EncodeOptions& options = {.vision = kVision}) {
  return encode(TRY(parse(text)), tokenizer(), options);
}

std::string parse_error(std::string_view members) {
  const auto request = parse(request_text(members));
  if (request) return "none";
  EXPECT_EQ(request.error().code, Errc::bad_request);
  return request.error().message;
}

std::string encode_error(std::string_view members, const EncodeOptions& options = {.vision = kVision}) {
  const auto record = encode_text(request_text(members), options);
  return record ? "none" : record.error().message;
}

std::string quoted(const std::string& text) { return '"' + text + '"'; }
std::string images(const std::string& list) { return R"("images":[)" + list + "]"; }
std::string golden(const std::string& name) { return test::read_file(test::golden_path("images/" + name)); }

// A picture of one colour, 64 x 64 unless asked otherwise.
std::string bmp(std::int64_t width = 64, std::int64_t height = 64, std::uint8_t level = 128) {
  const std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3), level);
  return test::to_base64(test::bmp_of(pixels, width, height));
}

std::string video(std::size_t frames, std::string_view more = R"("fps":24)", std::int64_t side = 64) {
  std::string list;
  for (std::size_t i = 0; i < frames; ++i) list += (i == 0 ? "" : ",") + quoted(bmp(side, side));
  return fmt::format(R"("videos":[{{"frames":[{}],{}}}])", list, more);
}
std::string with_kwargs(const std::string& members, std::string_view kwargs) {
  return fmt::format(R"({},"media_kwargs":{})", members, kwargs);
}
std::string with_videos_kwargs(const std::string& members, std::string_view kwargs) {
  return with_kwargs(members, fmt::format(R"({{"videos_kwargs":{}}})", kwargs));
}

TEST(MediaRequest, TakesAPictureInEveryForm) {
  const std::string base64 = test::to_base64(golden("rgb.png"));
  const auto expected = encode_text(request_text(images(quoted(base64))));
  ASSERT_TRUE(expected.has_value()) << expected.error().message;
  for (const std::string& form : {
           quoted("data:image/png;base64," + base64),
           quoted("DATA:IMAGE/PNG;BASE64," + base64),
           quoted("data:;base64," + base64),
           quoted("data:image/png;name=x.png;base64," + base64),
           fmt::format(R"({{"content_type":"image/png","base64":"{}"}})", base64),
           fmt::format(R"({{"base64":"{}","content_type":"Image/PNG"}})", base64),
       }) {
    const auto record = encode_text(request_text(images(form)));
    ASSERT_TRUE(record.has_value()) << record.error().message;
    EXPECT_EQ(record->input_ids, expected->input_ids);
    EXPECT_EQ(record->media[0].patches, expected->media[0].patches);
  }
  const std::string jpeg = test::to_base64(golden("gray.jpg"));
  EXPECT_EQ(encode_error(images(quoted("data:image/jpg;base64," + jpeg))), "none");
}

TEST(MediaRequest, TakesWhatIsFalseToPythonForNone) {
  const auto expected = encode_text(request_text(R"("x":1)"));
  for (const std::string_view none : {"null", "[]", "false", "0", "\"\"", "{}"}) {
    const auto record =
        encode_text(request_text(fmt::format(R"("images":{},"videos":{},"media_kwargs":[1])", none, none)), {});
    ASSERT_TRUE(record.has_value()) << record.error().message;
    EXPECT_EQ(record->input_ids, expected->input_ids);
    EXPECT_TRUE(record->positions.empty());
  }
}

TEST(MediaRequest, RefusesOtherForms) {
  const std::string data = test::to_base64(golden("tiny_1x1.png"));
  const std::pair<std::string, std::string> cases[] = {
      {R"("images":"x")",
       "images must be a list of data URLs or {\"content_type\", \"base64\"} objects (PNG, JPEG, WebP, GIF or BMP)"},
      {images("1"), "images[0]: must be a data URL string or {\"content_type\", \"base64\"}"},
      {images(quoted(data) + ",null"), "images[1]: must be a data URL string or {\"content_type\", \"base64\"}"},
      {images("{}"), "images[0]: an image object needs content_type and base64 strings"},
      {images(R"({"content_type":"image/png","base64":1})"),
       "images[0]: an image object needs content_type and base64 strings"},
      {images(R"({"content_type":"image/tiff","base64":""})"),
       "images[0]: content_type must be image/png, image/jpeg, image/webp, image/gif or image/bmp"},
      {images(R"({"content_type":"image/png","base64":"data:,"})"), "images[0]: base64 must not be a data URL"},
      {images(quoted("data:image/png;base64")), "images[0]: data URL without a comma"},
      {images(quoted("data:image/png," + data)), "images[0]: data URL is not base64"},
      {images(quoted("data:,")), "images[0]: data URL is not base64"},
      {images(quoted("data:image/svg+xml;base64," + data)),
       "images[0]: data URL media type must be image/png, image/jpeg, image/webp, image/gif or image/bmp, not "
       "image/svg+xml"},
      {images(quoted("data:base64," + data)), "images[0]: data URL is not base64"},
      {images(quoted("http://example.com/a.png")),
       "images[0]: http URLs are not fetched; send the file itself as a data URL"},
      {images(quoted("HTTPS://example.com/a.png")),
       "images[0]: https URLs are not fetched; send the file itself as a data URL"},
      {images(quoted("file:///etc/passwd")),
       "images[0]: file URLs are not fetched; send the file itself as a data URL"},
      {R"("videos":"x")", "videos must be a list"},
      {R"("videos":["x"])",
       "videos[0]: video must be {frames,fps}; compressed video is not read, send its frames as pictures"},
      {R"("videos":[{"content_type":"video/mp4","base64":""}])",
       "videos[0]: video must be {frames,fps}; compressed video is not read, send its frames as pictures"},
      {R"("videos":[{"frames":["x","http://a"],"fps":1}])",
       "videos[0].frames[1]: http URLs are not fetched; send the file itself as a data URL"},
      {R"("videos":[{"frames":["x"],"fps":1,"name":"x"}])",
       "videos[0]: frame video accepts frames, fps and optional frame_indices with total_num_frames"},
      {R"("videos":[{"frames":["x"],"fps":1,"frame_indices":[0]}])",
       "videos[0]: frame video accepts frames, fps and optional frame_indices with total_num_frames"},
  };
  for (const auto& [members, message] : cases) EXPECT_EQ(parse_error(members), message);
  for (const std::string_view bad :
       {R"({"frames":[],"fps":1})", R"({"frames":{},"fps":1})", R"({"frames":["x"],"fps":0})",
        R"({"frames":["x"],"fps":-1})", R"({"frames":["x"],"fps":true})", R"({"frames":["x"],"fps":NaN})",
        R"({"frames":["x"],"fps":1000.5})", R"({"frames":["x"],"fps":0.001})", R"({"frames":["x"],"fps":"24"})"}) {
    EXPECT_EQ(parse_error(fmt::format(R"("videos":[{}])", bad)),
              "videos[0]: frames must contain 1..18000 images with positive fps and duration <= 600 seconds");
  }
}

TEST(MediaRequest, RefusesOtherSettings) {
  const std::string image = images(quoted("x"));
  const std::string clip = R"("videos":[{"frames":["x","x"],"fps":24}])";
  const std::pair<std::string, std::string> cases[] = {
      {with_kwargs(image, "[1]"), "media_kwargs must be an object"},
      {with_kwargs(image, R"({"min_pixels":4096})"),
       "media_kwargs: give both min_pixels and max_pixels (the reference ignores one alone)"},
      {with_kwargs(image, R"({"max_pixels":4096})"),
       "media_kwargs: give both min_pixels and max_pixels (the reference ignores one alone)"},
      {with_kwargs(image, R"({"size":{}})"),
       "media_kwargs: only min_pixels, max_pixels and videos_kwargs are supported, not size"},
      {with_kwargs(image, R"({"min_pixels":0,"max_pixels":1})"), "media_kwargs: min_pixels must be a positive integer"},
      {with_kwargs(image, R"({"min_pixels":1,"max_pixels":2147483648})"),
       "media_kwargs: max_pixels must be a positive integer"},
      {with_kwargs(image, R"({"min_pixels":1.0,"max_pixels":2})"),
       "media_kwargs: min_pixels must be a positive integer"},
      {with_kwargs(image, R"({"min_pixels":true,"max_pixels":2})"),
       "media_kwargs: min_pixels must be a positive integer"},
      {with_kwargs(image, R"({"min_pixels":5,"max_pixels":4})"), "media_kwargs: min_pixels exceeds max_pixels"},
      {with_videos_kwargs(image, "1"), "none"},  // not looked at without videos
      {with_videos_kwargs(clip, "1"), "videos[0]: videos_kwargs must be an object"},
      {with_videos_kwargs(clip, R"({"x":1})"), "videos[0]: unsupported videos_kwargs: x"},
      {with_videos_kwargs(clip, R"({"fps":0})"), "videos[0]: sampling fps must be finite and in (0,1000]"},
      {with_videos_kwargs(clip, R"({"fps":Infinity})"), "videos[0]: sampling fps must be finite and in (0,1000]"},
      {with_videos_kwargs(clip, R"({"fps":"2"})"), "videos[0]: sampling fps must be finite and in (0,1000]"},
      {with_videos_kwargs(clip, R"({"num_frames":0})"), "videos[0]: num_frames must be a positive integer"},
      {with_videos_kwargs(clip, R"({"num_frames":2.0})"), "videos[0]: num_frames must be a positive integer"},
      {with_videos_kwargs(clip, R"({"do_sample_frames":1})"), "videos[0]: do_sample_frames must be boolean"},
      {with_videos_kwargs(clip, R"({"fps":2,"num_frames":2})"),
       "videos[0]: choose sampling fps or num_frames; neither with do_sample_frames=false"},
      {with_videos_kwargs(clip, R"({"fps":2,"do_sample_frames":false})"),
       "videos[0]: choose sampling fps or num_frames; neither with do_sample_frames=false"},
      {with_videos_kwargs(clip, R"({"fps":null,"num_frames":2})"), "none"},
      {with_videos_kwargs(clip, R"({"size":{"shortest_edge":2}})"),
       "videos[0]: video size needs positive shortest_edge <= longest_edge"},
      {with_videos_kwargs(clip, R"({"size":{"shortest_edge":2,"longest_edge":1}})"),
       "videos[0]: video size needs positive shortest_edge <= longest_edge"},
  };
  for (const auto& [members, message] : cases) EXPECT_EQ(parse_error(members), message) << members;
}

TEST(MediaRequest, ChecksTheIndicesOfSampledFrames) {
  const auto with = [](std::string_view indices, std::string_view total, bool sampling = false) {
    return with_videos_kwargs(fmt::format(R"("videos":[{{"frames":["x","x"],"fps":10,"frame_indices":{},)"
                                          R"("total_num_frames":{}}}])",
                                          indices, total),
                              fmt::format(R"({{"do_sample_frames":{}}})", sampling));
  };
  EXPECT_EQ(parse_error(with("[0,5]", "6")), "none");
  constexpr std::string_view kShape =
      "videos[0]: frame_indices requires do_sample_frames=false, one index per frame and a bounded total_num_frames";
  EXPECT_EQ(parse_error(with("[0,5]", "6", true)), kShape);
  EXPECT_EQ(parse_error(with("[0]", "6")), kShape);
  EXPECT_EQ(parse_error(with("{}", "6")), kShape);
  EXPECT_EQ(parse_error(with("[0,5]", "18001")), kShape);
  EXPECT_EQ(parse_error(with("[0,5]", "6001")), kShape);  // over 600 seconds
  constexpr std::string_view kOrder =
      "videos[0]: frame_indices must be strictly increasing integers in [0,total_num_frames)";
  for (const std::string_view bad : {"[5,5]", "[5,0]", "[-1,0]", "[0,6]", "[0,1.0]", "[0,null]"}) {
    EXPECT_EQ(parse_error(with(bad, "6")), kOrder);
  }
}

TEST(MediaEncode, AModelWithoutATowerRefusesMedia) {
  const auto image = encode_text(request_text(images(quoted("x"))), {});
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, Errc::unsupported);
  EXPECT_EQ(image.error().message, "images are not supported by this model file (no vision tower)");
  EXPECT_EQ(encode_error(video(2), {}), "videos are not supported by this model file (no vision tower)");
}

TEST(MediaEncode, SaysWhichPictureIsBadAndWhy) {
  const std::string good = quoted(bmp());
  const std::string png = test::to_base64(golden("tiny_1x1.png"));
  EXPECT_EQ(encode_error(images(good + R"(,"AAA")")),
            "images[1]: base64 length is not a multiple of 4 (padding required)");
  EXPECT_EQ(encode_error(images(R"("AA A")")), "images[0]: invalid base64 character");
  EXPECT_EQ(encode_error(images(R"("data:;base64,")")), "images[0]: empty");
  EXPECT_EQ(encode_error(images(R"("AAAA")")), "images[0]: not a PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(encode_error(images(quoted("data:image/jpeg;base64," + png))),
            "images[0]: data URL media type says JPEG but the data is PNG");
  EXPECT_EQ(encode_error(images(fmt::format(R"({{"content_type":"image/webp","base64":"{}"}})", png))),
            "images[0]: content_type says WebP but the data is PNG");
  EXPECT_EQ(encode_error(images(R"({"content_type":"image/png","base64":"AAAA"})")),
            "images[0]: content_type says PNG but the data is none of PNG, JPEG, WebP, GIF and BMP");
  EXPECT_EQ(encode_error(images(good + "," + quoted(test::to_base64(golden("rgb.png").substr(0, 4000))))),
            "images[1]: invalid or unsupported PNG: the file ends early");
  EXPECT_EQ(encode_error(images(quoted(bmp(1, 201)))),
            "images[0]: 1x201: absolute aspect ratio must be smaller than 200, got 201.0");
  EXPECT_EQ(encode_error(fmt::format(R"("videos":[{{"frames":["{}","AAAA"],"fps":24}}])", bmp())),
            "videos[0].frames[1]: not a PNG, JPEG, WebP, GIF or BMP");
  EXPECT_EQ(encode_error(fmt::format(R"("videos":[{{"frames":["{}","{}"],"fps":24}}])", bmp(), bmp(64, 96))),
            "videos[0]: video frame dimensions differ");
  EXPECT_EQ(encode_error(video(1)), "videos[0]: a video needs at least 2 sampled frames, got 1");
}

TEST(MediaEncode, KeepsToItsLimits) {
  const auto limited = [](MediaLimits limits) { return EncodeOptions{.vision = kVision, .media_limits = limits}; };
  const std::string one = quoted(bmp(64, 64)), two = one + "," + one;
  EXPECT_EQ(encode_error(images(two), limited({.max_images = 2})), "none");
  EXPECT_EQ(encode_error(images(two), limited({.max_images = 1})), "too many images: 2, at most 1 per request");
  EXPECT_EQ(encode_error(images(two), limited({.max_image_pixels = 4096})), "none");
  EXPECT_EQ(encode_error(images(two), limited({.max_image_pixels = 4095})),
            "images[0]: 64x64 is 4096 pixels, above the limit of 4095 per image");
  EXPECT_EQ(encode_error(images(one), limited({.max_image_tokens = 64})), "none");
  EXPECT_EQ(encode_error(images(one), limited({.max_image_tokens = 63})),
            "images[0]: 64x64 resizes to 64 tokens, above the limit of 63 per image; downscale it or pass "
            "media_kwargs.max_pixels <= 64512");
  const std::string clip = video(10);  // 4 frames, 2 slices of 4 tokens
  EXPECT_EQ(encode_error(clip + R"(,"x":1)", limited({.max_videos = 1, .max_video_frames = 4, .max_video_tokens = 8})),
            "none");
  EXPECT_EQ(encode_error(clip, limited({.max_video_frames = 3})),
            "videos[0]: video has 4 sampled frames, above the limit of 3 or its source count; lower "
            "videos_kwargs.fps/num_frames");
  EXPECT_EQ(encode_error(clip, limited({.max_video_tokens = 7})),
            "videos[0]: video resizes to 8 tokens, above the limit of 7 per video; lower "
            "videos_kwargs.size.longest_edge");
  EXPECT_EQ(encode_error(clip, limited({.max_image_pixels = 4095})),
            "videos[0].frames[0]: 64x64 is 4096 pixels, above the limit of 4095 per image");
  EXPECT_EQ(
      encode_error(fmt::format(R"("videos":[{0},{0}])", R"({"frames":["x"],"fps":1})"), limited({.max_videos = 1})),
      "too many videos: 2, at most 1 per request");
  EXPECT_EQ(encode_error(with_videos_kwargs(video(3), R"({"num_frames":4})")),
            "videos[0]: video has 4 sampled frames, above the limit of 768 or its source count; lower "
            "videos_kwargs.fps/num_frames");
  EXPECT_EQ(encode_error(images(two), limited(MediaLimits::server())), "none");
}

TEST(MediaEncode, RefusesMediaThatDoNotFitTheContext) {
  const auto alone = encode_text(request_text(images(quoted(bmp()))));
  ASSERT_TRUE(alone.has_value()) << alone.error().message;
  const auto length = static_cast<std::int64_t>(alone->input_ids.size());
  const auto options = [&](std::int64_t max_length) {
    return EncodeOptions{.max_length = max_length, .vision = kVision};
  };
  EXPECT_EQ(encode_error(images(quoted(bmp())), options(length)), "none");
  EXPECT_EQ(encode_error(images(quoted(bmp())), options(length - 1)),
            fmt::format("images[0]: 64x64 resizes to 64 tokens; with 0 image tokens before it and {} tokens of prompt, "
                        "schema and untruncated state the request cannot fit {} tokens",
                        length - 66, length - 1));
  EXPECT_EQ(
      encode_error(images(quoted(bmp()) + "," + quoted(bmp())), options(length)),
      fmt::format("images[1]: 64x64 resizes to 64 tokens; with 66 image tokens before it and {} tokens of prompt, "
                  "schema and untruncated state the request cannot fit {} tokens",
                  length - 66, length));
  const auto clip = encode_text(request_text(video(10)));
  ASSERT_TRUE(clip.has_value()) << clip.error().message;
  const auto clip_length = static_cast<std::int64_t>(clip->input_ids.size());
  EXPECT_EQ(encode_error(video(10), options(clip_length)), "none");
  EXPECT_EQ(encode_error(video(10), options(clip_length - 1))
                .find("videos[0]: video tokens and prompt cannot fit the context"),
            0U);
}

TEST(MediaEncode, ChecksLimitsBeforeItDecodes) {
  const std::string broken = quoted(test::to_base64(golden("photo_1024.jpg").substr(0, 4000)));  // the header is whole
  EXPECT_EQ(encode_error(images(broken)), "images[0]: invalid or unsupported JPEG: Premature end of input file");
  const EncodeOptions few_tokens{.vision = kVision, .media_limits = {.max_image_tokens = 100}};
  EXPECT_EQ(encode_error(images(broken), few_tokens).find("images[0]: 1024x1024 resizes to 1024 tokens, above"), 0U);
  const EncodeOptions short_context{.max_length = 600, .vision = kVision};
  EXPECT_EQ(encode_error(images(broken), short_context).find("images[0]: 1024x1024 resizes to 1024 tokens; with 0"),
            0U);
  // The second picture's limit comes before the first one's pixels, and a state that does not fit before both.
  EXPECT_EQ(encode_error(images(broken + "," + quoted(bmp(1, 201)))).find("images[1]: 1x201: absolute aspect"), 0U);
  std::string words;
  for (int i = 0; i < 600; ++i) words += "word ";
  const auto state = encode_text(request_text(images(R"("AAAA")"), words), short_context);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().message.find("state needs more than "), 0U) << state.error().message;
  const auto schema = encode_text(request_text(images(R"("AAAA")")), {.max_length = 60, .vision = kVision});
  ASSERT_FALSE(schema);
  EXPECT_EQ(schema.error().message.find("schema requires "), 0U) << schema.error().message;
}

TEST(MediaEncode, CutsTheStateToWhatMediaLeave) {
  std::string words;
  for (int i = 0; i < 600; ++i) words += "word ";
  const std::string text = request_text(images(quoted(bmp())), words);
  const EncodeOptions options{.max_length = 500, .truncate = true, .vision = kVision};
  const auto record = encode_text(text, options);
  ASSERT_TRUE(record.has_value()) << record.error().message;
  EXPECT_EQ(record->input_ids.size(), 500U);
  EXPECT_GT(record->truncated_state_tokens, 0);
  EXPECT_EQ(record->media[0].token_spans, (std::vector<Span>{{record->media_offset + 1, 64}}));
  const auto whole = encode_text(text);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(record->truncated_state_tokens, static_cast<std::int64_t>(whole->input_ids.size()) - 500);
}

TEST(MediaEncode, PadsInTextAreAnErrorUnlessStrict) {
  for (const std::string_view pad : {"<|image_pad|>", "<|video_pad|>"}) {
    const std::string in_state = request_text(images(quoted(bmp())), pad);
    const auto refused = encode_text(in_state);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::bad_request);
    EXPECT_EQ(refused.error().message, "image placeholder tokens in request content do not match features");
    const auto strict = encode_text(in_state, {.strict = true, .vision = kVision});
    ASSERT_TRUE(strict.has_value()) << strict.error().message;
    EXPECT_EQ(std::count(strict->input_ids.begin(), strict->input_ids.end(), kImagePad), 64);
    const auto in_schema = encode_text(
        fmt::format(R"({{"model":"m","state":1,"questions":{{"a":{{"type":"noul","instructions":"{}"}}}},{}}})", pad,
                    images(quoted(bmp()))));
    ASSERT_FALSE(in_schema);
    EXPECT_EQ(in_schema.error().message, "image placeholder tokens in request content do not match features");
    EXPECT_TRUE(encode_text(request_text(R"("x":1)", pad)));  // without media nobody counts
  }
}

TEST(MediaEncode, TakesFramesSampledBefore) {
  const std::string clip = with_videos_kwargs(video(3, R"("fps":10,"frame_indices":[0,7,30],"total_num_frames":31)"),
                                              R"({"do_sample_frames":false})");
  const auto record = encode_text(request_text(clip));
  ASSERT_TRUE(record.has_value()) << record.error().message;
  EXPECT_EQ(record->media[0].grid_t, 2);
  // An odd last frame is its own partner: times (0 + 0.7) / 2 and (3 + 3) / 2.
  std::vector<std::int32_t> expected = {4009};
  for (const std::string_view time : {"<0.3 seconds>", "<3.0 seconds>"}) {
    for (const std::int32_t id : tokenizer().encode(time)) expected.push_back(id);
    expected.push_back(4009);
    expected.insert(expected.end(), 4, 4013);
    expected.push_back(4010);
  }
  expected.push_back(4010);
  const auto first = record->input_ids.begin() + record->media_offset;
  EXPECT_EQ((std::vector(first, first + static_cast<std::ptrdiff_t>(expected.size()))), expected);
  EXPECT_EQ(record->media[0].patches, std::vector<std::uint8_t>(2 * 16 * 1536, 128));
}

// An image of 24 x 10 tokens after 20 tokens of text.
TEST(MediaPositions, GoOnPastTheLongerSide) {
  EncodedMedia image;
  image.grid_h = 48;
  image.grid_w = 20;
  image.token_spans = {{.first = 20, .count = 240}};
  const auto positions = media_positions(263, {&image, 1});
  ASSERT_EQ(positions.size(), 263U);
  EXPECT_EQ(positions[19], (std::array{19, 19, 19}));
  EXPECT_EQ(positions[20], (std::array{20, 20, 20}));
  EXPECT_EQ(positions[29], (std::array{20, 20, 29}));
  EXPECT_EQ(positions[30], (std::array{20, 21, 20}));
  EXPECT_EQ(positions[259], (std::array{20, 43, 29}));
  EXPECT_EQ(positions[260], (std::array{44, 44, 44}));
  EXPECT_EQ(positions[262], (std::array{46, 46, 46}));
}

}  // namespace
}  // namespace clef
