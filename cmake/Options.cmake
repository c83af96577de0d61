# Build options and the flags that every target shares.
option(CLEF_TESTS "Build the tests" ON)
option(CLEF_FUZZ "Build the libFuzzer harnesses (needs clang)" OFF)
option(CLEF_WERROR "Treat warnings as errors" ON)
set(CLEF_CUDA AUTO CACHE STRING "Build the CUDA backend: ON, OFF, or AUTO, where nvcc is found")
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

if(CLEF_METAL_HOST)
  message(WARNING "CLEF_METAL_HOST is on, but this source tree has no such backend yet; the build is the CPU's.")
endif()

# Machine code for Hopper, and code for every GPU since Ampere that the driver compiles when it is first loaded.
set(CLEF_WITH_CUDA OFF)
if(NOT CLEF_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(CLEF_WITH_CUDA ON)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90a-real)
    endif()
    if(CLEF_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CLEF_CCACHE})
    endif()
    list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/cuda_compile)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
  elseif(CLEF_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CLEF_CUDA is ON, but no nvcc was found: set CMAKE_CUDA_COMPILER, or CLEF_CUDA=OFF.")
  endif()
endif()
message(STATUS "CUDA backend: ${CLEF_WITH_CUDA}")

# CHECK is ours and stays on in release; NDEBUG would only touch the standard library's asserts.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_library(clef_flags INTERFACE)
target_compile_options(clef_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wconversion;-Wshadow>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)  # a*b+c must not become fma behind our back: the bits would depend on the compiler
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 finds overlap in "literal" + std::string where there is none (GCC bug 105651).
  target_compile_options(clef_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
target_compile_options(clef_flags INTERFACE
  # As on the CPU: no fma but where it is written. fmt 9 takes nvcc for a compiler without constexpr.
  "$<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-Wall,-Wextra,-ffp-contract=off;-DFMT_USE_CONSTEXPR=1;-DFMT_CONSTEVAL=>")
if(CLEF_WERROR)
  target_compile_options(clef_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
if(CLEF_SANITIZE)
  target_compile_options(clef_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CLEF_SANITIZE};-fno-omit-frame-pointer;-g>)
  target_link_options(clef_flags INTERFACE -fsanitize=${CLEF_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # The sanitizers' own branches make g++ warn of values in Boost that are never read unset (GCC's manual: -fsanitize).
    target_compile_options(clef_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  if(CLEF_SANITIZE MATCHES "undefined")
    target_compile_options(clef_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize-recover=undefined>)
  endif()
endif()
