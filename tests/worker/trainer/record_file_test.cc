#include "worker/trainer/record_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <filesystem>
#include <thread>
#include <vector>

#include "configs/base/error.h"
#include "tests/support/process.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::StepRecord;
using testing::TempDir;

StepRecord Record(int64_t step) {
  StepRecord record;
  record.set_step(step);
  record.set_tokens(1);
  return record;
}

TEST(RecordFile, WritersDoNotMixTheirLines) {
  const TempDir dir;
  {
    RecordFile file(dir.file(kRecordsFile));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int64_t step = 0; step < 200; ++step) file.Write(Record(step));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const Result<RecordChunk> chunk = ReadRecords(dir.path(), 0, 1 << 20);
  ASSERT_TRUE(chunk.ok()) << chunk.status().message();
  EXPECT_EQ(chunk->records.size(), 800u);
}

TEST(RecordFile, FullDiskDropsRecordsAndLeavesWholeLines) {
  const TempDir dir;
  RecordFile file(dir.file(kRecordsFile));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  for (int64_t step = 1; step <= 20; ++step) file.Write(Record(step));
  ::setrlimit(RLIMIT_FSIZE, &before);
  file.Write(Record(21));
  const Result<RecordChunk> chunk = ReadRecords(dir.path(), 0, 1 << 20);
  ASSERT_TRUE(chunk.ok()) << chunk.status().message();
  ASSERT_GE(chunk->records.size(), 2u);
  EXPECT_LT(chunk->records.size(), 20u);
  EXPECT_EQ(chunk->records.front().step(), 1);
  EXPECT_EQ(chunk->records.back().step(), 21);
}

TEST(RecordFile, PlaceThatCannotBeWrittenIsNamed) {
  try {
    RecordFile file("/no/such/folder/records.jsonl");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kIo);
    EXPECT_NE(std::string(e.what()).find("/no/such/folder"), std::string::npos);
  }
}

}  // namespace
}  // namespace coat
