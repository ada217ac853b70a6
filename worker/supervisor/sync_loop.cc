#include "worker/supervisor/sync_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>

#include "configs/base/keepalive.h"

namespace coat {
namespace {

constexpr int kFirstSpreadMs = 500;
constexpr int kLeastIntervalMs = 20;  // between two calls, however fast the answers come

}  // namespace

int ReconnectDelayMs(int failures, double uniform) {
  if (failures <= 1) return 0;
  int bound = kFirstSpreadMs;
  for (int i = 2; i < failures && bound < kReconnectSpreadMs; ++i) bound *= 2;
  return static_cast<int>(std::min(bound, kReconnectSpreadMs) * uniform);
}

SyncLoop::SyncLoop(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel,
                   coatrack::v1::SyncRequest fixed)
    : supervisor_(supervisor),
      stub_(coatrack::v1::WorkerService::NewStub(std::move(channel))),
      fixed_(std::move(fixed)),
      random_(std::random_device{}()) {}

void SyncLoop::Run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return;
    }
    coatrack::v1::SyncResponse response;
    const grpc::Status status = Once(&response);
    if (status.error_code() == grpc::StatusCode::CANCELLED) continue;  // Wake() or Close()
    if (!status.ok()) {
      Failed(status);
      continue;
    }
    if (!supervisor_->Apply(response)) {
      Failed({grpc::StatusCode::ABORTED, "a coordinator of a lower epoch answered"});
      continue;
    }
    if (failures_ > 0 || !connected_) spdlog::info("in touch with the coordinator");
    failures_ = 0;
    connected_ = true;
    Wait(kLeastIntervalMs);
  }
}

grpc::Status SyncLoop::Once(coatrack::v1::SyncResponse* response) {
  const uint64_t ticket =
      slot_.ticket();  // taken first: what changes after it is not in the report
  coatrack::v1::SyncRequest request = fixed_;
  supervisor_->FillReport(&request);
  const auto holders = supervisor_->DeviceHolders();
  for (auto& device : *request.mutable_devices()) {
    const auto holder = holders.find(device.id());
    if (holder != holders.end()) device.set_job_id(holder->second);
  }
  request.set_max_wait_ms(kSyncMaxWaitMs);
  return slot_.Run(ticket, kSyncMaxWaitMs + kCallDeadlineMs, [&](grpc::ClientContext* context) {
    return stub_->Sync(context, request, response);
  });
}

void SyncLoop::Failed(const grpc::Status& status) {
  if (failures_ == 0 || connected_) {
    spdlog::warn("no answer from the coordinator ({}); ranks go on, trying again",
                 status.error_message());
  }
  connected_ = false;
  ++failures_;
  const double uniform = std::uniform_real_distribution<double>(0, 1)(random_);
  Wait(ReconnectDelayMs(failures_, uniform));
}

void SyncLoop::Wait(int ms) {
  std::unique_lock lock(mutex_);
  closed_changed_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return closed_; });
}

void SyncLoop::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  closed_changed_.notify_all();
  slot_.Close();
}

void SyncLoop::Wake() { slot_.Cancel(); }

}  // namespace coat
