#include "server/api/server_process.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "configs/metrics/page_server.h"
#include "configs/spec/defaults.h"
#include "configs/spec/validate.h"
#include "server/api/grpc_server.h"
#include "server/loops/dispatch_loop.h"
#include "server/loops/lease_loop.h"
#include "server/loops/retention_loop.h"
#include "server/metrics/families.h"
#include "server/store/record_file.h"
#include "server/store/sqlite_store.h"

namespace coat {
namespace {

constexpr char kVersion[] = "0.1.0";
// For answers under way: waiting calls are ended by then, and a client that does not look at its
// connection would hold the server for as long as it is allowed to.
constexpr int64_t kStopGraceMs = 500;
constexpr int64_t kDescriptorsPerWorker = 4;
constexpr int64_t kOtherDescriptors = 256;

Status CheckAddress(const char* field, const std::string& address, bool insecure_plaintext) {
  if (insecure_plaintext || IsLoopback(address)) return {};
  return {Code::kInvalidArgument,
          std::string(field) + ": " + address +
              " is not on loopback and this traffic is not encrypted; listen on 127.0.0.1, or add "
              "--insecure-plaintext on a network you trust"};
}

// Lower-case letters and digits that are hard to mistake for one another.
std::string NewJobId() {
  static constexpr char kAlphabet[] = "abcdefghjkmnpqrstuvwxyz23456789";
  std::random_device random;
  std::uniform_int_distribution<size_t> pick(0, sizeof(kAlphabet) - 2);
  std::string id;
  for (int i = 0; i < 10; ++i) id += kAlphabet[pick(random)];
  return id;
}

CoordinatorOptions OptionsOf(const coatrack::v1::ServerConfig& config) {
  CoordinatorOptions options;
  options.leases.lease_ms = DurationMs(config.lease());
  options.leases.lost_after_ms = DurationMs(config.lost_after());
  options.leases.max_workers = config.max_workers();
  options.stall.floor_ms = DurationMs(config.stall_floor());
  options.stall.load_ms = DurationMs(config.load_limit());
  options.gang.grace_ms = DurationMs(config.grace());
  options.gang.retry_backoff_ms = DurationMs(config.retry_backoff());
  options.reconcile_wait_ms = DurationMs(config.reconcile_wait());
  options.rendezvous_timeout_ms = DurationMs(config.rendezvous_timeout());
  options.queue_limit = config.queue_limit();
  options.retention_ms = DurationMs(config.retention());
  options.retained_jobs = config.retained_jobs();
  return options;
}

// Raises the limit of descriptors to what the workers may need.
Status RaiseDescriptors(int32_t max_workers) {
  const auto needed = static_cast<rlim_t>(kDescriptorsPerWorker * max_workers + kOtherDescriptors);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= needed) return {};
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? needed : std::min(needed, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed) return {};
  return {Code::kResourceExhausted,
          "max_workers " + std::to_string(max_workers) + " needs " + std::to_string(needed) +
              " file descriptors, the limit is " + std::to_string(limit.rlim_max) +
              "; raise it (LimitNOFILE, ulimit -n) or lower max_workers"};
}

// Held until the process ends: two coordinators on one database would both place jobs.
Result<int> LockState(const std::string& state_dir) {
  std::error_code error;
  std::filesystem::create_directories(state_dir, error);
  const std::string path = state_dir + "/lock";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Status(Code::kIo, path + ": " + std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return Status(Code::kFailedPrecondition,
                path + " is held: another coat-server uses this state_dir; stop it first");
}

}  // namespace

struct ServerProcess::Impl {
  int lock_fd = -1;
  std::unique_ptr<Store> store;
  std::unique_ptr<Journal> journal;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<PageServer> metrics;
  std::unique_ptr<GrpcServer> server;
  std::unique_ptr<DispatchLoop> dispatch;
  std::unique_ptr<LeaseLoop> leases;
  std::unique_ptr<RetentionLoop> retention;
  BoundPorts ports;
  std::string refusal;
};

ServerProcess::ServerProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ServerProcess::~ServerProcess() {
  impl_->retention.reset();
  impl_->leases.reset();
  impl_->dispatch.reset();
  if (impl_->coordinator != nullptr) impl_->coordinator->Shutdown();
  if (impl_->server != nullptr) impl_->server->Stop(kStopGraceMs);
  impl_->metrics.reset();
  // Their last callbacks still need the coordinator, and calls that wait for them the server.
  impl_->store.reset();
  impl_->journal.reset();
  impl_->server.reset();
  impl_->coordinator.reset();
  if (impl_->lock_fd >= 0) close(impl_->lock_fd);
}

const BoundPorts& ServerProcess::ports() const { return impl_->ports; }
const std::string& ServerProcess::refusal() const { return impl_->refusal; }

Result<std::unique_ptr<ServerProcess>> ServerProcess::Start(
    const coatrack::v1::ServerConfig& config, const Clock* clock,
    std::function<void(const std::string&)> log) {
  const bool plaintext = config.insecure_plaintext();
  RETURN_IF_ERROR(CheckAddress("listen", config.listen(), plaintext));
  RETURN_IF_ERROR(CheckAddress("health_listen", config.health_listen(), plaintext));
  RETURN_IF_ERROR(CheckAddress("metrics_listen", config.metrics_listen(), plaintext));
  RETURN_IF_ERROR(RaiseDescriptors(config.max_workers()));
  std::unique_ptr<ServerProcess> process(new ServerProcess(std::make_unique<Impl>()));
  Impl* impl = process->impl_.get();
  ASSIGN_OR_RETURN(impl->lock_fd, LockState(config.state_dir()));
  ASSIGN_OR_RETURN(OpenedStore opened, OpenSqliteStore({config.state_dir(), 0}));
  impl->store = std::move(opened.store);
  impl->journal = std::make_unique<Journal>(config.state_dir(), JournalLimits{});
  impl->refusal = opened.state.refusal;
  CoordinatorParts parts{clock, impl->store.get(), impl->journal.get(), NewJobId, std::move(log)};
  impl->coordinator =
      std::make_unique<Coordinator>(OptionsOf(config), std::move(parts), std::move(opened.state));
  Coordinator* coordinator = impl->coordinator.get();
  ASSIGN_OR_RETURN(
      impl->metrics,
      PageServer::Start(
          config.metrics_listen(),
          {{"/metrics", [coordinator] { return FleetFamilies(coordinator->View()); }},
           {"/metrics/jobs", [coordinator] { return JobFamilies(coordinator->View()); }}}));
  impl->ports.metrics = impl->metrics->port();
  const std::string host = config.metrics_listen().substr(0, config.metrics_listen().rfind(':'));
  ASSIGN_OR_RETURN(impl->server,
                   GrpcServer::Start({config.listen(), config.health_listen()}, coordinator,
                                     {kVersion, host + ":" + std::to_string(impl->ports.metrics)}));
  impl->ports.listen = impl->server->port();
  impl->ports.health = impl->server->health_port();
  impl->dispatch = std::make_unique<DispatchLoop>(coordinator);
  impl->leases = std::make_unique<LeaseLoop>(coordinator);
  impl->retention = std::make_unique<RetentionLoop>(coordinator);
  const nlohmann::json shown = {{"listen", impl->ports.listen},
                                {"health", impl->ports.health},
                                {"metrics", impl->ports.metrics},
                                {"pid", getpid()}};
  RETURN_IF_ERROR(ReplaceFile(config.state_dir() + "/ports.json", shown.dump() + "\n"));
  impl->server->SetReady(impl->refusal.empty());
  return process;
}

}  // namespace coat
