// What a crash or a bad disk leaves behind.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace coat {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Damage : public CheckpointTest {
 protected:
  std::vector<std::string> FilesOf(const std::string& path) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
};

// Each file, cut at each of many lengths and grown by a byte: the one before is found, and the file
// is named.
TEST_F(Damage, TruncateEachFile) {
  Save(1, 1, 2);
  std::string path = Save(2, 1, 2).path;
  ASSERT_THAT(FilesOf(path), SizeIs(3));
  for (const std::string& name : FilesOf(path)) {
    std::string file = path + "/" + name, bytes = ReadBytes(file);
    for (size_t length : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, bytes.size() / 3,
                          bytes.size() / 2, bytes.size() - 1, bytes.size() + 1}) {
      std::string changed = bytes;
      changed.resize(length, 'x');
      WriteBytes(file, changed);
      std::vector<std::string> skipped;
      auto reader = OpenNewest(dir_, &skipped);
      ASSERT_NE(reader, nullptr);
      EXPECT_EQ(reader->info().step, 1);
      EXPECT_THAT(skipped, ElementsAre(HasSubstr(file)));
      Refusal refusal = RefusalOf([&] { CheckpointReader damaged(path); });
      EXPECT_EQ(refusal.code, Code::kDataLoss);
      EXPECT_THAT(refusal.message, HasSubstr(file));
    }
    WriteBytes(file, bytes);
  }
  EXPECT_EQ(OpenNewest(dir_, nullptr)->info().step, 2);
}

TEST_F(Damage, RemoveEachFile) {
  Save(1, 1, 2);
  std::string path = Save(2, 1, 2).path;
  for (const std::string& name : FilesOf(path)) {
    std::filesystem::rename(path + "/" + name, root_ + "/aside");
    std::vector<std::string> skipped;
    EXPECT_EQ(OpenNewest(dir_, &skipped)->info().step, 1);
    EXPECT_THAT(skipped, ElementsAre(AllOf(HasSubstr(path + "/" + name), HasSubstr("is missing"))));
    std::filesystem::rename(root_ + "/aside", path + "/" + name);
  }
}

// One flipped bit at any place of any file is noticed, and the place of the part is named.
TEST_F(Damage, FlipOneBitAnywhere) {
  Save(1, 1, 2);
  std::string path = Save(2, 1, 2).path;
  std::mt19937 random(5);
  for (const std::string& name : FilesOf(path)) {
    std::string file = path + "/" + name, bytes = ReadBytes(file);
    for (int i = 0; i < 100; ++i) {
      std::string changed = bytes;
      size_t at = random() % bytes.size();
      changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
      WriteBytes(file, changed);
      Refusal refusal = RefusalOf([&] { CheckpointReader damaged(path); });
      EXPECT_EQ(refusal.code, Code::kDataLoss) << name << " at " << at;
      EXPECT_THAT(refusal.message, HasSubstr(file));
      if (name != "manifest.json") {
        EXPECT_THAT(refusal.message, HasSubstr(": offset "));
      }
    }
    WriteBytes(file, bytes);
  }
  CheckpointReader reader(path);
}

TEST_F(Damage, CorruptDataNamesTensorAndOffset) {
  std::string path = Save(2).path;
  std::string file = path + "/rank-00000.safetensors", bytes = ReadBytes(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);  // the last U8/F8 tensor of the file
  WriteBytes(file, bytes);
  std::vector<std::string> skipped;
  EXPECT_THAT(ListCheckpoints(dir_, &skipped), SizeIs(1));  // reads no data
  EXPECT_EQ(OpenNewest(dir_, &skipped), nullptr);
  EXPECT_THAT(skipped,
              ElementsAre(AllOf(HasSubstr(file + ": offset "), HasSubstr("tensor `flag`"))));
}

TEST_F(Damage, ManifestOfAnotherDirectory) {
  std::string path = Save(2).path;
  std::filesystem::rename(path, dir_ + "/step-9.attempt-1");
  std::vector<std::string> skipped;
  EXPECT_THAT(ListCheckpoints(dir_, &skipped), IsEmpty());
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("belongs to step 2, attempt 1")));
}

TEST_F(Damage, ForeignNamesAreNotCheckpoints) {
  Save(2);
  for (const char* name : {"latest", "step-x.attempt-1", ".tmp-step-7.attempt-1"}) {
    std::filesystem::create_directory(dir_ + "/" + name);
  }
  WriteBytes(dir_ + "/step-3.attempt-1", "a file");
  std::vector<std::string> skipped;
  EXPECT_THAT(ListCheckpoints(dir_, &skipped), SizeIs(1));
  EXPECT_THAT(skipped, ElementsAre(HasSubstr("step-3.attempt-1/manifest.json: is missing")));
}

// A save by two ranks in a loop, killed at random moments: whatever was committed loads, the
// newest one is at most one step behind what the child had told, and the next attempt can go on.
TEST_F(Damage, KillAtRandomMoments) {
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  int64_t next_step = 1, killed_within = 0;
  for (int32_t attempt = 1; attempt <= 25; ++attempt) {
    int told[2];
    ASSERT_EQ(::pipe(told), 0);
    pid_t child = ::fork();
    if (child == 0) {
      for (int64_t step = next_step;; ++step) {
        Save(step, attempt, 2);
        ApplyRetention(dir_, 2, attempt, {});
        if (::write(told[1], &step, sizeof(step)) != sizeof(step)) ::_exit(1);
      }
    }
    ::close(told[1]);
    int64_t last = next_step - 1, step;
    for (int saves = static_cast<int>(random() % 3); saves >= 0; --saves) {
      ASSERT_EQ(::read(told[0], &step, sizeof(step)), static_cast<ssize_t>(sizeof(step)));
      last = step;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(told[0], &step, sizeof(step)) == static_cast<ssize_t>(sizeof(step))) last = step;
    ::close(told[0]);

    std::vector<std::string> skipped;
    auto reader = OpenNewest(dir_, &skipped);
    ASSERT_NE(reader, nullptr);
    EXPECT_THAT(skipped, IsEmpty());
    EXPECT_GE(reader->info().step, last);
    EXPECT_LE(reader->info().step, last + 1);
    ExpectState(*reader, reader->info().step);
    if (Entries().size() > 2) ++killed_within;
    next_step = reader->info().step + 1;
  }
  EXPECT_GT(killed_within, 0) << "no kill fell into a save: the test has lost its aim";
}

}  // namespace
}  // namespace coat
