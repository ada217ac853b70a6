#include "worker/trainer/rank_protocol.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/process.h"
#include "worker/trainer/record_file.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using coatrack::v1::RankLaunch;
using coatrack::v1::StepRecord;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::WriteFile;

StepRecord Record(int64_t step) {
  StepRecord record;
  record.set_step(step);
  record.set_tokens(1);
  record.set_loss(1.0 / static_cast<double>(step + 3));
  return record;
}

TEST(RankFiles, LaunchAndSpecSurvive) {
  const TempDir dir;
  const std::string rank_dir = RankDir(dir.path(), "job-1", 2, 3);
  RankLaunch launch;
  launch.set_job_id("job-1");
  launch.set_world_size(4);
  launch.mutable_data_manifest()->add_files()->set_size_bytes(int64_t{1} << 40);
  coatrack::v1::JobSpec spec;
  spec.mutable_optimizer()->set_lr(3e-3);
  ASSERT_TRUE(WriteLaunch(rank_dir, launch, spec).ok());
  const Result<RankLaunch> read = ReadLaunch(rank_dir);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->world_size(), 4);
  EXPECT_EQ(read->data_manifest().files(0).size_bytes(), int64_t{1} << 40);
  const auto read_spec = ReadSpec(*read);
  ASSERT_TRUE(read_spec.ok());
  EXPECT_EQ(read_spec->optimizer().lr(), 3e-3);
}

TEST(RankFiles, DamageNamesTheFile) {
  const TempDir dir;
  EXPECT_EQ(ReadExit(dir.path()).status().code(), Code::kNotFound);
  WriteFile(dir.file(kExitFile), "{\"exitStatus\": ");
  const Status status = ReadExit(dir.path()).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("/exit.json"));
}

TEST(RankFiles, PinnedNamesAreALineEach) {
  const TempDir dir;
  EXPECT_THAT(ReadPinned(dir.path()), ElementsAre());
  ASSERT_TRUE(WritePinned(dir.path(), {"step-1.attempt-1", "step-9.attempt-2"}).ok());
  EXPECT_THAT(ReadPinned(dir.path()), ElementsAre("step-1.attempt-1", "step-9.attempt-2"));
}

TEST(RankDirs, AreListedByNumberAndRemovedWithEmptyParents) {
  const TempDir dir;
  const std::string state = dir.path();
  for (const int rank : {10, 2}) fs::create_directories(RankDir(state, "b", 1, rank));
  fs::create_directories(RankDir(state, "a", 1, 0));
  fs::create_directories(state + "/attempts/a/notes/0");  // no attempt
  std::vector<std::string> paths;
  for (const RankDirEntry& entry : ListRankDirs(state)) {
    paths.push_back(fs::relative(entry.path, state).string());
  }
  EXPECT_THAT(paths, ElementsAre("attempts/a/1/0", "attempts/b/1/2", "attempts/b/1/10"));
  for (const RankDirEntry& entry : ListRankDirs(state)) {
    EXPECT_TRUE(RemoveRankDir(state, entry).ok());
  }
  EXPECT_FALSE(fs::exists(state + "/attempts/b"));
  EXPECT_TRUE(fs::exists(state + "/attempts/a/notes"));
}

TEST(Records, AreReadInPiecesOfWholeLines) {
  const TempDir dir;
  {
    RecordFile file(dir.file(kRecordsFile));
    for (int64_t step = 0; step < 100; ++step) file.Write(Record(step));
  }
  std::ofstream(dir.file(kRecordsFile), std::ios::app) << "{\"step\": ";  // being written
  int64_t offset = 0;
  int64_t next = 0;
  int calls = 0;
  while (true) {
    const Result<RecordChunk> chunk = ReadRecords(dir.path(), offset, 700);
    ASSERT_TRUE(chunk.ok()) << chunk.status().message();
    EXPECT_FALSE(chunk->truncated);
    if (chunk->next_offset == offset) break;
    offset = chunk->next_offset;
    ++calls;
    for (const StepRecord& record : chunk->records) {
      EXPECT_EQ(record.step(), next);
      EXPECT_EQ(record.loss(), 1.0 / static_cast<double>(next + 3));  // every bit
      ++next;
    }
  }
  EXPECT_EQ(next, 100);
  EXPECT_GT(calls, 5);
}

TEST(Records, ALineLongerThanThePieceIsRead) {
  const TempDir dir;
  StepRecord record = Record(1);
  record.set_checkpoint(std::string(10'000, 'x'));
  RecordFile(dir.file(kRecordsFile)).Write(record);
  const Result<RecordChunk> chunk = ReadRecords(dir.path(), 0, 100);
  ASSERT_TRUE(chunk.ok());
  ASSERT_EQ(chunk->records.size(), 1u);
}

TEST(Records, GarbageNamesFileAndOffset) {
  const TempDir dir;
  WriteFile(dir.file(kRecordsFile), "{\"step\": \"1\"}\nnonsense\n");
  const Status status = ReadRecords(dir.path(), 0, 1000).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("records.jsonl at offset 14"));
}

TEST(Records, ProgressIsNotPartOfTheCurve) {
  StepRecord progress;
  progress.set_step(7);
  progress.set_phase(coatrack::v1::PHASE_EVALUATE);
  progress.set_collective_sequence(3);
  EXPECT_TRUE(IsProgressOnly(progress));
  EXPECT_FALSE(IsProgressOnly(Record(7)));
  StepRecord evaluated = progress;
  evaluated.set_validation_loss(2.5);
  EXPECT_FALSE(IsProgressOnly(evaluated));
  progress.set_phase(coatrack::v1::PHASE_DONE);
  EXPECT_FALSE(IsProgressOnly(progress));
}

int64_t DiskBytes(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_blocks * 512 : 0;
}

TEST(Streams, AreBoundedWhileOffsetsStay) {
  const TempDir dir;
  const std::string path = dir.file(kRecordsFile);
  constexpr int64_t kLimit = 1 << 20;
  RecordFile file(path);
  int64_t step = 0;
  while (fs::file_size(path) < 4 * kLimit) {
    for (int i = 0; i < 1000; ++i) file.Write(Record(step++));
    ASSERT_TRUE(TrimHead(path, kLimit).ok());
    EXPECT_LE(DiskBytes(path), kLimit + (256 << 10));
  }
  const Result<RecordChunk> head = ReadRecords(dir.path(), 0, 4 << 20);
  ASSERT_TRUE(head.ok()) << head.status().message();
  EXPECT_TRUE(head->truncated);
  ASSERT_FALSE(head->records.empty());
  EXPECT_GT(head->records.front().step(), 0);
  EXPECT_EQ(head->records.back().step(), step - 1);
  EXPECT_EQ(head->next_offset, static_cast<int64_t>(fs::file_size(path)));
}

TEST(Streams, OutputSaysWhereItBegins) {
  const TempDir dir;
  const std::string path = dir.file(kOutputFile);
  EXPECT_EQ(OutputSize(dir.path()), 0);
  EXPECT_EQ(ReadOutput(dir.path(), 0, 10)->data, "");
  const std::string text(300 << 10, 'a');
  WriteFile(path, text + "tail without a newline");
  Result<OutputChunk> chunk = ReadOutput(dir.path(), static_cast<int64_t>(text.size()), 1000);
  ASSERT_TRUE(chunk.ok());
  EXPECT_EQ(chunk->data, "tail without a newline");
  EXPECT_FALSE(chunk->truncated);
  EXPECT_EQ(chunk->next_offset, OutputSize(dir.path()));
  ASSERT_TRUE(TrimHead(path, 200 << 10).ok());
  chunk = ReadOutput(dir.path(), 0, 1 << 20);
  ASSERT_TRUE(chunk.ok());
  EXPECT_TRUE(chunk->truncated);
  EXPECT_EQ(chunk->offset % kTrimBlockBytes, 0);
  EXPECT_EQ(chunk->offset + static_cast<int64_t>(chunk->data.size()), OutputSize(dir.path()));
}

TEST(RankMessages, SurviveTheWire) {
  RankMessage put;
  put.kind = RankMessage::Kind::kPut;
  put.key = "gloo/0 \"quoted\"\n";
  put.value = std::string("\0\xff\n{}", 5);
  const std::string line = FormatRankMessage(put);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Result<RankMessage> read = ParseRankMessage(line);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->key, put.key);
  EXPECT_EQ(read->value, put.value);

  RankMessage hello;
  hello.job_id = "j";
  hello.attempt = 3;
  hello.rank = 1;
  const Result<RankMessage> read_hello = ParseRankMessage(FormatRankMessage(hello));
  ASSERT_TRUE(read_hello.ok());
  EXPECT_EQ(read_hello->attempt, 3);

  RankMessage stop;
  stop.kind = RankMessage::Kind::kStop;
  stop.stop = RankStop::kNow;
  EXPECT_EQ(FormatRankMessage(stop), "{\"kind\":\"stop\",\"mode\":\"now\"}\n");
}

TEST(RankMessages, BadLinesNameTheField) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "not a JSON object"},
      {"[1]", "not a JSON object"},
      {"{}", "'kind'"},
      {R"({"kind":"jump"})", "'kind'"},
      {R"({"kind":"get"})", "'key'"},
      {R"({"kind":"put","key":"a","value":"0g"})", "'value'"},
      {R"({"kind":"put","key":"a","value":"abc"})", "'value'"},
      {R"({"kind":"hello","job_id":"j","attempt":-1,"rank":0})", "'attempt'"},
      {R"({"kind":"hello","job_id":"j","attempt":1,"rank":4294967296})", "'rank'"},
      {R"({"kind":"stop","mode":"maybe"})", "'mode'"},
  };
  for (const auto& [line, what] : cases) {
    const Status status = ParseRankMessage(line).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr(what)) << line;
  }
}

}  // namespace
}  // namespace coat
