#include <google/protobuf/util/time_util.h>
#include <unistd.h>

#include <cstdlib>

#include "configs/base/units.h"
#include "configs/spec/defaults.h"

namespace coat {
namespace {

using google::protobuf::Duration;

constexpr const char* kApiVersion = "coatrack/v1";

Duration Seconds(int64_t seconds) {
  return google::protobuf::util::TimeUtil::SecondsToDuration(seconds);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return "worker";
  return name;
}

}  // namespace

std::string ExpandHome(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  const char* home = std::getenv("HOME");
  return (home == nullptr || *home == '\0' ? std::string("/") : home) + path.substr(1);
}

void ApplyDefaults(coatrack::v1::ServerConfig* config) {
  if (config->api_version().empty()) config->set_api_version(kApiVersion);
  if (!config->has_listen()) config->set_listen("127.0.0.1:7070");
  if (!config->has_health_listen()) config->set_health_listen("127.0.0.1:7071");
  if (!config->has_metrics_listen()) config->set_metrics_listen("127.0.0.1:7072");
  if (!config->has_state_dir()) config->set_state_dir("~/.local/state/coatrack/server");
  config->set_state_dir(ExpandHome(config->state_dir()));
  if (!config->has_insecure_plaintext()) config->set_insecure_plaintext(false);
  if (!config->has_lease()) *config->mutable_lease() = Seconds(15);
  if (!config->has_lost_after()) *config->mutable_lost_after() = Seconds(60);
  if (!config->has_reconcile_wait()) *config->mutable_reconcile_wait() = Seconds(10);
  if (!config->has_rendezvous_timeout()) *config->mutable_rendezvous_timeout() = Seconds(120);
  if (!config->has_queue_limit()) config->set_queue_limit(100'000);
  if (!config->has_retention()) *config->mutable_retention() = Seconds(720 * 3600);
  if (!config->has_retained_jobs()) config->set_retained_jobs(100'000);
  if (!config->has_max_workers()) config->set_max_workers(2000);
  if (!config->has_grace()) *config->mutable_grace() = Seconds(60);
  if (!config->has_stall_floor()) *config->mutable_stall_floor() = Seconds(60);
  if (!config->has_load_limit()) *config->mutable_load_limit() = Seconds(600);
  if (!config->has_retry_backoff()) *config->mutable_retry_backoff() = Seconds(1);
}

void ApplyDefaults(coatrack::v1::WorkerConfig* config) {
  if (config->api_version().empty()) config->set_api_version(kApiVersion);
  if (!config->has_name()) config->set_name(HostName());
  if (!config->has_server()) config->set_server("127.0.0.1:7070");
  if (!config->has_state_dir()) config->set_state_dir("~/.local/state/coatrack/worker");
  config->set_state_dir(ExpandHome(config->state_dir()));
  if (config->has_data_root()) config->set_data_root(ExpandHome(config->data_root()));
  for (auto& root : *config->mutable_roots()) root.set_path(ExpandHome(root.path()));
  if (!config->has_advertise_address()) config->set_advertise_address("127.0.0.1");
  if (!config->has_health_listen()) config->set_health_listen("127.0.0.1:0");
  if (!config->has_metrics_listen()) config->set_metrics_listen("127.0.0.1:0");
  if (!config->has_insecure_plaintext()) config->set_insecure_plaintext(false);
  if (!config->has_cpu_slots()) config->set_cpu_slots(1);
  if (!config->has_reserve_bytes()) config->set_reserve_bytes(640 * kMiB);
  config->set_dcgm_job_dir(ExpandHome(config->dcgm_job_dir()));  // empty: none
  if (config->has_trainer_path()) config->set_trainer_path(ExpandHome(config->trainer_path()));
  if (!config->has_drain_grace()) *config->mutable_drain_grace() = Seconds(60);
}

void ApplyDefaults(coatrack::v1::ClientConfig* config) {
  if (config->api_version().empty()) config->set_api_version(kApiVersion);
  if (!config->has_server()) config->set_server("127.0.0.1:7070");
}

}  // namespace coat
