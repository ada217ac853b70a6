#include "worker/supervisor/record_cursor.h"

#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace coat {
namespace {

std::vector<int64_t> ReadAll(const std::string& dir, int64_t max_bytes) {
  std::vector<int64_t> steps;
  int64_t offset = 0;
  while (true) {
    const auto chunk = ReadGoodRecords(dir, offset, max_bytes);
    EXPECT_TRUE(chunk.ok());
    if (!chunk.ok() || chunk->next_offset == offset) return steps;
    for (const auto& record : chunk->records) steps.push_back(record.step());
    offset = chunk->next_offset;
  }
}

TEST(RecordCursor, SkipsDamagedLinesAndLosesNoOther) {
  const testing::TempDir dir;
  testing::WriteFile(dir.file(kRecordsFile),
                     "{\"step\":\"1\"}\n{\"step\":\"2\"}\n{\"step\":\"3{\"step\":\"4\"}\n"
                     "garbage\n{\"step\":\"5\"}\n{\"step\":\"6");
  const std::vector<int64_t> expected{1, 2, 5};
  for (const int64_t max_bytes : {1, 20, 30, 1 << 20}) {
    EXPECT_EQ(ReadAll(dir.path().string(), max_bytes), expected) << max_bytes;
  }
}

TEST(RecordCursor, AMissingFileIsEmpty) {
  const testing::TempDir dir;
  EXPECT_TRUE(ReadAll(dir.path().string(), 1024).empty());
}

TEST(RecordCursor, ADamagedLineThatIsNotFinishedIsLeftForLater) {
  const testing::TempDir dir;
  testing::WriteFile(dir.file(kRecordsFile), "{\"step\":\"1\"}\ngarb");
  EXPECT_EQ(ReadAll(dir.path().string(), 1024), std::vector<int64_t>{1});
}

}  // namespace
}  // namespace coat
