#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/trainer/flags.h"
#include "worker/trainer/launcher.h"
#include "worker/trainer/rank_parent.h"
#include "worker/trainer/run_rank.h"

int main(int argc, char** argv) {
  const auto flags = coat::ParseTrainFlags(std::vector<std::string>(argv + 1, argv + argc));
  if (!flags.ok()) {
    std::fprintf(stderr, "coat-train: %s\n", flags.status().message().c_str());
    return 2;
  }
  if (flags->help) {
    std::fputs(coat::TrainHelp(), stdout);
    return 0;
  }
  if (flags->version) {
    std::puts("coat-train " COAT_VERSION);
    return 0;
  }
  if (!flags->rank_dir.empty()) {
    const std::string& dir = flags->rank_dir;
    const auto status = coat::RunRankParent(dir, [&dir] { return coat::RunRank(dir); });
    if (status.ok()) return *status;
    std::fprintf(stderr, "coat-train: %s\n", status.status().message().c_str());
    return 1;
  }
  return coat::RunJob(*flags, std::filesystem::read_symlink("/proc/self/exe").string());
}
