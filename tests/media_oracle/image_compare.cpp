// Decodes the picture files whose paths come on standard input, one a line. Writes a line for each:
//   WIDTH HEIGHT SHA256-OF-RGB   or   error MESSAGE
#include <cstdio>
#include <iostream>
#include <span>
#include <string>

#include "media/image.h"
#include "support/golden.h"
#include "support/sha256.h"

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    const std::string file = clef::test::read_file(path);
    const auto image = clef::decode_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()});
    if (image) {
      std::printf("%lld %lld %s\n", static_cast<long long>(image->width), static_cast<long long>(image->height),
                  clef::test::sha256(std::as_bytes(image->bytes())).c_str());
    } else {
      std::printf("error %s\n", image.error().message.c_str());
    }
  }
}
