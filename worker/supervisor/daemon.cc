#include "worker/supervisor/daemon.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <utility>

#include "configs/spec/defaults.h"
#include "worker/supervisor/device_offer.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

constexpr int kPollMs = 100;
constexpr int kHousekeepingMs = 1000;
constexpr int64_t kDeliverMs = 10'000;  // to report the last ends after a drain
constexpr char kSocketFile[] = "/daemon.sock";

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Null when there is no GPU, which is said once.
std::unique_ptr<GpuDriver> FindGpuDriver() {
  auto driver = LoadNvml();
  Status status = driver.status();
  if (driver.ok()) {
    const Result<std::vector<Gpu>> gpus = driver.value()->List();
    if (gpus.ok() && !gpus->empty()) return std::move(driver).value();
    status = gpus.ok() ? Status(Code::kNotFound, "the driver lists none") : gpus.status();
  }
  spdlog::info("no GPU to offer ({}); offering CPUs alone", status.message());
  return nullptr;
}

Result<std::vector<coatrack::v1::Device>> OfferDevices(const coatrack::v1::WorkerConfig& config,
                                                       GpuDriver* driver) {
  ASSIGN_OR_RETURN(const HostLimits limits, ReadHostLimits(""));
  ASSIGN_OR_RETURN(std::vector<coatrack::v1::Device> devices,
                   OfferCpuSlots(limits, config.cpu_slots(), config.reserve_bytes()));
  if (driver == nullptr) return devices;
  ASSIGN_OR_RETURN(const std::vector<coatrack::v1::Device> gpus,
                   OfferGpus(limits, driver, config.reserve_bytes()));
  devices.insert(devices.end(), gpus.begin(), gpus.end());
  return devices;
}

std::vector<std::string> GpuIds(const std::vector<coatrack::v1::Device>& devices) {
  std::vector<std::string> ids;
  for (const auto& device : devices) {
    if (device.kind() == coatrack::v1::DEVICE_KIND_GPU) ids.push_back(device.id());
  }
  return ids;
}

}  // namespace

Daemon::Daemon(coatrack::v1::WorkerConfig config, std::unique_ptr<StateDir> state,
               std::vector<StorageRootDir> roots, std::unique_ptr<GpuDriver> gpu_driver,
               std::vector<coatrack::v1::Device> devices)
    : config_(std::move(config)),
      incarnation_(NewUuid()),
      devices_(std::move(devices)),
      gpu_driver_(std::move(gpu_driver)),
      gpu_watch_(gpu_driver_.get(), GpuIds(devices_), config_.state_dir(), &clock_),
      roots_(std::move(roots)),
      state_(std::move(state)) {
  LaunchContext context;
  context.state_dir = config_.state_dir();
  context.trainer_path = config_.trainer_path();
  context.data_root = config_.data_root();
  context.advertise_address = config_.advertise_address();
  context.incarnation = incarnation_;
  context.socket_path = config_.state_dir() + kSocketFile;
  context.roots = roots_;
  supervisor_ = std::make_unique<Supervisor>(std::move(context), state_.get(), &clock_);
  channel_ = MakeCoordinatorChannel(config_.server());
}

Result<std::unique_ptr<Daemon>> Daemon::Start(const coatrack::v1::WorkerConfig& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<StateDir> state, StateDir::Open(config.state_dir()));
  ASSIGN_OR_RETURN(std::vector<StorageRootDir> roots, OpenStorageRoots(config));
  std::unique_ptr<GpuDriver> driver = FindGpuDriver();
  ASSIGN_OR_RETURN(std::vector<coatrack::v1::Device> devices, OfferDevices(config, driver.get()));
  std::unique_ptr<Daemon> daemon(new Daemon(config, std::move(state), std::move(roots),
                                            std::move(driver), std::move(devices)));
  if (!config.dcgm_job_dir().empty()) {
    ASSIGN_OR_RETURN(daemon->job_map_,
                     DcgmJobMap::Open(config.dcgm_job_dir(), GpuIds(daemon->devices_)));
  }
  RETURN_IF_ERROR(daemon->Bind());
  RETURN_IF_ERROR(daemon->WritePorts());
  daemon->Run();
  return daemon;
}

Status Daemon::Bind() {
  ASSIGN_OR_RETURN(health_, HealthServer::Start(config_.health_listen()));
  ASSIGN_OR_RETURN(
      metrics_, PageServer::Start(config_.metrics_listen(),
                                  {{"/metrics", [this] { return RenderRankSeries(Series()); }}}));
  supervisor_->Adopt();  // before the socket: a rank's hello is refused while it is unknown
  ASSIGN_OR_RETURN(
      socket_, RankSocket::Listen(config_.state_dir() + kSocketFile, supervisor_.get(), channel_));
  return {};
}

Status Daemon::WritePorts() const {
  return ReplaceFile(config_.state_dir() + "/ports.json",
                     "{\"pid\": " + std::to_string(getpid()) +
                         ", \"health\": " + std::to_string(health_->port()) +
                         ", \"metrics\": " + std::to_string(metrics_->port()) + "}\n");
}

void Daemon::Run() {
  const Sender sender{config_.name(), incarnation_};
  records_ = std::make_unique<RecordPusher>(supervisor_.get(), channel_, sender);
  logs_ = std::make_unique<LogPusher>(supervisor_.get(), channel_, sender);
  sync_ = std::make_unique<SyncLoop>(supervisor_.get(), channel_, FixedReport());
  supervisor_->set_send_stop([this](const RankId& id, coatrack::v1::StopMode mode) {
    return socket_->SendStop(id, mode);
  });
  supervisor_->set_device_remnants([this] {
    gpu_watch_.Poll();
    return gpu_watch_.Holders();
  });
  supervisor_->set_on_urgent([this] { sync_->Wake(); });
  supervisor_->set_on_new_epoch([this] { socket_->PutAgain(); });
  const auto tick = [this](int interval_ms, std::function<void()> work) {
    tickers_.push_back(std::make_unique<Ticker>(interval_ms, std::move(work)));
  };
  tick(kPollMs, [this] { supervisor_->Poll(); });
  tick(kPushIntervalMs, [this] { records_->Push(); });
  tick(kPushIntervalMs, [this] { logs_->Push(); });
  tick(kHousekeepingMs, [this] {
    socket_->DropGoneGangs();
    if (gpu_watch_.Poll()) sync_->Wake();  // a GPU has become free
    UpdateJobMap();
    health_->SetReady(sync_->connected() && !supervisor_->draining());
  });
  sync_thread_ = std::thread([this] { sync_->Run(); });
}

void Daemon::UpdateJobMap() {
  if (!job_map_) return;
  const Status status = job_map_->Update(supervisor_->DeviceHolders());
  if (!status.ok() && !job_map_failed_) spdlog::warn("dcgm_job_dir: {}", status.message());
  job_map_failed_ = !status.ok();
}

Daemon::~Daemon() {
  if (sync_) {
    sync_->Close();
    records_->Close();
    logs_->Close();
  }
  tickers_.clear();
  if (sync_thread_.joinable()) sync_thread_.join();
  if (sync_) UpdateJobMap();  // what is held now stays so until the next daemon comes
  socket_.reset();
  metrics_.reset();
}

void Daemon::BeginDrain() {
  supervisor_->Drain("the worker " + config_.name() + " drains", DurationMs(config_.drain_grace()));
}

bool Daemon::Drained() {
  if (supervisor_->alive() > 0) return false;
  if (supervisor_->unacknowledged() == 0) return true;
  const int64_t now_ms = clock_.SteadyMs();
  if (drained_at_ms_ < 0) drained_at_ms_ = now_ms;
  return now_ms - drained_at_ms_ > kDeliverMs;
}

std::vector<RankSeries> Daemon::Series() const {
  std::vector<RankSeries> series = supervisor_->Series();
  for (RankSeries& rank : series) {
    for (const auto& device : devices_) {
      if (device.id() == rank.device) rank.device_bytes = device.total_bytes();
    }
  }
  return series;
}

coatrack::v1::SyncRequest Daemon::FixedReport() const {
  coatrack::v1::SyncRequest report;
  report.set_worker(config_.name());
  report.set_incarnation(incarnation_);
  report.set_address(config_.advertise_address());
  const std::string host = HostOf(config_.metrics_listen());
  const bool any = host == "0.0.0.0" || host == "[::]";
  report.set_metrics_address((any ? config_.advertise_address() : host) + ":" +
                             std::to_string(metrics_->port()));
  report.set_version(COAT_VERSION);
  for (const auto& device : devices_) *report.add_devices() = device;
  for (const auto& root : roots_) {
    auto* reported = report.add_roots();
    reported->set_name(root.name);
    reported->set_uuid(root.uuid);
  }
  *report.mutable_labels() = config_.labels();
  return report;
}

std::string Daemon::Describe() const {
  return "coat-worker " + config_.name() + ": health " + HostOf(config_.health_listen()) + ":" +
         std::to_string(health_->port()) + ", metrics " + HostOf(config_.metrics_listen()) + ":" +
         std::to_string(metrics_->port()) + ", coordinator " + config_.server() + ", state " +
         config_.state_dir();
}

}  // namespace coat
