// Holds the whole tree to the rules of docs/architecture.md that a machine can hold (who includes whom, and what stands
// in no source file), and the rules to examples that break them. A rule returns its findings as "path:line: what".
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace clef::test {
namespace {

namespace fs = std::filesystem;

struct SourceFile {
  std::string path;  // from the repository's root, with '/': "src/text/json.cpp"
  std::string text;
};

struct Line {
  int number;
  std::string text;
};

// What each folder may include beside itself and outside libraries. docs/architecture.md holds the same table.
const std::map<std::string, std::set<std::string>>& allowed_includes() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"base", {}},
      {"text", {"base"}},
      {"media", {"base"}},
      {"record", {"base", "text", "media"}},
      {"ops", {"base"}},
      {"model", {"base", "text", "record", "ops"}},
      {"backend/cpu", {"base", "ops"}},
      {"backend/cuda", {"base", "ops"}},
      {"backend/metal", {"base", "ops"}},
      {"backend", {"base", "ops", "backend/cpu", "backend/cuda", "backend/metal"}},
      {"engine", {"base", "text", "media", "record", "ops", "model"}},
      {"server", {"base", "text", "record", "engine"}},
      {"fetch", {"base", "text"}},
      {"apps", {"base", "text", "media", "record", "ops", "model", "engine", "server", "fetch", "backend"}},
      // What measures a backend's parts has to see them.
      {"apps/clef-bench",
       {"base", "text", "media", "record", "ops", "model", "engine", "server", "backend", "backend/cpu"}},
  };
  return table;
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

std::string finding(const SourceFile& file, int line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

// Every source file below `folder` of the repository, sorted by path.
std::vector<SourceFile> source_files(const fs::path& root, std::string_view folder) {
  static const std::set<std::string> extensions = {".h", ".cpp", ".cu", ".cuh", ".metal", ".mm"};
  std::vector<SourceFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (!entry.is_regular_file() || !extensions.contains(entry.path().extension().string())) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    if (!in) throw std::runtime_error("cannot open " + entry.path().string());
    files.push_back({fs::relative(entry.path(), root).generic_string(), {std::istreambuf_iterator<char>(in), {}}});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

// The folder of the table that a file lies in or below: "text", "backend/cpu", "backend" (open.cpp), "apps". Empty for
// a folder that the table does not know. Takes what an #include names, too.
std::string layer_of(std::string_view path) {
  if (starts_with(path, "src/")) path.remove_prefix(4);
  for (fs::path folder = fs::path(path).parent_path(); !folder.empty(); folder = folder.parent_path()) {
    if (allowed_includes().contains(folder.generic_string())) return folder.generic_string();
  }
  return "";
}

std::vector<Line> lines_of(const SourceFile& file) {
  std::vector<Line> lines;
  std::istringstream in(file.text);
  int number = 0;
  for (std::string text; std::getline(in, text);) lines.push_back({++number, text});
  return lines;
}

// What a line includes in quotes, if it does.
std::optional<std::string> quoted_include(std::string_view line) {
  static const std::regex pattern(R"rx(^\s*#\s*include\s*"([^"]*)")rx");
  std::match_results<std::string_view::const_iterator> match;
  if (!std::regex_search(line.begin(), line.end(), match, pattern)) return std::nullopt;
  return match[1].str();
}

std::vector<std::string> include_findings(const SourceFile& file) {
  const std::string layer = layer_of(file.path);
  if (layer.empty()) return {file.path + ": lies in no folder of the table"};
  std::vector<std::string> findings;
  for (const Line& line : lines_of(file)) {
    const auto include = quoted_include(line.text);
    if (!include) continue;
    // A program's own headers: "clef/table.h" from apps/, or "commands.h" beside the file.
    const std::size_t slash = include->find('/');
    const bool own_app =
        starts_with(file.path, "apps/") &&
        (slash == std::string::npos || starts_with(file.path.substr(5), include->substr(0, slash + 1)));
    if (own_app) continue;
    const std::string target = layer_of(*include);
    if (target.empty()) {
      findings.push_back(finding(file, line.number, fmt::format("\"{}\" is not named from src/", *include)));
    } else if (target != layer && !allowed_includes().at(layer).contains(target)) {
      findings.push_back(finding(file, line.number, fmt::format("{} may not include {}", layer, target)));
    }
  }
  return findings;
}

std::vector<std::string> conditional_findings(const SourceFile& file) {
  static const std::regex conditional(R"(^\s*#\s*(if|ifdef|ifndef|elif)\b)");
  std::vector<std::string> findings;
  for (const Line& line : lines_of(file)) {
    if (std::regex_search(line.text, conditional)) {
      findings.push_back(finding(file, line.number, "model code is the same on every machine; no #if here"));
    }
  }
  return findings;
}

std::vector<std::string> machine_path_findings(const SourceFile& file) {
  static const std::regex machine_path(R"((/work/|/tmp/[A-Za-z]|/home/|/root/|/Users/|\.\./shared))");
  std::vector<std::string> findings;
  for (const Line& line : lines_of(file)) {
    std::smatch match;
    if (std::regex_search(line.text, match, machine_path)) {
      findings.push_back(finding(file, line.number, "a path of one machine: " + match.str()));
    }
  }
  return findings;
}

std::vector<std::string> length_findings(const SourceFile& file) {
  const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
  if (lines < 600) return {};
  return {file.path + ": " + std::to_string(lines) + " lines; a file of 600 is usually two ideas"};
}

std::vector<std::string> guard_findings(const SourceFile& file) {
  const std::string extension = fs::path(file.path).extension().string();
  if (extension != ".h" && extension != ".cuh") return {};
  if (file.text.find("\n#pragma once\n") != std::string::npos || starts_with(file.text, "#pragma once\n")) return {};
  return {file.path + ": a header without #pragma once"};
}

using Rule = std::vector<std::string> (*)(const SourceFile&);

std::string broken_by(Rule rule, const std::vector<std::string>& folders) {
  std::string findings;
  for (const std::string& folder : folders) {
    const auto files = source_files(CLEF_SOURCE_DIR, folder);
    if (files.empty()) findings += folder + ": has no source files\n";
    for (const SourceFile& file : files) {
      for (const std::string& line : rule(file)) findings += line + "\n";
    }
  }
  return findings;
}

TEST(Structure, FoldersIncludeOnlyWhatTheTableAllows) { EXPECT_EQ(broken_by(include_findings, {"src", "apps"}), ""); }

TEST(Structure, ModelCodeHasNoConditionals) { EXPECT_EQ(broken_by(conditional_findings, {"src/model"}), ""); }

TEST(Structure, NoSourceNamesAPathOfOneMachine) { EXPECT_EQ(broken_by(machine_path_findings, {"src", "apps"}), ""); }

TEST(Structure, FilesStayBelow600Lines) { EXPECT_EQ(broken_by(length_findings, {"src", "apps", "tests"}), ""); }

TEST(Structure, HeadersAreGuarded) { EXPECT_EQ(broken_by(guard_findings, {"src", "apps", "tests"}), ""); }

// The rules themselves, each on a file that breaks it.

TEST(StructureRules, FindAnIncludeAgainstTheTable) {
  EXPECT_EQ(include_findings({"src/text/json.cpp", "#include \"text/json.h\"\n#include \"record/request.h\"\n"}),
            std::vector<std::string>{"src/text/json.cpp:2: text may not include record"});
  EXPECT_EQ(include_findings({"src/backend/cpu/linear.cpp", "#include \"model/config.h\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"src/backend/cpu/linear.cpp", "#include \"backend/cuda/tile.cuh\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"src/backend/cpu/linear.cpp", "  #  include \"backend/open.h\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"src/backend/cpu/kernels/tile.h", "#include \"text/json.h\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"src/engine/engine.cpp", "#include \"backend/open.h\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"apps/clef/main.cpp", "#include \"backend/cpu/linear.h\"\n"}).size(), 1U);
  EXPECT_EQ(include_findings({"apps/clef/main.cpp", "#include \"clef-tool/synth.h\"\n"}).size(), 1U);
}

TEST(StructureRules, FindAnIncludeThatIsNotNamedFromTheRoot) {
  EXPECT_EQ(include_findings({"src/text/json.cpp", "#include \"json.h\"\n"}),
            std::vector<std::string>{"src/text/json.cpp:1: \"json.h\" is not named from src/"});
  EXPECT_EQ(include_findings({"src/text/json.cpp", "#include \"../base/result.h\"\n"}).size(), 1U);
}

TEST(StructureRules, FindAFolderOutsideTheTable) {
  EXPECT_EQ(include_findings({"src/util/misc.cpp", ""}),
            std::vector<std::string>{"src/util/misc.cpp: lies in no folder of the table"});
}

TEST(StructureRules, LetTheTablesIncludesPass) {
  EXPECT_TRUE(include_findings({"src/record/encode.cpp",
                                "#include \"record/encode.h\"\n#include \"text/tokenizer.h\"\n"
                                "#include <vector>\n"})
                  .empty());
  EXPECT_TRUE(include_findings({"src/backend/cpu/kernels/tile.h", "#include \"base/tensor.h\"\n"}).empty());
  EXPECT_TRUE(include_findings({"apps/clef-bench/linear.cpp", "#include \"backend/cpu/cpu_device.h\"\n"}).empty());
  EXPECT_TRUE(include_findings({"src/backend/open.cpp", "#include \"backend/cpu/device.h\"\n"}).empty());
  EXPECT_TRUE(
      include_findings({"apps/clef/main.cpp", "#include \"clef/table.h\"\n#include \"backend/open.h\"\n"}).empty());
}

TEST(StructureRules, FindConditionals) {
  EXPECT_EQ(conditional_findings({"src/model/decoder.cpp", "int a;\n#ifdef __APPLE__\n#endif\n # if 1\n"}).size(), 2U);
  EXPECT_TRUE(conditional_findings({"src/model/decoder.cpp", "#include <x>\nif (a) {}\n// the #if of old\n"}).empty());
}

TEST(StructureRules, FindMachinePaths) {
  EXPECT_EQ(machine_path_findings({"src/a.cpp", "open(\"/tmp/model\");\nopen(\"/home/me/x\");\n"}).size(), 2U);
  EXPECT_TRUE(machine_path_findings({"src/a.cpp", "// the work/time ratio, a temporary file\n"}).empty());
}

TEST(StructureRules, FindLongFilesAndBareHeaders) {
  EXPECT_EQ(length_findings({"src/a.cpp", std::string(600, '\n')}).size(), 1U);
  EXPECT_TRUE(length_findings({"src/a.cpp", std::string(599, '\n')}).empty());
  EXPECT_EQ(guard_findings({"src/a.h", "// job\nint a;\n"}).size(), 1U);
  EXPECT_TRUE(guard_findings({"src/a.h", "// job\n#pragma once\n"}).empty());
}

// What a compiler of CUDA says of a slow kernel stops the build; all else that it says, and its status, is passed on.
TEST(CudaCompile, FailsWhereProductsAreSerialized) {
  const std::string launcher = "'" + std::string(CLEF_SOURCE_DIR) + "/cmake/cuda_compile' ";
  // Whether the shell finds it so that a compiler with these notes and this status has that status.
  const auto becomes = [&](const std::string& notes, int status, int expected) {
    const std::string compiler = "sh -c 'echo \"" + notes + "\" >&2; exit " + std::to_string(status) + "'";
    const std::string says_all = "[ \"$said\" != \"${said#\"" + notes + "\"}\" ]";
    const std::string line = "said=$(" + launcher + compiler + " 2>&1); [ $? = " + std::to_string(expected) + " ] && ";
    return std::system((line + says_all).c_str()) == 0;
  };
  EXPECT_TRUE(becomes("ptxas info: 128 registers", 0, 0));
  EXPECT_TRUE(becomes("error: no such file", 2, 2));
  EXPECT_TRUE(becomes("Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...", 0, 1));
}

}  // namespace
}  // namespace clef::test
