// coat-worker put together: what is bound, which threads run, and in which order they end.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/base/clock.h"
#include "configs/metrics/page_server.h"
#include "worker/supervisor/dcgm_job_map.h"
#include "worker/supervisor/gpu_watch.h"
#include "worker/supervisor/health_server.h"
#include "worker/supervisor/identity.h"
#include "worker/supervisor/metrics_page.h"
#include "worker/supervisor/rank_socket.h"
#include "worker/supervisor/stream_pushers.h"
#include "worker/supervisor/supervisor.h"
#include "worker/supervisor/sync_loop.h"
#include "worker/supervisor/ticker.h"

namespace coat {

class Daemon {
 public:
  // Opens state and roots, binds everything, adopts the ranks that are there and starts to serve.
  // `config` is resolved (worker_config.h). <state_dir>/ports.json then names the ports.
  static Result<std::unique_ptr<Daemon>> Start(const coatrack::v1::WorkerConfig& config);
  // Hands over: threads end, ranks stay.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Asks every rank to checkpoint and stop, kills those that don't within drain_grace, and
  // delivers their ends to the coordinator while it answers.
  void BeginDrain();
  // No rank is left and the coordinator knows, or it has not answered for a while.
  bool Drained();

  int health_port() const { return health_->port(); }
  int metrics_port() const { return metrics_->port(); }
  const Supervisor& supervisor() const { return *supervisor_; }
  // "coat-worker a: health 127.0.0.1:1, metrics 127.0.0.1:2, coordinator ..., state ..."
  std::string Describe() const;

 private:
  Daemon(coatrack::v1::WorkerConfig config, std::unique_ptr<StateDir> state,
         std::vector<StorageRootDir> roots, std::unique_ptr<GpuDriver> gpu_driver,
         std::vector<coatrack::v1::Device> devices);
  Status Bind();
  Status WritePorts() const;
  void Run();
  void UpdateJobMap();
  std::vector<RankSeries> Series() const;
  coatrack::v1::SyncRequest FixedReport() const;

  const coatrack::v1::WorkerConfig config_;
  const std::string incarnation_;
  const std::vector<coatrack::v1::Device> devices_;
  const std::unique_ptr<GpuDriver> gpu_driver_;  // null: no GPUs
  const SystemClock clock_;
  GpuWatch gpu_watch_;
  std::optional<DcgmJobMap> job_map_;  // nothing: not wanted
  bool job_map_failed_ = false;        // said once
  const std::vector<StorageRootDir> roots_;
  const std::unique_ptr<StateDir> state_;
  std::unique_ptr<Supervisor> supervisor_;

  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<HealthServer> health_;
  std::unique_ptr<PageServer> metrics_;
  std::unique_ptr<RankSocket> socket_;
  std::unique_ptr<SyncLoop> sync_;
  std::unique_ptr<RecordPusher> records_;
  std::unique_ptr<LogPusher> logs_;
  std::vector<std::unique_ptr<Ticker>> tickers_;
  std::thread sync_thread_;
  int64_t drained_at_ms_ = -1;  // since when no rank lives
};

}  // namespace coat
