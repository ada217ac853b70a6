// Offsets above 2^31 and 2^32, by sparse files.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/worker/data/data_fixture.h"
#include "worker/data/token_stream.h"

namespace coat {
namespace {

using ::testing::ElementsAre;

// Reading holes of a file on a disk fills the page cache with gigabytes of zeros; in memory holes
// cost nothing.
std::string CheapForHoles() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir();
}

class LargeFileTest : public DataTest {
 protected:
  LargeFileTest() : DataTest(CheapForHoles()) {}

  // A sparse file of `bytes` bytes with `ids` at `offset`.
  template <typename T>
  std::string Sparse(int64_t bytes, int64_t offset, const std::vector<T>& ids) const {
    std::string path = root_ + "/large.bin";
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_EQ(::ftruncate(fd, bytes), 0);
    std::string text = Ids(ids);
    EXPECT_EQ(::pwrite(fd, text.data(), text.size(), offset), static_cast<ssize_t>(text.size()));
    ::close(fd);
    return path;
  }
};

// 9 GB of uint16: byte offsets and places of ids above 2^32.
TEST_F(LargeFileTest, IdsAtTheEndOfNineGigabytes) {
  constexpr int64_t kBytes = 9'000'000'000;
  std::string path = Sparse<uint16_t>(kBytes, kBytes - 8, {11, 12, 13, 14});
  TokenStream stream;
  stream.Add(std::make_unique<FileBytes>(path, "large.bin", kBytes), {0, 2, kBytes / 2}, -1);
  EXPECT_EQ(stream.size(), 4'500'000'000);
  std::vector<int32_t> ids(6);
  stream.Copy(4'499'999'994, 6, ids.data());
  EXPECT_THAT(ids, ElementsAre(0, 0, 11, 12, 13, 14));
}

// The scan goes to the end: the largest id stands behind 2^31 bytes.
TEST_F(LargeFileTest, DatasetBeyondTwoGigabytes) {
  constexpr int64_t kCount = (int64_t{1} << 31) / 2 + 1000;
  constexpr int64_t kLength = 4096;
  Sparse<uint16_t>(2 * kCount, 2 * (kCount - 2), {21, 22});
  auto spec = TokenSpec("large.bin", kLength, 100, coatrack::v1::TOKEN_FORMAT_UINT16);
  auto dataset = OpenDataset(spec, root_, nullptr);
  EXPECT_EQ(dataset->tokens(), kCount);
  EXPECT_EQ(dataset->train_samples(), (kCount - 1 + kLength - 1) / kLength);
  EXPECT_EQ(dataset->vocab_size(), 23);
  EXPECT_EQ(dataset->manifest().files(0).size_bytes(), 2 * kCount);
  EXPECT_EQ(dataset->Train(0, dataset->train_samples() - 1).tokens.size(), size_t{kLength});
}

}  // namespace
}  // namespace coat
