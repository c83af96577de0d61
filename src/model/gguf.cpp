#include "model/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "model/gguf_format.h"

namespace clef {

using namespace gguf_format;

namespace {

Error bad(std::string_view file, std::string_view message) {
  return Error{Errc::bad_model, fmt::format("{}: gguf: {}", file, message)};
}

// Bytes of one value of a type of fixed width; 0 for strings and arrays.
std::size_t width_of(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean:
      return 1;
    case GgufType::u16:
    case GgufType::i16:
      return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32:
      return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64:
      return 8;
    case GgufType::string:
    case GgufType::array:
      return 0;
  }
  return 0;
}

bool is_signed(GgufType type) {
  return type == GgufType::i8 || type == GgufType::i16 || type == GgufType::i32 || type == GgufType::i64;
}

// Reads forward; once something did not fit, `ok` is false and everything read is zero.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }
  std::size_t offset() const { return offset_; }
  std::size_t left() const { return bytes_.size() - offset_; }
  void fail() { ok_ = false; }

  std::span<const std::byte> take(std::uint64_t count) {
    if (!ok_ || count > left()) {
      ok_ = false;
      return {};
    }
    const auto taken = bytes_.subspan(offset_, static_cast<std::size_t>(count));
    offset_ += static_cast<std::size_t>(count);
    return taken;
  }
  std::uint64_t number(std::size_t width) {
    const auto raw = take(width);
    std::uint64_t value = 0;
    for (std::size_t i = raw.size(); i-- > 0;) value = value << 8 | std::to_integer<std::uint64_t>(raw[i]);
    return value;
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  std::string_view string() {
    const auto raw = take(u64());
    return {reinterpret_cast<const char*>(raw.data()), raw.size()};
  }
  std::optional<GgufType> type() {
    const std::uint32_t value = u32();
    if (!ok_ || value > static_cast<std::uint32_t>(GgufType::f64)) ok_ = false;
    return ok_ ? std::optional(static_cast<GgufType>(value)) : std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  bool ok_ = true;
};

std::int64_t sign_extend(std::uint64_t value, std::size_t width) {
  const std::size_t shift = 64 - 8 * width;
  return static_cast<std::int64_t>(value << shift) >> shift;
}

constexpr int kMaxNesting = 2;  // an array of arrays, no deeper

// Walks an array's elements without keeping them.
GgufArray read_array(Cursor& cursor, std::span<const std::byte> bytes, int nesting) {
  const std::optional<GgufType> element = cursor.type();
  const std::uint64_t count = cursor.u64();
  if (!element || nesting > kMaxNesting) {
    cursor.fail();
    return {};
  }
  const std::size_t first = cursor.offset();
  if (const std::size_t width = width_of(*element); width != 0) {
    if (count > cursor.left() / width) cursor.fail();
    cursor.take(count * width);
  } else {
    // The shortest string takes 8 bytes and the shortest array 12, so this loop ends by itself on a made-up count.
    for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
      if (*element == GgufType::string) {
        cursor.string();
      } else {
        read_array(cursor, bytes, nesting + 1);
      }
    }
  }
  if (!cursor.ok()) return {};
  return {.element = *element, .count = count, .bytes = bytes.subspan(first, cursor.offset() - first)};
}

GgufValue read_value(Cursor& cursor, std::span<const std::byte> bytes) {
  const std::optional<GgufType> type = cursor.type();
  if (!type) return {};
  GgufValue out{.type = *type, .value = {}};
  const std::size_t width = width_of(*type);
  if (*type == GgufType::string) {
    out.value = cursor.string();
  } else if (*type == GgufType::array) {
    out.value = read_array(cursor, bytes, 1);
  } else if (*type == GgufType::f32) {
    out.value = static_cast<double>(std::bit_cast<float>(cursor.u32()));
  } else if (*type == GgufType::f64) {
    out.value = std::bit_cast<double>(cursor.u64());
  } else if (*type == GgufType::boolean) {
    out.value = cursor.number(width) != 0;
  } else if (is_signed(*type)) {
    // Most writers do not tell signed from unsigned; what is not negative counts as either.
    const std::int64_t value = sign_extend(cursor.number(width), width);
    if (value < 0) {
      out.value = value;
    } else {
      out.value = static_cast<std::uint64_t>(value);
    }
  } else {
    out.value = cursor.number(width);
  }
  return out;
}

Result<std::uint64_t> read_alignment(std::string_view file, const GgufMetadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const std::uint64_t* alignment = found->second.if_unsigned();
  constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 30;
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > kMaxAlignment) {
    return bad(file, "bad alignment: general.alignment must be a power of two");
  }
  return *alignment;
}

struct Extent {
  std::uint64_t first, end;
  const std::string* name;
};

// One row of the tensor table; its bytes are set once the start of the data is known.
struct TableRow {
  std::string name;
  FileTensor tensor;
  std::uint64_t offset = 0, bytes = 0;
};

// ggml's names of the block formats that people are likely to have; empty for other numbers.
std::string_view name_of_quantised(std::uint32_t type) {
  switch (type) {
    case 2:
      return "Q4_0";
    case 3:
      return "Q4_1";
    case 6:
      return "Q5_0";
    case 7:
      return "Q5_1";
    case 8:
      return "Q8_0";
    case 10:
      return "Q2_K";
    case 11:
      return "Q3_K";
    case 12:
      return "Q4_K";
    case 13:
      return "Q5_K";
    case 14:
      return "Q6_K";
    case 15:
      return "Q8_K";
    case 16:
      return "IQ2_XXS";
    case 17:
      return "IQ2_XS";
    case 18:
      return "IQ3_XXS";
    case 19:
      return "IQ1_S";
    case 20:
      return "IQ4_NL";
    case 21:
      return "IQ3_S";
    case 22:
      return "IQ2_S";
    case 23:
      return "IQ4_XS";
    case 29:
      return "IQ1_M";
    case 39:
      return "MXFP4";
    default:
      return "";
  }
}

Result<TableRow> read_row(std::string_view file, Cursor& cursor, std::uint64_t alignment) {
  TableRow row;
  row.name = cursor.string();
  const std::uint32_t num_dims = cursor.u32();
  if (!cursor.ok()) return bad(file, "bad tensor table: it is cut short");
  const auto complain = [&](std::string_view reason) {
    return bad(file, fmt::format("bad tensor table: tensor {} {}", row.name, reason));
  };
  if (num_dims < 1 || num_dims > 4) return complain(fmt::format("has {} dimensions, expected 1 to 4", num_dims));
  constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 60;
  for (std::uint32_t i = 0; i < num_dims; ++i) {
    const std::uint64_t size = cursor.u64();
    if (cursor.ok() && (size == 0 || size > kMaxSize)) return complain(fmt::format("has a dimension of {}", size));
    row.tensor.shape.insert(row.tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  const std::uint32_t type = cursor.u32();
  row.offset = cursor.u64();
  if (!cursor.ok()) return bad(file, "bad tensor table: it is cut short");
  const std::optional<DType> dtype = dtype_of(type);
  if (!dtype) {
    return complain(fmt::format("has type number {}{}, expected F32 (0), F16 (1) or BF16 (30){}", type,
                                name_of_quantised(type).empty() ? "" : fmt::format(" ({})", name_of_quantised(type)),
                                name_of_quantised(type).empty() ? ""
                                                                : "; quantised weights are not read: the released "
                                                                  "values are BF16, and answers would differ"));
  }
  const std::int64_t count = count_of(row.tensor.shape);
  if (count < 0) return complain(fmt::format("has an impossible shape {}", to_string(row.tensor.shape)));
  if (row.offset % alignment != 0)
    return complain(fmt::format("lies at {}, not a multiple of {}", row.offset, alignment));
  row.tensor.file = file;
  row.tensor.dtype = *dtype;
  row.bytes = static_cast<std::uint64_t>(count);
  return row;
}

// Places the rows in the data and checks that they fit and do not share bytes.
Status place(std::string_view file, std::span<const std::byte> data, std::vector<TableRow> rows, Gguf& gguf) {
  std::vector<Extent> extents;
  for (TableRow& row : rows) {
    const std::uint64_t width = size_of(row.tensor.dtype);
    if (row.offset > data.size() || row.bytes > (data.size() - row.offset) / width) {
      return bad(file, fmt::format("tensor data out of bounds: {} wants {} {} at {} of {} bytes", row.name, row.bytes,
                                   name_of(row.tensor.dtype), row.offset, data.size()));
    }
    const std::uint64_t bytes = row.bytes * width;
    row.tensor.bytes = data.subspan(static_cast<std::size_t>(row.offset), static_cast<std::size_t>(bytes));
    gguf.tensor_bytes += bytes;
    const auto [entry, is_new] = gguf.tensors.emplace(std::move(row.name), std::move(row.tensor));
    if (!is_new) return bad(file, fmt::format("bad tensor table: tensor {} is listed twice", entry->first));
    extents.push_back({row.offset, row.offset + bytes, &entry->first});
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.first < b.first; });
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].first >= extents[i - 1].end) continue;
    return bad(file,
               fmt::format("bad tensor table: tensors {} and {} overlap", *extents[i - 1].name, *extents[i].name));
  }
  return {};
}

}  // namespace

std::string_view name_of(GgufType type) {
  constexpr std::string_view kNames[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};
  return kNames[static_cast<std::size_t>(type)];
}

bool GgufArray::holds_integers() const {
  return width_of(element) != 0 && element != GgufType::f32 && element != GgufType::f64 && element != GgufType::boolean;
}

std::vector<std::string_view> GgufArray::strings() const {
  CHECK(element == GgufType::string);
  Cursor cursor(bytes);
  std::vector<std::string_view> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) out.push_back(cursor.string());
  CHECK(cursor.ok());
  return out;
}

std::vector<std::int64_t> GgufArray::integers() const {
  CHECK(holds_integers());
  const std::size_t width = width_of(element);
  Cursor cursor(bytes);
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t value = cursor.number(width);
    out.push_back(is_signed(element) ? sign_extend(value, width) : static_cast<std::int64_t>(value));
  }
  CHECK(cursor.ok());
  return out;
}

namespace {

struct Preamble {
  std::uint64_t num_tensors = 0;
  GgufMetadata metadata;
};

// Everything before the tensor table; leaves the cursor there.
Result<Preamble> read_preamble(std::string_view file, Cursor& cursor, std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return bad(file, fmt::format("file too small: {} bytes", bytes.size()));
  if (cursor.u32() != kMagic) return bad(file, "bad magic: not a GGUF file");
  if (const std::uint32_t version = cursor.u32(); version != kVersion) {
    return bad(file, fmt::format("unsupported version {}, expected {}", version, kVersion));
  }
  Preamble preamble;
  preamble.num_tensors = cursor.u64();
  const std::uint64_t num_keys = cursor.u64();
  if (preamble.num_tensors > bytes.size() / 8 || num_keys > bytes.size() / 8) {
    return bad(file, fmt::format("bad header counts: {} tensors and {} keys in {} bytes", preamble.num_tensors,
                                 num_keys, bytes.size()));
  }
  for (std::uint64_t i = 0; i < num_keys; ++i) {
    const std::string key(cursor.string());
    const GgufValue value = read_value(cursor, bytes);
    if (!cursor.ok()) return bad(file, fmt::format("truncated metadata: key {} of {} does not fit", i + 1, num_keys));
    if (!preamble.metadata.emplace(key, value).second) return bad(file, fmt::format("key {} occurs twice", key));
  }
  return preamble;
}

}  // namespace

Result<GgufMetadata> parse_gguf_metadata(std::string_view file, std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  return TRY(read_preamble(file, cursor, bytes)).metadata;
}

Result<Gguf> parse_gguf(std::string_view file, std::span<const std::byte> bytes) {
  Cursor cursor(bytes);
  Preamble preamble = TRY(read_preamble(file, cursor, bytes));
  Gguf gguf;
  gguf.metadata = std::move(preamble.metadata);
  gguf.alignment = TRY(read_alignment(file, gguf.metadata));
  std::vector<TableRow> rows;
  for (std::uint64_t i = 0; i < preamble.num_tensors; ++i) {
    rows.push_back(TRY(read_row(file, cursor, gguf.alignment)));
  }
  const std::uint64_t data_first = round_up(cursor.offset(), gguf.alignment);
  if (data_first > bytes.size()) {
    if (preamble.num_tensors > 0) return bad(file, "tensor data out of bounds: the file ends after its tensor table");
    return gguf;
  }
  TRY(place(file, bytes.subspan(static_cast<std::size_t>(data_first)), std::move(rows), gguf));
  return gguf;
}

}  // namespace clef
