#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <numeric>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SaveLoad : public CheckpointTest {};

TEST_F(SaveLoad, EveryWorldSizeSavesTheSameState) {
  for (int world_size : {1, 2, 3, 4, 7, 16}) {
    CheckpointInfo info = Save(world_size, 1, world_size);
    CheckpointReader reader(info.path);
    ExpectState(reader, world_size);
    EXPECT_THAT(reader.Names(), SizeIs(10));
    EXPECT_EQ(reader.info().state.at("t"), std::to_string(world_size));
    EXPECT_EQ(reader.info().time_ms, 1'700'000'000'000 + world_size);
    EXPECT_EQ(reader.info().bytes, info.bytes);
  }
}

// Saved by 2 ranks with uneven slices that cut groups of 128 and rows; loaded by 1 and by 4.
TEST_F(SaveLoad, UnevenShardsLoadOnAnyWorldSize) {
  State state(9);
  std::string temporary = TemporaryDir(dir_, 9, 1);
  std::vector<HostTensor> mine[2];
  for (const HostTensor& tensor : state.tensors()) {
    int64_t cut = tensor.count * 3 / 10 + (tensor.count > 200 ? 1 : 0);
    HostTensor low = tensor, high = tensor;
    low.count = cut;
    high.first = cut;
    high.count = tensor.count - cut;
    high.data = static_cast<const char*>(tensor.data) + cut * ElementBytes(tensor.dtype);
    mine[0].push_back(high);
    if (cut > 0) mine[1].push_back(low);
  }
  WriteShard(temporary, 0, mine[0]);
  WriteShard(temporary, 1, mine[1]);
  CheckpointReader reader(Commit(dir_, MakeInfo(9, 1), 2).path);
  ExpectState(reader, 9);
  for (int world_size : {1, 2, 4, 5}) {
    for (size_t i = 0; i < state.tensors().size(); ++i) {
      const HostTensor& tensor = state.tensors()[i];
      int64_t bytes = ElementBytes(tensor.dtype);
      for (int rank = 0; rank < world_size; ++rank) {
        int64_t first = tensor.count * rank / world_size;
        int64_t count = tensor.count * (rank + 1) / world_size - first;
        std::vector<unsigned char> out(static_cast<size_t>(count * bytes));
        reader.Read(tensor.name, first, count, out.data());
        EXPECT_TRUE(std::equal(out.begin(), out.end(), state.bytes(i).begin() + first * bytes));
      }
    }
  }
}

TEST_F(SaveLoad, ReaderDescribesAndChecksRanges) {
  CheckpointReader reader(Save(1).path);
  EXPECT_TRUE(reader.Has("embed"));
  EXPECT_FALSE(reader.Has("embedding"));
  HostTensor embed = reader.Describe("embed");
  EXPECT_EQ(embed.dtype, DType::kF32);
  EXPECT_THAT(embed.shape, ElementsAre(57, 40));
  EXPECT_EQ(embed.count, 57 * 40);
  EXPECT_EQ(RefusalOf([&] { reader.Describe("embedding"); }).code, Code::kNotFound);
  char out[8];
  for (auto [first, count] : {std::pair<int64_t, int64_t>{-1, 1},
                              {57 * 40, 1},
                              {0, 57 * 40 + 1},
                              {1, INT64_MAX},
                              {0, -1}}) {
    const int64_t begin = first, numel = count;
    EXPECT_EQ(RefusalOf([&] { reader.Read("embed", begin, numel, out); }).code,
              Code::kInvalidArgument);
  }
  reader.Read("embed", 57 * 40, 0, out);
}

// Bytes are spread evenly, every element is assigned once, cuts are multiples of 128.
TEST_F(SaveLoad, AssignmentIsEvenAndComplete) {
  std::vector<HostTensor> tensors = {{"embed", DType::kF32, {50257, 64}, 0, 50257 * 64, nullptr},
                                     {"m", DType::kE4M3, {50257, 64}, 0, 50257 * 64, nullptr}};
  for (int i = 0; i < 40; ++i) {
    int64_t n = 1000 + 137 * i;
    tensors.push_back({"w" + std::to_string(i), DType::kBF16, {n}, 0, n, nullptr});
  }
  int64_t total = 0;
  for (const HostTensor& tensor : tensors) total += tensor.count * ElementBytes(tensor.dtype);
  for (int world_size : {1, 2, 3, 8, 64}) {
    std::map<std::string, int64_t> assigned;
    for (int rank = 0; rank < world_size; ++rank) {
      int64_t load = 0, largest = 0;
      for (const HostTensor& piece : AssignToRank(tensors, rank, world_size)) {
        EXPECT_EQ(piece.first % 128, 0);
        int64_t bytes = piece.count * ElementBytes(piece.dtype);
        load += bytes;
        largest = std::max(largest, bytes);
        assigned[piece.name] += piece.count;
      }
      EXPECT_LE(load, total / world_size + largest) << rank << " of " << world_size;
      EXPECT_GT(load, total / world_size / 2) << rank << " of " << world_size;
    }
    for (const HostTensor& tensor : tensors) EXPECT_EQ(assigned[tensor.name], tensor.count);
  }
}

TEST_F(SaveLoad, TensorsMayComeInPieces) {
  State state(4);
  WriteShard(TemporaryDir(dir_, 4, 1), 0, state.tensors(),
             [](const HostTensor& tensor, int64_t bytes, const BytesSink& sink) {
               for (int64_t at = 0; at < bytes; at += 24) {
                 sink(static_cast<const char*>(tensor.data) + at,
                      std::min<int64_t>(24, bytes - at));
               }
             });
  ExpectState(CheckpointReader(Commit(dir_, MakeInfo(4, 1, true), 1).path), 4);
}

TEST_F(SaveLoad, ATensorThatIsNotReadWholeIsRefused) {
  float value[4] = {};
  const auto refusal = RefusalOf([&] {
    WriteShard(TemporaryDir(dir_, 1, 1), 0, {{"w", DType::kF32, {4}, 0, 4, value}},
               [](const HostTensor& tensor, int64_t bytes, const BytesSink& sink) {
                 sink(tensor.data, bytes / 2);
               });
  });
  EXPECT_THAT(refusal.message, HasSubstr("tensor `w`: its bytes were not read whole"));
}

TEST_F(SaveLoad, BadTensorsAreNamed) {
  float value[4] = {};
  auto refusal = [&](const std::vector<HostTensor>& tensors) {
    return RefusalOf([&] { WriteShard(TemporaryDir(dir_, 1, 1), 0, tensors); });
  };
  EXPECT_THAT(refusal({{"w", DType::kF32, {2, 2}, 2, 3, value}}).message,
              HasSubstr("tensor `w`: a slice of 3 elements from 2 on, of 4"));
  EXPECT_THAT(
      refusal({{"w", DType::kF32, {4}, 0, 4, value}, {"w", DType::kF32, {4}, 0, 4, value}}).message,
      HasSubstr("`w` is given twice"));
  EXPECT_THAT(
      refusal({{"w", DType::kF32, {4}, 0, 2, value}, {"w", DType::kF32, {2, 2}, 2, 2, value}})
          .message,
      HasSubstr("disagree on shape"));
  for (const char* name : {"", "__metadata__", "a#0", "\xFF"}) {
    EXPECT_EQ(refusal({{name, DType::kF32, {4}, 0, 4, value}}).code, Code::kInvalidArgument)
        << name;
  }
}

TEST_F(SaveLoad, CommitRefusesAnIncompleteGang) {
  float value[4] = {};
  std::string temporary = TemporaryDir(dir_, 1, 1);
  auto refusal = [&](int world_size) {
    return RefusalOf([&] { Commit(dir_, MakeInfo(1, 1), world_size); });
  };
  WriteShard(temporary, 0, {{"w", DType::kF32, {4}, 0, 2, value}});
  EXPECT_THAT(refusal(2).message, HasSubstr("rank 1 has not written its shard"));
  EXPECT_THAT(refusal(1).message, HasSubstr("tensor `w`: the parts hold 2 of 4 elements"));
  WriteShard(temporary, 1, {{"w", DType::kF32, {4}, 3, 1, value}});
  EXPECT_THAT(refusal(2).message, HasSubstr("no part holds element 2"));
  WriteShard(temporary, 1, {{"w", DType::kF32, {4}, 1, 3, value}});
  EXPECT_THAT(refusal(2).message, HasSubstr("more than one part holds element 1"));
  WriteShard(temporary, 1, {{"w", DType::kF32, {2, 2}, 2, 2, value}});
  EXPECT_THAT(refusal(2).message, HasSubstr("ranks disagree"));
  WriteShard(temporary, 1, {{"w", DType::kF32, {4}, 2, 2, value}});
  std::filesystem::resize_file(temporary + "/rank-00001.safetensors", 70);
  EXPECT_THAT(refusal(2).message, HasSubstr("rank-00001.safetensors: has 70 bytes"));
  EXPECT_EQ(refusal(2).code, Code::kFailedPrecondition);
  WriteShard(temporary, 1, {{"w", DType::kF32, {4}, 2, 2, value}});
  EXPECT_EQ(refusal(2).code, Code::kOk);
  EXPECT_THAT(ListCheckpoints(dir_, nullptr), SizeIs(1));
}

TEST_F(SaveLoad, SameStepAndAttemptTwice) {
  Save(5);
  EXPECT_EQ(RefusalOf([&] { Save(5); }).code, Code::kAlreadyExists);
  ExpectState(CheckpointReader(dir_ + "/step-5.attempt-1"), 5);
  DiscardTemporary(dir_, 5, 1);
  EXPECT_THAT(Entries(), ElementsAre("step-5.attempt-1"));
  std::filesystem::resize_file(dir_ + "/step-5.attempt-1/manifest.json", 20);  // a torn one goes
  Save(5);
  ExpectState(CheckpointReader(dir_ + "/step-5.attempt-1"), 5);
  EXPECT_THAT(Entries(), ElementsAre("step-5.attempt-1"));
}

TEST_F(SaveLoad, NewestIsByStepThenAttempt) {
  for (auto [step, attempt] : {std::pair{9, 1}, {10, 1}, {100, 1}, {100, 2}, {20, 3}})
    Save(step, attempt);
  std::vector<std::string> skipped, order;
  for (const CheckpointInfo& info : ListCheckpoints(dir_, &skipped)) {
    order.push_back(info.path.substr(dir_.size() + 1));
  }
  EXPECT_THAT(order, ElementsAre("step-100.attempt-2", "step-100.attempt-1", "step-20.attempt-3",
                                 "step-10.attempt-1", "step-9.attempt-1"));
  EXPECT_THAT(skipped, IsEmpty());
}

TEST_F(SaveLoad, NoFolderIsAnEmptyList) {
  EXPECT_THAT(ListCheckpoints(dir_ + "/none", nullptr), IsEmpty());
  EXPECT_EQ(OpenNewest(dir_ + "/none", nullptr), nullptr);
  EXPECT_EQ(RefusalOf([&] { CheckpointReader reader(dir_ + "/none"); }).code, Code::kNotFound);
}

// The file size limit stands for a full disk: a write fails midway. A child, because the limit is
// the process's.
TEST_F(SaveLoad, FullDiskKeepsTheCheckpointBefore) {
  Save(1);
  pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Refusal refusal = RefusalOf([&] { Save(2); });
    bool right =
        refusal.code == Code::kResourceExhausted &&
        refusal.message.find("rank-00000.safetensors: can't be written") != std::string::npos &&
        refusal.message.find("free space there") != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(TemporaryDir(dir_, 2, 1) + "/rank-00000.safetensors"));
  std::vector<std::string> skipped;
  auto reader = OpenNewest(dir_, &skipped);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(reader->info().step, 1);
  EXPECT_THAT(skipped, IsEmpty());
  Save(2);  // there is space again
  EXPECT_EQ(OpenNewest(dir_, nullptr)->info().step, 2);
}

}  // namespace
}  // namespace coat
