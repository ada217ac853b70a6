#include "worker/supervisor/rank_launcher.h"

#include <google/protobuf/util/json_util.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "worker/supervisor/identity.h"
#include "worker/supervisor/worker_config.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

constexpr char kDesiredFile[] = "desired.json";

Status CheckName(const char* field, const std::string& name, bool may_be_empty) {
  if ((may_be_empty && name.empty()) || IsPathComponent(name)) return {};
  return {Code::kInvalidArgument, std::string(field) + ": \"" + name + "\" is no plain name"};
}

Status CheckNames(const coatrack::v1::DesiredRank& desired) {
  RETURN_IF_ERROR(CheckName("key.job_id", desired.key().job_id(), false));
  RETURN_IF_ERROR(CheckName("resume", desired.resume(), true));
  RETURN_IF_ERROR(CheckName("init_job", desired.init_job(), true));
  return CheckName("init_checkpoint", desired.init_checkpoint(), true);
}

Status WriteDesired(const std::string& dir, const coatrack::v1::DesiredRank& desired) {
  coatrack::v1::DesiredRank kept = desired;
  kept.clear_spec();
  kept.clear_data_manifest();
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(kept, &text).ok()) {
    return {Code::kInternal, dir + "/" + kDesiredFile + ": the order cannot be written as JSON"};
  }
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) return {Code::kIo, dir + ": " + error.message()};
  return ReplaceFile(dir + "/" + kDesiredFile, text + "\n");
}

}  // namespace

Result<coatrack::v1::RankLaunch> MakeLaunch(const LaunchContext& context,
                                            const coatrack::v1::DesiredRank& desired) {
  RETURN_IF_ERROR(CheckNames(desired));
  coatrack::v1::RankLaunch launch;
  launch.set_job_id(desired.key().job_id());
  launch.set_attempt(desired.key().attempt());
  launch.set_rank(desired.key().rank());
  launch.set_world_size(desired.world_size());
  const bool cpu = desired.device().rfind("cpu", 0) == 0;
  launch.set_device(cpu ? "cpu" : "cuda:" + desired.device());
  launch.set_threads(desired.threads());
  launch.set_data_root(context.data_root);
  launch.set_socket_path(context.socket_path);
  launch.set_advertise_address(context.advertise_address);
  launch.set_incarnation(context.incarnation);
  *launch.mutable_data_manifest() = desired.data_manifest();
  if (!desired.has_data_manifest()) launch.clear_data_manifest();
  if (desired.root_uuid().empty()) return launch;
  const StorageRootDir* root = FindRoot(context.roots, desired.root_uuid());
  if (root == nullptr) {
    return Status(Code::kNotFound, "root_uuid: this worker has no storage root " +
                                       desired.root_uuid() + "; add it under roots and restart");
  }
  launch.set_checkpoint_dir(root->path + "/" + desired.key().job_id());
  if (!desired.resume().empty()) {
    launch.set_resume_dir(launch.checkpoint_dir() + "/" + desired.resume());
  }
  if (!desired.init_checkpoint().empty()) {
    launch.set_init_dir(root->path + "/" + desired.init_job() + "/" + desired.init_checkpoint());
  }
  return launch;
}

Status LaunchRank(const LaunchContext& context, const coatrack::v1::DesiredRank& desired) {
  ASSIGN_OR_RETURN(const coatrack::v1::RankLaunch launch, MakeLaunch(context, desired));
  // Gone since the coordinator heard of it: it will name a newer one with the next report.
  for (const std::string& needed : {launch.resume_dir(), launch.init_dir()}) {
    if (needed.empty() || std::filesystem::is_directory(needed)) continue;
    return {Code::kNotFound, "checkpoint " + needed + " is not there (any more)"};
  }
  const std::string dir =
      RankDir(context.state_dir, launch.job_id(), launch.attempt(), launch.rank());
  RETURN_IF_ERROR(WriteDesired(dir, desired));
  RETURN_IF_ERROR(WriteLaunch(dir, launch, desired.spec()));
  RETURN_IF_ERROR(WritePinned(dir, {desired.pinned().begin(), desired.pinned().end()}));
  return SpawnRank(dir, context.trainer_path);
}

Result<coatrack::v1::DesiredRank> ReadDesired(const std::string& rank_dir) {
  const std::string path = rank_dir + "/" + kDesiredFile;
  std::ifstream file(path);
  if (!file) return Status(Code::kNotFound, path + ": missing");
  std::stringstream text;
  text << file.rdbuf();
  coatrack::v1::DesiredRank desired;
  if (!google::protobuf::util::JsonStringToMessage(text.str(), &desired).ok()) {
    return Status(Code::kDataLoss, path + ": is no JSON of a DesiredRank");
  }
  return desired;
}

}  // namespace coat
