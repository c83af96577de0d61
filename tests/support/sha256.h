// SHA-256 as hexadecimal, which golden files hold in place of large data.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace clef::test {

std::string sha256(std::span<const std::byte> bytes);

}  // namespace clef::test
