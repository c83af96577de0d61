#include "fetch/partial_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <thread>

#include "support/golden.h"
#include "support/scratch.h"

namespace clef::fetch {
namespace {

constexpr std::uint64_t kSize = 100'000;

class PartialFileTest : public testing::Test {
 protected:
  PartialFileTest() : data_(kSize, '\0') {
    std::minstd_rand random(1);
    for (char& c : data_) c = static_cast<char>(random());
    Digest digest(DigestKind::sha256, kSize);
    digest.update(std::as_bytes(std::span(data_)));
    file_ = {"weights", kSize, digest.hex()};
  }

  std::unique_ptr<PartialFile> open() { return std::move(PartialFile::open(scratch_.path() / "p", file_)).value(); }
  void write(PartialFile& partial, std::uint64_t first, std::uint64_t end, bool note = true) {
    ASSERT_TRUE(partial.write(first, std::as_bytes(std::span(data_)).subspan(first, end - first)));
    if (!note) return;
    ASSERT_TRUE(partial.note({first, end}));
  }

  test::ScratchFolder scratch_;
  std::string data_;
  ManifestFile file_;
};

TEST_F(PartialFileTest, HashesPiecesInAnyOrder) {
  auto partial = open();
  write(*partial, 60'000, 100'000);
  write(*partial, 0, 30'000);
  EXPECT_EQ(partial->missing(), (std::vector<ByteRange>{{30'000, 60'000}}));
  ASSERT_TRUE(partial->hash_forward());
  write(*partial, 30'000, 60'000);
  EXPECT_TRUE(partial->missing().empty());
  EXPECT_EQ(partial->finish().value(), file_.digest);
  ASSERT_TRUE(partial->place(scratch_.path() / "weights"));
  EXPECT_EQ(test::read_file(scratch_.path() / "weights"), data_);
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "p"));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "p.done"));
}

TEST_F(PartialFileTest, GoesOnWithWhatWasNoted) {
  {
    auto partial = open();
    EXPECT_FALSE(partial->is_resumed());
    write(*partial, 0, 10'000);
    write(*partial, 50'000, 60'000);
    write(*partial, 90'000, 95'000, false);  // never noted: a kill came first
  }
  auto partial = open();
  EXPECT_TRUE(partial->is_resumed());
  EXPECT_EQ(partial->bytes_done(), 20'000U);
  EXPECT_GE(partial->bytes_placed(), 25'000U) << "what was not noted has its place too";
  EXPECT_LE(partial->bytes_placed(), kSize);
  EXPECT_EQ(partial->missing(), (std::vector<ByteRange>{{10'000, 50'000}, {60'000, kSize}}));
  write(*partial, 10'000, 50'000);
  write(*partial, 60'000, kSize);
  EXPECT_EQ(partial->finish().value(), file_.digest);
}

TEST_F(PartialFileTest, BytesThatWentBadAreSeen) {
  {
    auto partial = open();
    write(*partial, 0, kSize);
  }
  {
    std::fstream file(scratch_.path() / "p", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5);
    file.put(static_cast<char>(data_[5] ^ 1));
  }
  EXPECT_NE(open()->finish().value(), file_.digest);
}

TEST_F(PartialFileTest, AJournalOfAnotherFileOrNoneBeginsAgain) {
  const auto begins_again = [&](const std::string& journal) {
    {
      auto partial = open();
      write(*partial, 0, 1000);
    }
    std::ofstream(scratch_.path() / "p.done", std::ios::binary) << journal;
    return open()->bytes_done() == 0;
  };
  const std::string head = fmt::format("cleffa partial 1 {} {}\n", kSize, file_.digest);
  EXPECT_TRUE(begins_again(""));
  EXPECT_TRUE(begins_again("0 1000\n"));
  EXPECT_TRUE(begins_again(fmt::format("cleffa partial 1 {} {}\n0 1000\n", kSize, std::string(64, '0'))));
  EXPECT_TRUE(begins_again(fmt::format("cleffa partial 1 {} {}\n0 1000\n", kSize - 1, file_.digest)));
  EXPECT_TRUE(begins_again(head + "0 1000"));  // cut short
  EXPECT_TRUE(begins_again(head + "0 100001\n1000 0\n-1 5\n0 10 20\nx\n\n"));
  EXPECT_FALSE(begins_again(head + "0 1000\n"));
}

TEST_F(PartialFileTest, AJournalWithoutItsBytesBeginsAgain) {
  {
    auto partial = open();
    write(*partial, 0, 1000);
  }
  std::filesystem::resize_file(scratch_.path() / "p", 500);
  EXPECT_EQ(open()->bytes_done(), 0U);
}

TEST_F(PartialFileTest, ALinkInItsPlaceIsNotFollowed) {
  scratch_.write("precious", "precious");
  std::filesystem::create_symlink(scratch_.path() / "precious", scratch_.path() / "p");
  EXPECT_FALSE(PartialFile::open(scratch_.path() / "p", file_));
  EXPECT_EQ(test::read_file(scratch_.path() / "precious"), "precious");
}

TEST_F(PartialFileTest, ThreadsMayShareIt) {
  auto partial = open();
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t first = t * 1000; first < kSize; first += 4000) {
        EXPECT_TRUE(partial->write(first, std::as_bytes(std::span(data_)).subspan(first, 1000)));
        EXPECT_TRUE(partial->note({first, first + 1000}));
        EXPECT_TRUE(partial->hash_forward());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(partial->missing().empty());
  EXPECT_EQ(partial->finish().value(), file_.digest);
}

}  // namespace
}  // namespace clef::fetch
