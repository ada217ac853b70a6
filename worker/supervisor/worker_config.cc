#include "worker/supervisor/worker_config.h"

#include <unistd.h>

#include <filesystem>

namespace coat {
namespace {

std::string Absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Status ResolveWorkerConfig(const std::string& program_path, coatrack::v1::WorkerConfig* config) {
  config->set_state_dir(Absolute(config->state_dir()));
  config->set_data_root(Absolute(config->data_root()));
  for (auto& root : *config->mutable_roots()) root.set_path(Absolute(root.path()));
  if (!config->dcgm_job_dir().empty()) config->set_dcgm_job_dir(Absolute(config->dcgm_job_dir()));
  if (config->trainer_path().empty()) {
    config->set_trainer_path(
        (std::filesystem::path(program_path).parent_path() / "coat-train").string());
  }
  config->set_trainer_path(Absolute(config->trainer_path()));
  if (access(config->trainer_path().c_str(), X_OK) != 0) {
    return {Code::kInvalidArgument, "trainer_path: " + config->trainer_path() +
                                        " cannot be executed; give one with --trainer-path"};
  }
  return {};
}

bool IsPathComponent(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace coat
