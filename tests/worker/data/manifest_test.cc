#include "worker/data/manifest.h"

#include <gmock/gmock.h>

#include "tests/worker/data/data_fixture.h"

namespace coat {
namespace {

using coatrack::v1::DataManifest;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ManifestTest : public DataTest {
 protected:
  ManifestTest() {
    Write("a.txt", "first file");
    Write("sub/b.txt", "abc");
    manifest_ = OpenDataset(spec_, root_, nullptr)->manifest();
  }

  void ExpectChanged(const std::string& file, const std::string& what) {
    Refusal refusal = OpenRefusal(spec_, &manifest_);
    EXPECT_EQ(refusal.code, Code::kDataChanged) << refusal.message;
    EXPECT_THAT(refusal.message, AllOf(HasSubstr(file), HasSubstr(what)));
  }

  coatrack::v1::JobSpec spec_ = TextSpec("**/*.txt", 4);
  DataManifest manifest_;
};

TEST_F(ManifestTest, HoldsPathSizeAndSha256) {
  ASSERT_EQ(manifest_.files_size(), 2);
  EXPECT_EQ(manifest_.files(0).path(), "a.txt");
  EXPECT_EQ(manifest_.files(0).size_bytes(), 10);
  EXPECT_EQ(manifest_.files(1).path(), "sub/b.txt");
  // FIPS 180-2, example B.1.
  EXPECT_EQ(manifest_.files(1).sha256(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_F(ManifestTest, SameDataOpenAgain) {
  EXPECT_EQ(OpenRefusal(spec_, &manifest_).code, Code::kOk);
  std::filesystem::last_write_time(root_ + "/a.txt", std::filesystem::file_time_type::clock::now());
  EXPECT_EQ(OpenRefusal(spec_, &manifest_).code, Code::kOk);
}

TEST_F(ManifestTest, OneByteChanged) {
  Write("sub/b.txt", "abd");
  ExpectChanged("sub/b.txt", "SHA-256 was ba7816bf");
}

TEST_F(ManifestTest, Grown) {
  Write("a.txt", "first file, longer");
  ExpectChanged("a.txt", "had 10 bytes in the first attempt, now 18");
}

TEST_F(ManifestTest, FilesAddedAndGone) {
  Write("aa.txt", "new");
  ExpectChanged("aa.txt", "not among the data of the first attempt");
  std::filesystem::remove(root_ + "/aa.txt");
  Write("z.txt", "new");
  ExpectChanged("z.txt", "not among the data of the first attempt");
  std::filesystem::remove(root_ + "/z.txt");
  std::filesystem::remove(root_ + "/sub/b.txt");
  ExpectChanged("sub/b.txt", "gone since the first attempt");
  std::filesystem::remove(root_ + "/a.txt");
  ExpectChanged("**/*.txt", "but the first attempt read it");
}

// A shard that was cut off is changed data, not a bad file.
TEST_F(ManifestTest, TruncatedTokenFileIsChangedData) {
  Write("t.bin", Header(20240520, 1, 10) + Ids(std::vector<uint16_t>(10, 3)));
  spec_ = TokenSpec("t.bin", 4, 10, coatrack::v1::TOKEN_FORMAT_LLMC);
  manifest_ = OpenDataset(spec_, root_, nullptr)->manifest();
  std::filesystem::resize_file(root_ + "/t.bin", 1030);
  ExpectChanged("t.bin", "had 1044 bytes in the first attempt, now 1030");
}

}  // namespace
}  // namespace coat
