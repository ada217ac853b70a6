#include "worker/data/glob.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/worker/data/data_fixture.h"

namespace coat {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GlobTest : public DataTest {
 protected:
  std::vector<std::string> Names(const std::vector<std::string>& patterns) const {
    std::vector<std::string> names;
    for (const DataPath& path : ResolveDataFiles(root_, patterns, "data.text")) {
      names.push_back(path.relative);
    }
    return names;
  }
  Refusal RefusalFor(const std::string& pattern) const {
    return RefusalOf([&] { Names({pattern}); });
  }
};

TEST_F(GlobTest, MatchesComeOnceInByteOrder) {
  for (const char* name :
       {"b.txt", "B.txt", "a.txt", "a10.txt", "a9.txt", "\xC3\xA9.txt", "z.txt"}) {
    Write(name, "x");
  }
  EXPECT_THAT(Names({"*.txt"}),
              ElementsAre("B.txt", "a.txt", "a10.txt", "a9.txt", "b.txt", "z.txt", "\xC3\xA9.txt"));
  EXPECT_THAT(Names({"z.txt", "a*.txt", "a.txt", "[zb].txt"}),
              ElementsAre("a.txt", "a10.txt", "a9.txt", "b.txt", "z.txt"));
}

TEST_F(GlobTest, WildcardsMatchComponents) {
  Write("x/1.txt", "x");
  Write("x/deep/2.txt", "x");
  Write("y/3.txt", "x");
  Write("y/3.bin", "x");
  Write(".hidden/4.txt", "x");
  Write("x/.5.txt", "x");
  EXPECT_THAT(Names({"*/?.txt"}), ElementsAre("x/1.txt", "y/3.txt"));
  EXPECT_THAT(Names({"**/*.txt"}), ElementsAre("x/1.txt", "x/deep/2.txt", "y/3.txt"));
  EXPECT_THAT(Names({"x/**"}), ElementsAre("x/1.txt", "x/deep/2.txt"));
  EXPECT_THAT(Names({"./x//1.txt"}), ElementsAre("x/1.txt"));
  EXPECT_THAT(Names({".hidden/*"}), ElementsAre(".hidden/4.txt"));
}

TEST_F(GlobTest, WildcardsTakeRegularFilesOnly) {
  Write("d/1", "x");
  ASSERT_EQ(::mkfifo((root_ + "/d/fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(root_ + "/d/folder");
  EXPECT_THAT(Names({"d/*"}), ElementsAre("d/1"));
  EXPECT_THAT(RefusalFor("d/fifo").message, HasSubstr("d/fifo is not a regular file"));
  EXPECT_THAT(RefusalFor("d/folder").message, HasSubstr("not a regular file"));
}

TEST_F(GlobTest, LinksMayLeadAnywhereInside) {
  Write("real/1.txt", "x");
  std::filesystem::create_symlink("real/1.txt", root_ + "/link.txt");
  std::filesystem::create_directory_symlink(root_ + "/real", root_ + "/folder");
  auto files = ResolveDataFiles(root_, {"link.txt", "folder/*"}, "data.text");
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].relative, "folder/1.txt");
  EXPECT_EQ(files[0].resolved, root_ + "/real/1.txt");
  EXPECT_EQ(files[1].resolved, root_ + "/real/1.txt");
}

TEST_F(GlobTest, LinksOutOfTheRootAreRefused) {
  std::filesystem::create_directories(root_ + "/inside");
  Write("outside/secret.txt", "x");
  std::filesystem::create_symlink("../outside/secret.txt", root_ + "/inside/link.txt");
  std::filesystem::create_directory_symlink("../outside", root_ + "/inside/folder");
  root_ += "/inside";
  for (const char* pattern : {"link.txt", "*.txt", "folder/secret.txt", "folder/*", "*/*.txt"}) {
    Refusal refusal = RefusalFor(pattern);
    EXPECT_EQ(refusal.code, Code::kInvalidArgument) << pattern;
    EXPECT_THAT(refusal.message, HasSubstr("outside the data_root")) << pattern;
  }
  root_ = root_.substr(0, root_.rfind('/'));
}

// A sibling whose name starts with the root's is outside, too.
TEST_F(GlobTest, RootIsAFolderNotAPrefix) {
  Write("data-secret/1.txt", "x");
  std::filesystem::create_directory(root_ + "/data");
  std::filesystem::create_symlink("../data-secret/1.txt", root_ + "/data/1.txt");
  Refusal refusal = RefusalOf([&] { ResolveDataFiles(root_ + "/data", {"1.txt"}, "data.text"); });
  EXPECT_THAT(refusal.message, HasSubstr("outside the data_root"));
}

TEST_F(GlobTest, BadPatternsAreNamed) {
  Write("a.txt", "x");
  std::filesystem::create_symlink("nowhere", root_ + "/broken.txt");
  struct {
    const char* pattern;
    const char* message;
  } cases[] = {{"/etc/passwd", "absolute"},
               {"../x", "contains `..`"},
               {"a/../../x", "contains `..`"},
               {"", "empty pattern"},
               {"./", "names no file"},
               {"*.bin", "`*.bin` matches no file below"},
               {"missing.txt", "matches no file"},
               {"broken.txt", "the link leads nowhere"}};
  for (const auto& c : cases) {
    Refusal refusal = RefusalFor(c.pattern);
    EXPECT_EQ(refusal.code, Code::kInvalidArgument) << c.pattern;
    EXPECT_THAT(refusal.message, AllOf(HasSubstr("data.text[0]: "), HasSubstr(c.message)));
  }
}

TEST_F(GlobTest, NamesMustBeUtf8) {
  for (const char* name : {"\xFF.txt", "\xC0\xAF.txt", "\xED\xA0\x80.txt", "\xE2\x82.txt"}) {
    Write(name, "x");
    EXPECT_THAT(RefusalFor("*.txt").message, HasSubstr("not UTF-8")) << name;
    std::filesystem::remove(root_ + "/" + name);
  }
  Write("\xF0\x9F\x98\x80.txt", "x");
  EXPECT_EQ(Names({"*.txt"}).size(), 1u);
}

TEST_F(GlobTest, MissingRootIsNamed) {
  Refusal refusal = RefusalOf([&] { ResolveDataFiles(root_ + "/none", {"*"}, "data.text"); });
  EXPECT_EQ(refusal.code, Code::kNotFound);
  EXPECT_THAT(refusal.message, HasSubstr("/none is not a folder"));
}

}  // namespace
}  // namespace coat
