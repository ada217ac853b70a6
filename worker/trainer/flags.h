// The command line of coat-train.
#pragma once

#include <string>
#include <vector>

#include "configs/base/status.h"

namespace coat {

struct TrainFlags {
  bool help = false;
  bool version = false;
  std::string job;                     // --job
  int nproc = 0;                       // --nproc; 0: resources.ranks of the job
  std::string data_root;               // --data-root; empty: the job file's folder
  std::string out;                     // --out; empty: coat-runs/<job name>
  int threads = 0;                     // --threads, a rank; 0: the job's, else cores / ranks
  std::vector<std::string> overrides;  // --set path=value
  bool resume = false;
  bool quiet = false;
  std::string rank_dir;  // --rank-dir: be one rank
};

// Accepts "--flag value" and "--flag=value". kInvalidArgument naming the flag and what it takes.
Result<TrainFlags> ParseTrainFlags(const std::vector<std::string>& arguments);

const char* TrainHelp();

}  // namespace coat
