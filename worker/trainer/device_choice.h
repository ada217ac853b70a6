// Which devices the ranks of a job started on this machine get.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "coatrack/v1/job.pb.h"
#include "configs/base/status.h"

namespace coat {

// One device a rank: "cpu" for all, or "cuda:0", "cuda:1", ... `auto` means GPUs when there is one
// for every rank, else the CPU. `count_gpus` is asked unless the job says cpu.
// kInvalidArgument with the remedy when the job says gpu and there are too few of them.
Result<std::vector<std::string>> ChooseDevices(const coatrack::v1::JobSpec& spec,
                                               const std::function<Result<int>()>& count_gpus);

}  // namespace coat
