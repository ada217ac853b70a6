#include "worker/trainer/session.h"

#include <algorithm>

#include "configs/base/error.h"
#include "configs/spec/validate.h"
#include "worker/checkpoint/sha256.h"
#include "worker/collectives/nccl.h"
#include "worker/memory/device_memory.h"
#include "worker/metrics/throughput.h"
#include "worker/model/recorded.h"
#include "worker/trainer/checkpointing.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using coatrack::v1::RankLaunch;
using coatrack::v1::Recipe;

void CheckLaunch(const RankLaunch& launch, const JobSpec& spec) {
  const Violations violations = ValidateJobSpec(spec);
  if (!violations.empty()) throw Error(ViolationsToStatus(violations));
  if (launch.world_size() < 1 || launch.rank() < 0 || launch.rank() >= launch.world_size()) {
    throw Error(Code::kInvalidArgument, "launch: rank " + std::to_string(launch.rank()) +
                                            " of a world of " +
                                            std::to_string(launch.world_size()));
  }
  const int64_t together = spec.train().micro_batch() * launch.world_size();
  if (spec.train().global_batch() % together != 0) {
    throw Error(Code::kInvalidArgument,
                "train.global_batch: " + std::to_string(spec.train().global_batch()) +
                    " is no multiple of micro_batch x ranks = " + std::to_string(together) +
                    "; choose a multiple, or another number of ranks");
  }
}

std::string ManifestHash(const coatrack::v1::DataManifest& manifest) {
  std::string text;
  for (const auto& file : manifest.files()) {
    text += file.path() + '\n' + std::to_string(file.size_bytes()) + ' ' + file.sha256() + '\n';
  }
  return Sha256Hex(text);
}

void BuildEngine(Session* session) {
  const RankLaunch& launch = session->launch;
  const JobSpec& spec = session->spec;
  session->ops = CreateOps(launch.device(), std::max(1, launch.threads()));
  const DeviceType device = session->ops->device();
  session->steps_ahead = device == DeviceType::kCuda ? 1 : 0;
  session->peak_flops =
      PeakFlops(session->ops->device_name(), spec.precision().recipe() != Recipe::RECIPE_BF16);
  session->plan = MakePlan(spec, launch.rank(), launch.world_size(), device);
  session->planned_bf16 =
      MakePlan(Bf16Counterpart(spec), launch.rank(), launch.world_size(), device).bytes_by_kind;
  session->arena = std::make_unique<Arena>(session->plan, launch.device());
  session->ops->SetWorkspace(session->arena->Get("ops.workspace"));
  const auto* expected = launch.has_data_manifest() ? &launch.data_manifest() : nullptr;
  session->dataset = OpenDataset(spec, launch.data_root(), expected);
  session->model = std::make_unique<RecordedModel>(
      CreateModel(spec, session->ops.get(), session->arena.get()), session->ops.get());
  session->optimizer =
      CreateOptimizer(spec, session->model.get(), session->ops.get(), session->arena.get());
  session->feeder = std::make_unique<BatchFeeder>(spec, session->dataset.get(), session->ops.get(),
                                                  session->arena.get());
}

void LoadStart(Session* session) {
  const RankLaunch& launch = session->launch;
  if (!launch.resume_dir().empty()) {
    RestoreCheckpoint(launch.resume_dir(), session);
  } else if (!launch.init_dir().empty()) {
    LoadWeights(launch.init_dir(), session);
  } else {
    session->model->Initialize(session->spec.train().seed());
  }
}

}  // namespace

void CompareOverRanks(Collectives* collectives, const std::string& hash, Code code,
                      const std::string& what) {
  constexpr size_t kDigits = 16;
  for (size_t begin = 0; begin + kDigits <= hash.size(); begin += kDigits) {
    const uint64_t word = std::stoull(hash.substr(begin, kDigits), nullptr, 16);
    const std::vector<int64_t> words = collectives->AllGather(static_cast<int64_t>(word));
    for (size_t r = 1; r < words.size(); ++r) {
      if (words[r] != words[0]) {
        throw Error(code, what + " of rank " + std::to_string(r) + " differ from those of rank 0");
      }
    }
  }
}

std::unique_ptr<Session> BuildSession(const RankLaunch& launch, const JobSpec& spec,
                                      const ConnectFunction& connect) {
  CheckLaunch(launch, spec);
  auto session = std::make_unique<Session>();
  session->launch = launch;
  session->spec = spec;
  BuildEngine(session.get());
  LoadStart(session.get());
  session->collectives = connect();
  if (session->ops->device() == DeviceType::kCuda) {
    session->collectives =
        CreateNcclCollectives(std::move(session->collectives), session->ops->stream());
  }
  CompareOverRanks(session->collectives.get(), ManifestHash(session->dataset->manifest()),
                   Code::kDataChanged, "the data files (path, size, SHA-256)");
  return session;
}

}  // namespace coat
