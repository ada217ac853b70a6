#include "worker/trainer/device_choice.h"

namespace coat {
namespace {

std::string Gpus(int count) { return std::to_string(count) + (count == 1 ? " GPU" : " GPUs"); }

}  // namespace

Result<std::vector<std::string>> ChooseDevices(const coatrack::v1::JobSpec& spec,
                                               const std::function<Result<int>()>& count_gpus) {
  const int ranks = spec.resources().ranks();
  const bool must = spec.resources().device() == coatrack::v1::DEVICE_KIND_GPU;
  std::vector<std::string> devices(static_cast<size_t>(ranks), "cpu");
  if (spec.resources().device() == coatrack::v1::DEVICE_KIND_CPU) return devices;
  const Result<int> gpus = count_gpus();
  if (!gpus.ok()) {
    if (!must) return devices;
    return Status(Code::kInvalidArgument,
                  "resources.device: gpu was asked for, but " + gpus.status().message() +
                      "; train on the CPU with --set resources.device=cpu, or use a machine with " +
                      Gpus(ranks));
  }
  if (*gpus < ranks) {
    if (!must) return devices;
    return Status(Code::kInvalidArgument,
                  "resources.ranks: " + std::to_string(ranks) + " ranks need " + Gpus(ranks) +
                      ", this machine has " + std::to_string(*gpus) + "; use --nproc " +
                      std::to_string(*gpus) + " or --set resources.device=cpu");
  }
  for (int rank = 0; rank < ranks; ++rank) {
    devices[static_cast<size_t>(rank)] = "cuda:" + std::to_string(rank);
  }
  return devices;
}

}  // namespace coat
