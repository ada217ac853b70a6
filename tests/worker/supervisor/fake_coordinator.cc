#include "tests/worker/supervisor/fake_coordinator.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <condition_variable>
#include <stdexcept>

#include "tests/support/process.h"

namespace coat::testing {
namespace {

using grpc::ServerContext;
using grpc::Status;

bool Ended(const coatrack::v1::RankReport& report) {
  return report.state() != coatrack::v1::RANK_STATE_RUNNING;
}

}  // namespace

class FakeCoordinator::Service final : public coatrack::v1::WorkerService::Service {
 public:
  Status Sync(ServerContext* context, const coatrack::v1::SyncRequest* request,
              coatrack::v1::SyncResponse* response) override {
    std::unique_lock lock(mutex);
    ++seen.syncs;
    seen.last = *request;
    bool acknowledge = false;
    for (const auto& rank : request->ranks()) {
      seen.ranks[ToRankId(rank.key())] = rank;
      acknowledge = acknowledge || (acknowledges && Ended(rank) && rank.logs_delivered());
    }
    changed.notify_all();
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(request->max_wait_ms());
    while (!closing && !acknowledge && request->applied_revision() == desired.revision() &&
           !context->IsCancelled() && std::chrono::steady_clock::now() < deadline) {
      changed.wait_for(lock, std::chrono::milliseconds(10));
    }
    if (closing) return {grpc::StatusCode::UNAVAILABLE, "closing"};
    *response = desired;
    if (!acknowledges) return Status::OK;
    for (const auto& rank : request->ranks()) {
      if (Ended(rank) && rank.logs_delivered()) *response->add_acknowledged() = rank.key();
    }
    return Status::OK;
  }

  Status PushRecords(ServerContext*, const coatrack::v1::PushRecordsRequest* request,
                     coatrack::v1::PushRecordsResponse* response) override {
    const std::lock_guard lock(mutex);
    auto& records = seen.records[ToRankId(request->key())];
    records.insert(records.end(), request->records().begin(), request->records().end());
    ++seen.record_pushes[ToRankId(request->key())];
    response->set_acknowledged_offset(request->next_offset());
    changed.notify_all();
    return Status::OK;
  }

  Status PushLogs(ServerContext*, const coatrack::v1::PushLogsRequest* request,
                  coatrack::v1::PushLogsResponse* response) override {
    const std::lock_guard lock(mutex);
    RankLog& log = seen.logs[ToRankId(request->key())];
    const auto size = static_cast<int64_t>(request->data().size());
    log.largest_push = std::max(log.largest_push, size);
    log.truncated = log.truncated || request->truncated();
    if (request->offset() > log.end) log.data.clear();
    if (request->offset() >= log.end) log.data += request->data();
    log.end = std::max(log.end, request->offset() + size);
    log.final = log.final || request->final();
    response->set_next_offset(request->offset() + size);
    changed.notify_all();
    return Status::OK;
  }

  Status PutRendezvous(ServerContext*, const coatrack::v1::PutRendezvousRequest* request,
                       coatrack::v1::PutRendezvousResponse*) override {
    const std::lock_guard lock(mutex);
    ++seen.puts;
    seen.rendezvous[Name(request->job_id(), request->attempt(), request->key())] = request->value();
    changed.notify_all();
    return Status::OK;
  }

  Status GetRendezvous(ServerContext* context, const coatrack::v1::GetRendezvousRequest* request,
                       coatrack::v1::GetRendezvousResponse* response) override {
    std::unique_lock lock(mutex);
    const auto deadline =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(request->max_wait_ms());
    while (!closing && response->values().empty() && !context->IsCancelled()) {
      for (const std::string& key : request->keys()) {
        const auto it = seen.rendezvous.find(Name(request->job_id(), request->attempt(), key));
        if (it != seen.rendezvous.end()) (*response->mutable_values())[key] = it->second;
      }
      if (std::chrono::steady_clock::now() >= deadline) break;
      if (response->values().empty()) changed.wait_for(lock, std::chrono::milliseconds(10));
    }
    return Status::OK;
  }

  static std::string Name(const std::string& job, int attempt, const std::string& key) {
    return job + "/" + std::to_string(attempt) + "/" + key;
  }

  void Change(const std::function<void(coatrack::v1::SyncResponse*)>& change) {
    const std::lock_guard lock(mutex);
    change(&desired);
    desired.set_revision(desired.revision() + 1);
    changed.notify_all();
  }

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  bool closing = false;
  bool acknowledges = true;
  coatrack::v1::SyncResponse desired;
  Seen seen;
};

FakeCoordinator::FakeCoordinator() : service_(std::make_unique<Service>()) {
  service_->desired.set_epoch(1);
  service_->desired.set_revision(1);
  Start();
}

FakeCoordinator::~FakeCoordinator() {
  if (server_) Stop();
}

std::string FakeCoordinator::address() const { return "127.0.0.1:" + std::to_string(port_); }

void FakeCoordinator::Start() {
  {
    const std::lock_guard lock(service_->mutex);
    service_->closing = false;
  }
  // The port of a server that has just gone may take a moment.
  const bool bound = WaitUntil([this] {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_),
                             grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    if (!server_ || port == 0) return false;
    port_ = port;
    return true;
  });
  if (!bound) throw std::runtime_error("the fake coordinator cannot bind its port");
}

void FakeCoordinator::Stop() {
  {
    const std::lock_guard lock(service_->mutex);
    service_->closing = true;
    service_->changed.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  server_.reset();
}

int64_t FakeCoordinator::epoch() const {
  const std::lock_guard lock(service_->mutex);
  return service_->desired.epoch();
}

void FakeCoordinator::SetEpoch(int64_t epoch) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) { desired->set_epoch(epoch); });
}

void FakeCoordinator::Forget() {
  const std::lock_guard lock(service_->mutex);
  service_->seen.rendezvous.clear();
}

void FakeCoordinator::Want(const coatrack::v1::DesiredRank& rank) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) { *desired->add_ranks() = rank; });
}

void FakeCoordinator::Unwant(const RankId& id) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) {
    auto* ranks = desired->mutable_ranks();
    for (int i = ranks->size() - 1; i >= 0; --i) {
      if (ToRankId(ranks->Get(i).key()) == id) ranks->DeleteSubrange(i, 1);
    }
  });
}

void FakeCoordinator::StopRank(const RankId& id, coatrack::v1::StopMode mode, int grace_seconds) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) {
    for (auto& rank : *desired->mutable_ranks()) {
      if (ToRankId(rank.key()) != id) continue;
      rank.set_stop(mode);
      rank.set_grace_seconds(grace_seconds);
    }
  });
}

void FakeCoordinator::Follow(const RankId& id, int64_t offset) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) {
    auto* demand = desired->add_logs();
    SetRankKey(id, demand->mutable_key());
    demand->set_offset(offset);
  });
}

void FakeCoordinator::Unfollow(const RankId& id) {
  service_->Change([&](coatrack::v1::SyncResponse* desired) {
    auto* logs = desired->mutable_logs();
    for (int i = logs->size() - 1; i >= 0; --i) {
      if (ToRankId(logs->Get(i).key()) == id) logs->DeleteSubrange(i, 1);
    }
  });
}

void FakeCoordinator::SetAcknowledge(bool acknowledge) {
  service_->Change([&](coatrack::v1::SyncResponse*) { service_->acknowledges = acknowledge; });
}

FakeCoordinator::Seen FakeCoordinator::seen() const {
  const std::lock_guard lock(service_->mutex);
  return service_->seen;
}

bool FakeCoordinator::WaitFor(const std::function<bool(const Seen&)>& condition) const {
  std::unique_lock lock(service_->mutex);
  return service_->changed.wait_for(lock, std::chrono::seconds(20),
                                    [&] { return condition(service_->seen); });
}

bool FakeCoordinator::WaitForState(const RankId& id, coatrack::v1::RankState state) const {
  return WaitFor([&](const Seen& seen) {
    const auto it = seen.ranks.find(id);
    return it != seen.ranks.end() && it->second.state() == state;
  });
}

bool FakeCoordinator::WaitApplied() const {
  return WaitFor([this](const Seen& seen) {
    return seen.last.applied_revision() == service_->desired.revision();
  });
}

}  // namespace coat::testing
