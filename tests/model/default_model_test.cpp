// Where programs look for the demo model when no -m is given.
#include "model/default_model.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/scratch.h"

namespace clef {
namespace {

std::filesystem::path put(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / kDefaultModelFile) << "GGUF";
  return folder / kDefaultModelFile;
}

TEST(DefaultModel, IsFoundBesideAnInstalledProgram) {
  const test::ScratchFolder scratch;
  const auto installed = put(scratch.path() / "usr" / "share" / "cleffa" / "models");
  const auto found = find_default_model(scratch.path() / "usr" / "bin" / "clef");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, installed);
}

TEST(DefaultModel, IsFoundInTheSourceTreeThatTheProgramWasBuiltIn) {
  const test::ScratchFolder scratch;
  const auto kept = put(scratch.path() / "models");
  const auto found = find_default_model(scratch.path() / "build" / "release" / "bin" / "clef");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, kept);
}

TEST(DefaultModel, ThatIsNowhereIsAnErrorThatNamesThePlaces) {
  const test::ScratchFolder scratch;
  const auto found = find_default_model(scratch.path() / "a" / "b" / "c" / "d" / "bin" / "clef");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Errc::io);
  EXPECT_NE(found.error().message.find("-m MODEL is required"), std::string::npos) << found.error().message;
  EXPECT_NE(
      found.error().message.find((scratch.path() / "a" / "b" / "c" / "d" / "share" / "cleffa" / "models").string()),
      std::string::npos)
      << found.error().message;
}

}  // namespace
}  // namespace clef
