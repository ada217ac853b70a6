#include <google/protobuf/util/time_util.h>

#include <set>

#include "configs/base/keepalive.h"
#include "configs/spec/checker.h"
#include "configs/spec/defaults.h"
#include "configs/spec/validate.h"

namespace coat {
namespace {

constexpr NumberRule kServerRules[] = {
    {"queue_limit", 1, 10'000'000},
    {"retained_jobs", 1, 10'000'000},
    {"max_workers", 1, 100'000},
};
constexpr NumberRule kWorkerRules[] = {
    {"cpu_slots", 0, 1024},
    {"reserve_bytes", 0, 1e15},
};

void CheckApiVersion(const std::string& version, Checker* check) {
  check->Require(version == "coatrack/v1", "api_version", "'" + version + "' is not known",
                 "write coatrack/v1");
}

// An address that other hosts reach needs the word of the person who runs it.
void CheckPlaintext(const std::string& address, const std::string& field, bool allowed,
                    Checker* check) {
  check->Require(allowed || IsLoopback(address), field,
                 "'" + address + "' is beyond loopback and nothing is encrypted",
                 "use 127.0.0.1, or --insecure-plaintext on a network you trust");
}

void CheckDurations(const google::protobuf::Message& config, Checker* check) {
  constexpr int64_t kYearMs = int64_t{366} * 24 * 3600 * 1000;
  const auto& type = *config.GetDescriptor();
  const auto& reflection = *config.GetReflection();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto* field = type.field(i);
    if (field->is_repeated() || field->message_type() == nullptr ||
        !reflection.HasField(config, field)) {
      continue;
    }
    const auto* duration =
        dynamic_cast<const google::protobuf::Duration*>(&reflection.GetMessage(config, field));
    if (duration == nullptr) continue;
    const int64_t ms = DurationMs(*duration);
    check->Require(ms > 0 && ms <= kYearMs, field->name(), "is outside 1ms to 8784h",
                   "write a duration such as 15s");
  }
}

}  // namespace

bool IsLoopback(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost" || host == "::1") return true;
  return host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos;
}

Violations ValidateServerConfig(const coatrack::v1::ServerConfig& config) {
  Checker check;
  CheckApiVersion(config.api_version(), &check);
  check.Numbers(config, kServerRules);
  check.Address(config.listen(), "listen");
  check.Address(config.health_listen(), "health_listen");
  check.Address(config.metrics_listen(), "metrics_listen");
  CheckPlaintext(config.listen(), "listen", config.insecure_plaintext(), &check);
  CheckPlaintext(config.metrics_listen(), "metrics_listen", config.insecure_plaintext(), &check);
  check.Require(!config.state_dir().empty(), "state_dir", "is empty", "write a folder");
  CheckDurations(config, &check);
  if (check.Clean("lease") && check.Clean("lost_after")) {
    check.Require(DurationMs(config.lost_after()) >= DurationMs(config.lease()), "lost_after",
                  "is shorter than lease", "write at least the lease");
  }
  // Ranks other than the first show their progress in their worker's reports alone.
  const auto check_limit = [&](const google::protobuf::Duration& limit, const char* field) {
    if (!check.Clean(field)) return;
    check.Require(DurationMs(limit) >= 2 * kSyncMaxWaitMs, field,
                  "is shorter than twice the 5s in which workers report progress, so that ranks "
                  "that run would count as stalled",
                  "write at least 10s");
  };
  check_limit(config.stall_floor(), "stall_floor");
  check_limit(config.load_limit(), "load_limit");
  return check.Take();
}

Violations ValidateWorkerConfig(const coatrack::v1::WorkerConfig& config) {
  Checker check;
  CheckApiVersion(config.api_version(), &check);
  check.Numbers(config, kWorkerRules);
  check.Require(!config.name().empty() && config.name().size() <= 253, "name",
                "must have 1 to 253 characters", "write the host's name");
  check.Address(config.server(), "server");
  check.Address(config.health_listen(), "health_listen");
  check.Address(config.metrics_listen(), "metrics_listen");
  CheckPlaintext(config.server(), "server", config.insecure_plaintext(), &check);
  CheckPlaintext(config.metrics_listen(), "metrics_listen", config.insecure_plaintext(), &check);
  check.Require(!config.data_root().empty(), "data_root", "is required",
                "write the folder that data paths of jobs are relative to");
  check.Require(!config.state_dir().empty(), "state_dir", "is empty", "write a folder");
  check.Require(!config.advertise_address().empty(), "advertise_address", "is empty",
                "write this host's address as other workers reach it");
  std::set<std::string> names;
  for (int i = 0; i < config.roots_size(); ++i) {
    const std::string field = "roots[" + std::to_string(i) + "]";
    const std::string& name = config.roots(i).name();
    check.Require(IsName(name), field + ".name", "'" + name + "' is not a name",
                  "use lower-case letters, digits, '-' and '.'");
    check.Require(names.insert(name).second, field + ".name", "'" + name + "' is used twice",
                  "give each root its own name");
    check.Require(!config.roots(i).path().empty(), field + ".path", "is required",
                  "write a folder");
  }
  check.Labels(config.labels(), "labels");
  CheckDurations(config, &check);
  return check.Take();
}

Violations ValidateClientConfig(const coatrack::v1::ClientConfig& config) {
  Checker check;
  CheckApiVersion(config.api_version(), &check);
  check.Address(config.server(), "server");
  return check.Take();
}

}  // namespace coat
