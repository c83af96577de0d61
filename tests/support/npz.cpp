#include "support/npz.h"

#include <zlib.h>

#include <sstream>
#include <stdexcept>

#include "support/golden.h"

namespace clef::test {
namespace {

std::uint32_t little(const std::string& bytes, std::size_t at, int count) {
  std::uint32_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes.at(at + static_cast<std::size_t>(i))))
             << 8 * i;
  }
  return value;
}

std::string inflate_raw(std::string compressed, std::size_t size) {
  std::string out(size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(compressed.data());
  stream.avail_in = static_cast<uInt>(compressed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::runtime_error("zlib");
  const int result = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (result != Z_STREAM_END || stream.avail_out != 0) throw std::runtime_error("damaged zip member");
  return out;
}

// One member of a zip file, found by its central directory. Source: PKWARE's APPNOTE, sections 4.3.7 and 4.3.12.
std::string zip_member(const std::string& zip, const std::string& name) {
  const std::size_t end = zip.rfind("PK\x05\x06");
  if (end == std::string::npos) throw std::runtime_error("not a zip file");
  std::size_t entry = little(zip, end + 16, 4);
  for (std::uint32_t left = little(zip, end + 10, 2); left > 0; --left) {
    const std::size_t name_bytes = little(zip, entry + 28, 2);
    if (zip.substr(entry + 46, name_bytes) == name) {
      const std::uint32_t method = little(zip, entry + 10, 2), packed = little(zip, entry + 20, 4);
      const std::size_t local = little(zip, entry + 42, 4);
      const std::size_t data = local + 30 + little(zip, local + 26, 2) + little(zip, local + 28, 2);
      const std::string bytes = zip.substr(data, packed);
      return method == 0 ? bytes : inflate_raw(bytes, little(zip, entry + 24, 4));
    }
    entry += 46 + name_bytes + little(zip, entry + 30, 2) + little(zip, entry + 32, 2);
  }
  throw std::runtime_error("no member " + name);
}

}  // namespace

ByteArray read_npz(const std::filesystem::path& path, const std::string& name) {
  const std::string npy = zip_member(read_file(path), name + ".npy");
  // "\x93NUMPY", version 1.0, two bytes of length, and a Python dictionary as text.
  if (npy.compare(1, 5, "NUMPY") != 0 || npy.at(6) != 1) throw std::runtime_error("not an .npy file of version 1");
  const std::size_t header_bytes = little(npy, 8, 2);
  const std::string header = npy.substr(10, header_bytes);
  if (header.find("'|u1'") == std::string::npos || header.find("'fortran_order': False") == std::string::npos) {
    throw std::runtime_error("expected uint8 in C order: " + header);
  }
  const std::string label = "'shape': (";
  const std::size_t shape = header.find(label), shape_end = header.find(')', shape);
  if (shape == std::string::npos || shape_end == std::string::npos) throw std::runtime_error("no shape");
  ByteArray array;
  std::istringstream sizes(header.substr(shape + label.size(), shape_end - shape - label.size()));
  for (std::string size; std::getline(sizes, size, ',');) {
    if (size.find_first_not_of(' ') != std::string::npos) array.shape.push_back(std::stoll(size));
  }
  array.values.assign(npy.begin() + static_cast<std::ptrdiff_t>(10 + header_bytes), npy.end());
  return array;
}

}  // namespace clef::test
