// What people have that is almost a model: each is named, and the message says what to do.
#include "model/other_models.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/download_state.h"
#include "model/hub_cache.h"
#include "model/minimal_model.h"
#include "model/model_file.h"
#include "model/snapshot.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace clef::test {
namespace {

namespace fs = std::filesystem;

class OtherModels : public testing::Test {
 protected:
  void expect(const fs::path& path, std::initializer_list<std::string_view> parts, Errc code = Errc::bad_model) {
    const auto opened = open_model(path);
    ASSERT_FALSE(opened) << path;
    for (const std::string_view part : parts) {
      EXPECT_NE(opened.error().message.find(part), std::string::npos) << part << "\nin: " << opened.error().message;
    }
    EXPECT_EQ(opened.error().code, code) << opened.error().message;
  }
  fs::path write(const fs::path& path, std::string_view text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  ScratchFolder scratch_;
};

constexpr std::string_view kPointer =
    "version https://git-lfs.github.com/spec/v1\noid sha256:8b45a8e9\nsize 4942706120\n";

TEST_F(OtherModels, HalfADownloadNamesWhatIsMissing) {
  const fs::path folder = write_minimal_snapshot(scratch_);
  ASSERT_TRUE(open_model(folder));
  fs::create_directories(folder / kIncompleteFolder);
  expect(folder, {"half a download"});
  write(folder / kManifestFile,
        R"({"repo":"a/b","revision":"r","files":{"config.json":{},"model-00009-of-00009.safetensors":{}}})");
  expect(folder,
         {"half a download: missing model-00009-of-00009.safetensors; go on with `clef-tool fetch a/b --revision "
          "r --dir "});
  write(folder / kManifestFile, "nonsense");
  expect(folder, {"half a download"});
  fs::remove_all(folder / ".cache");
  EXPECT_TRUE(open_model(folder));
}

TEST_F(OtherModels, OtherClientsHalfDownloadsAreKnown) {
  const fs::path folder = write_minimal_snapshot(scratch_);
  write(folder / ".cache/huggingface/download/x.incomplete", "");
  expect(folder, {"half a download", "x.incomplete", "hf download"});
  fs::remove_all(folder / ".cache");
  write(folder / "model-00001-of-00002.safetensors.part", "");
  expect(folder, {"half a download: model-00001-of-00002.safetensors.part"});
}

TEST_F(OtherModels, AMissingShardIsNamed) {
  const fs::path folder = write_minimal_snapshot(scratch_);
  fs::path shard;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with("model-00002")) shard = entry.path();
  }
  ASSERT_FALSE(shard.empty());
  fs::remove(shard);
  expect(folder, {shard.filename().string(), "is the download complete?"}, Errc::io);
}

TEST_F(OtherModels, PointersOfGitLfs) {
  const fs::path folder = write_minimal_snapshot(scratch_);
  write(folder / "joint_head.safetensors", kPointer);
  expect(folder, {"joint_head.safetensors: a git-LFS pointer to a file of 4942706120 bytes", "git lfs pull"});
  expect(write(scratch_.path() / "m.gguf", kPointer), {"a git-LFS pointer"});
}

TEST_F(OtherModels, QuantisedFolders) {
  const fs::path folder = write_minimal_snapshot(scratch_);
  std::string config = read_file(folder / "config.json");
  const auto with = [&](const std::string& member) {
    write(folder / "config.json",
          config.substr(0, config.find('{') + 1) + member + "," + config.substr(config.find('{') + 1));
  };
  with(R"("quantization":{"group_size":64,"bits":4,"mode":"affine"})");
  expect(folder, {"config.json: quantization: quantised weights (bits 4, group_size 64, mode affine)", "BF16"},
         Errc::unsupported);
  with(R"("quantization_config":{"quant_method":"fp8","fmt":"e4m3"})");
  expect(folder, {"config.json: quantization_config: quantised weights (quant_method fp8, fmt e4m3)"},
         Errc::unsupported);
  with(R"("quantization_config":null)");
  EXPECT_TRUE(open_model(folder));
}

TEST_F(OtherModels, FoldersOfOtherKinds) {
  const fs::path base = scratch_.path();
  write(base / "pickle/config.json", "{}");
  write(base / "pickle/pytorch_model.bin", "PK");
  expect(base / "pickle", {"PyTorch files alone (.bin)", "pickled programs"}, Errc::unsupported);
  write(base / "lora/adapter_config.json", "{}");
  expect(base / "lora", {"a LoRA adapter"});
  write(base / "ggufs/a.gguf", "GGUF");
  expect(base / "ggufs", {"give one of them, such as ", "a.gguf"});
  write(base / "outer/inner/config.json", "{}");
  expect(base / "outer", {"did you mean ", "inner?"});
  fs::create_directories(base / "nothing");
  expect(base / "nothing", {"no config.json: expected a snapshot folder"}, Errc::io);
  const fs::path backbone = write_minimal_snapshot(scratch_);
  fs::remove(backbone / "joint_head_config.json");
  expect(backbone, {"a backbone without the joint schema head"}, Errc::io);
}

TEST_F(OtherModels, FilesOfOtherKinds) {
  const fs::path base = scratch_.path();
  expect(write(base / "a.bin", "PK\x03\x04xxxx"), {"not a model", "a zip or a pickle"});
  expect(write(base / "b.safetensors", "xxxxxxxx{}"), {"give the folder, not one of its files"});
  expect(write(base / "c.gguf", ""), {"the file is empty"});
  expect(write(base / "d.gguf", std::string(100, '\0')), {"begins with zeros, as an unfinished download does"});
  expect(write(base / "e.gguf.incomplete", "GGUF"), {"half a download"});
  expect(write(base / "f.bin", "lmgg...."), {"an old ggml file"});
}

// GGUFs of a key or two, enough to be told apart.
std::string gguf(const std::vector<std::pair<std::string, std::string>>& strings, const std::string& tensors = "",
                 std::uint64_t num_tensors = 0) {
  const auto u64 = [](std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); };
  const auto text = [&](const std::string& value) { return u64(value.size()) + value; };
  std::string out = std::string("GGUF\x03\0\0\0", 8) + u64(num_tensors) + u64(strings.size());
  for (const auto& [key, value] : strings) out += text(key) + std::string("\x08\0\0\0", 4) + text(value);
  return out + tensors;
}

TEST_F(OtherModels, GgufsOfOtherArchitectures) {
  const fs::path path = scratch_.path() / "m.gguf";
  const auto with = [&](const std::string& architecture) {
    write(path, gguf({{"general.architecture", architecture}}));
  };
  with("llama");
  expect(path, {"model: not a clef GGUF (architecture llama); make one with `clef-tool convert"}, Errc::unsupported);
  with("qwen35");
  expect(path, {"(architecture qwen35): a Qwen backbone that generates text, without the joint schema head"},
         Errc::unsupported);
  write(path, gguf({}));
  expect(path, {"architecture missing"}, Errc::unsupported);
}

TEST_F(OtherModels, QuantisedAndForeignTensorsAreNamed) {
  const auto u64 = [](std::uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); };
  const auto u32 = [](std::uint32_t value) { return std::string(reinterpret_cast<const char*>(&value), 4); };
  const auto tensor = [&](const std::string& name, std::uint32_t type) {
    return u64(name.size()) + name + u32(1) + u64(1) + u32(type) + u64(0);
  };
  const fs::path path = scratch_.path() / "m.gguf";
  write(path, gguf({{"general.architecture", "clef"}}, tensor("blk.0.ffn_down.weight", 12), 1));
  expect(path, {"tensor blk.0.ffn_down.weight has type number 12 (Q4_K)", "quantised weights are not read"});
  write(path, gguf({{"general.architecture", "clef"}}, tensor("blk.0.ssm_alpha.weight", 0) + std::string(64, '\0'), 1));
  expect(path, {"llama.cpp's tensors (blk.0.ssm_alpha.weight)", "without its keys of a decision head"},
         Errc::unsupported);
}

TEST_F(OtherModels, NamesOfTheHubsCacheAreFound) {
  const std::string commit = "0123456789abcdef0123456789abcdef01234567", other(40, 'b');
  const fs::path hub = scratch_.path() / "hub", repo = hub / "models--Some-Org--tiny";
  const fs::path snapshot = write_minimal_snapshot(scratch_);
  fs::create_directories(repo / "blobs");
  fs::create_directories(repo / "snapshots" / commit);
  for (const auto& entry : fs::directory_iterator(snapshot)) {
    const std::string name = entry.path().filename().string();
    fs::rename(entry.path(), repo / "blobs" / ("blob-" + name));
    fs::create_symlink(fs::path("../../blobs") / ("blob-" + name), repo / "snapshots" / commit / name);
  }
  EXPECT_EQ(find_model("Some-Org/tiny", hub).value(), repo / "snapshots" / commit);  // the only one
  fs::create_directories(repo / "snapshots" / other);
  EXPECT_NE(find_model("Some-Org/tiny", hub).error().message.find("Some-Org/tiny@" + other), std::string::npos);
  EXPECT_EQ(find_model("Some-Org/tiny@" + commit, hub).value(), repo / "snapshots" / commit);
  write(repo / "refs/main", commit);
  EXPECT_EQ(find_model("Some-Org/tiny", hub).value(), repo / "snapshots" / commit);
  write(repo / "refs/main", "../../../etc");
  EXPECT_FALSE(find_model("Some-Org/tiny", hub));
  write(repo / "refs/main", commit);

  // Links into blobs are the normal form there, and the model has the repository's name.
  const auto opened = open_model(find_model("Some-Org/tiny", hub).value());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->config.name, "tiny");
  expect(repo, {"a repository of the hub's cache: give its name, `-m Some-Org/tiny`"});

  fs::remove(repo / "blobs/blob-joint_head.safetensors");
  expect(repo / "snapshots" / commit, {"joint_head.safetensors: a link to nothing", "hf download Some-Org/tiny"});
}

TEST_F(OtherModels, NamesThatAreNowhereSayHowToFetch) {
  const auto message = [&](const char* name) { return find_model(name, scratch_.path() / "hub").error().message; };
  EXPECT_NE(message("clef-flash").find("fetch it with `clef-tool fetch clef-flash`"), std::string::npos);
  EXPECT_NE(message("Cloudflare/clef").find("Cloudflare/clef is not in the hub's cache"), std::string::npos);
  EXPECT_NE(message("some/folder/deep").find("no such file or folder: expected"), std::string::npos);
  EXPECT_NE(message("nowhere").find("no such file or folder: expected"), std::string::npos);
}

TEST_F(OtherModels, TheCachesPlaceComesFromTheEnvironment) {
  std::map<std::string, std::string> variables;
  const auto folder = [&] {
    return hub_cache_folder([&](const char* name) {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  EXPECT_EQ(folder(), "");
  variables["HOME"] = "/h";
  EXPECT_EQ(folder(), "/h/.cache/huggingface/hub");
  variables["XDG_CACHE_HOME"] = "/x";
  EXPECT_EQ(folder(), "/x/huggingface/hub");
  variables["HF_HOME"] = "/f";
  EXPECT_EQ(folder(), "/f/hub");
  variables["HF_HUB_CACHE"] = "/c";
  EXPECT_EQ(folder(), "/c");
}

}  // namespace
}  // namespace clef::test
