// coat-train --nproc N: starts the ranks of one job on this host, watches and reports.
#pragma once

#include <string>

#include "worker/trainer/flags.h"

namespace coat {

// Layout of --out: checkpoints/, attempts/<job>/<attempt>/<rank>/ (rank_protocol.h), and
// rendezvous/<attempt>/. Progress goes to stdout, errors to stderr. SIGINT and SIGTERM are blocked
// in the calling thread and answered here. Returns the exit status (TrainHelp).
int RunJob(const TrainFlags& flags, const std::string& trainer_path);

}  // namespace coat
