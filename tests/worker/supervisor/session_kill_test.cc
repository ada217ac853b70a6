#include "worker/supervisor/session_kill.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/process.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

// A rank's parent that holds its lock for ever; the rank itself is gone.
pid_t StartHungParent(const std::string& dir) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setsid();
  const int fd = open((dir + "/" + kAliveFile).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const std::string pids = std::to_string(getpid()) + " 1\n";  // init: no child of this one
  if (flock(fd, LOCK_EX) != 0 || write(fd, pids.data(), pids.size()) < 0) _exit(1);
  while (true) pause();
}

TEST(KillRank, EndsAParentThatHangsBehindItsExit) {
  const testing::TempDir dir;
  const std::string rank_dir = dir.path().string();
  const pid_t parent = StartHungParent(rank_dir);
  ASSERT_GT(parent, 0);
  ASSERT_TRUE(testing::WaitUntil([&] { return ReadRankPids(rank_dir).ok(); }));
  static_cast<void>(KillRank(rank_dir));
  EXPECT_EQ(waitpid(parent, nullptr, WNOHANG), 0);  // its exit.json is still to come
  ASSERT_TRUE(WriteExit(rank_dir, coatrack::v1::RankExit()).ok());
  static_cast<void>(KillRank(rank_dir));
  EXPECT_TRUE(testing::WaitUntil([&] { return !RankIsAlive(rank_dir); }));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace coat
