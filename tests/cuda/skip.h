// A test that needs what this machine lacks is skipped, and says so.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

// Nothing where `reason`, an expression of a std::string, is empty.
#define SKIP_BECAUSE(reason)                            \
  if (const std::string why = (reason); !why.empty()) { \
    std::printf("not checked here: %s\n", why.c_str()); \
    GTEST_SKIP() << why;                                \
  }
