// tests/cases.md names tests and transcripts; all of them exist.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace coat {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const fs::path kTests = fs::path(COAT_SOURCE_DIR) / "tests";

std::string Text(const fs::path& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// All matches of the first group, or of the first two joined by a dot.
std::vector<std::string> Matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.push_back((*match)[1].str() + (match->size() > 2 ? "." + (*match)[2].str() : ""));
  }
  return found;
}

std::set<std::string> ExistingTests() {
  static const std::regex kTest(R"(\n(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\))");
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(kTests)) {
    if (entry.path().extension() != ".cc") continue;
    for (std::string& name : Matches(Text(entry.path()), kTest)) names.insert(std::move(name));
  }
  return names;
}

TEST(Cases, NameTestsThatExist) {
  static const std::regex kName(R"(`([A-Z]\w*)\.(\w+)`)");
  const std::set<std::string> existing = ExistingTests();
  const std::vector<std::string> named = Matches(Text(kTests / "cases.md"), kName);
  std::set<std::string> missing;
  for (const std::string& name : named) {
    if (existing.count(name) == 0) missing.insert(name);
  }
  EXPECT_GT(named.size(), 100u);
  EXPECT_THAT(missing, IsEmpty());
}

TEST(Cases, NameTranscriptsThatExist) {
  static const std::regex kName(R"(`(transcripts/\w+\.txt)`)");
  std::set<std::string> missing;
  for (const std::string& name : Matches(Text(kTests / "cases.md"), kName)) {
    if (!fs::exists(kTests / "scenarios" / name)) missing.insert(name);
  }
  EXPECT_THAT(missing, IsEmpty());
}

// Every case of the tables is ruled out by something.
TEST(Cases, EveryLineNamesATest) {
  std::ifstream in(kTests / "cases.md");
  std::vector<std::string> bare;
  for (std::string line; std::getline(in, line);) {
    const bool row = line.rfind("| ", 0) == 0 && line.rfind("| case", 0) != 0;
    if (row && line.find(" | `") == std::string::npos) bare.push_back(line);
  }
  EXPECT_THAT(bare, IsEmpty());
}

}  // namespace
}  // namespace coat
