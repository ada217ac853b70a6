// Plays the trainer in the tests of the rank protocol: `rank_actor --rank-dir DIR` does what the
// text of DIR/behaviour says.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/support/process.h"
#include "worker/trainer/rank_parent.h"

namespace {

using coat::testing::ReadFile;
using coat::testing::WaitUntil;
using coatrack::v1::Reason;

int End(const std::string& dir, Reason reason, const std::string& message) {
  coatrack::v1::RankExit exit;
  exit.set_reason(reason);
  exit.set_message(message);
  exit.set_last_step(42);
  coat::WriteResult(dir, exit);
  return reason == Reason::REASON_USER_ERROR ? 1 : 0;
}

int Act(const std::string& dir) {
  const std::string behaviour = ReadFile(dir + "/behaviour");
  if (behaviour == "crash") {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end the process in another way
    ::raise(SIGSEGV);
  }
  if (behaviour == "silent") return 3;
  if (behaviour == "error") return End(dir, Reason::REASON_USER_ERROR, "corpus/a.txt: too short");
  if (behaviour == "chatter") {
    std::puts("to stdout");
    std::fputs("to stderr", stderr);
  }
  if (behaviour == "flood") {
    const std::string block(1 << 20, 'x');
    for (int i = 0; i < 24; ++i) std::fwrite(block.data(), 1, block.size(), stdout);
    std::fflush(stdout);
  }
  if (behaviour == "wait" || behaviour == "flood") {
    WaitUntil([&] { return ReadFile(dir + "/behaviour") == "finish"; }, std::chrono::minutes(1));
  }
  if (behaviour == "wait_for_sigterm") {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    const timespec timeout{30, 0};
    if (::sigtimedwait(&set, nullptr, &timeout) == SIGTERM) {
      return End(dir, Reason::REASON_STOPPED, "asked to stop");
    }
  }
  return End(dir, Reason::REASON_COMPLETED, "");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string dir = argv[2];
  const auto status = coat::RunRankParent(dir, [&dir] { return Act(dir); });
  return status.ok() ? *status : 1;
}
