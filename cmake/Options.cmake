# Build options and the flags that every target shares.
option(CLEF_TESTS "Build the tests" ON)
option(CLEF_FUZZ "Build the libFuzzer harnesses (needs clang)" OFF)
option(CLEF_WERROR "Treat warnings as errors" ON)
option(CLEF_CUDA "Build the CUDA backend (none yet)" OFF)
option(CLEF_METAL_HOST "Build the Metal kernels as C++ for the host's tests (none yet)" OFF)
set(CLEF_SANITIZE "" CACHE STRING "Sanitizers to build with, such as address,undefined or thread")
if(CLEF_FUZZ AND NOT CLEF_SANITIZE)
  set(CLEF_SANITIZE address,undefined)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# ccache, where it is installed and the compiler is not already a link to it.
find_program(CLEF_CCACHE ccache)
if(CLEF_CCACHE AND NOT CMAKE_CXX_COMPILER MATCHES "ccache")
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CLEF_CCACHE})
endif()

# Homebrew keeps OpenSSL out of the compiler's way, in a folder of its own.
find_program(CLEF_BREW brew)
if(APPLE AND CLEF_BREW AND NOT OPENSSL_ROOT_DIR)
  execute_process(COMMAND ${CLEF_BREW} --prefix openssl@3 OUTPUT_VARIABLE OPENSSL_ROOT_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()

foreach(backend CUDA METAL_HOST)
  if(CLEF_${backend})
    message(WARNING "CLEF_${backend} is on, but this source tree has no such backend yet; the build is the CPU's.")
  endif()
endforeach()

# CHECK is ours and stays on in release; NDEBUG would only touch the standard library's asserts.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(clef_flags INTERFACE)
target_compile_options(clef_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow
  -ffp-contract=off)  # a*b+c must not become fma behind our back: the bits would depend on the compiler
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 finds overlap in "literal" + std::string where there is none (GCC bug 105651).
  target_compile_options(clef_flags INTERFACE -Wno-restrict)
endif()
if(CLEF_WERROR)
  target_compile_options(clef_flags INTERFACE -Werror)
endif()
if(CLEF_SANITIZE)
  target_compile_options(clef_flags INTERFACE -fsanitize=${CLEF_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(clef_flags INTERFACE -fsanitize=${CLEF_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The sanitizers' own branches make g++ warn of values in Boost that are never read unset (GCC's manual: -fsanitize).
    target_compile_options(clef_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(CLEF_SANITIZE MATCHES "undefined")
    target_compile_options(clef_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
