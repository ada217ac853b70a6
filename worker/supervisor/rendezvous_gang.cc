#include "worker/supervisor/rendezvous_gang.h"

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace coat {
namespace {

constexpr int kGetWaitMs = 2000;
constexpr int kPauseMs = 100;  // after a failure, and between two questions

}  // namespace

RendezvousGang::RendezvousGang(std::string job_id, int attempt,
                               std::shared_ptr<grpc::Channel> channel, OnValue on_value)
    : job_id_(std::move(job_id)),
      attempt_(attempt),
      stub_(coatrack::v1::WorkerService::NewStub(std::move(channel))),
      on_value_(std::move(on_value)) {
  thread_ = std::thread([this] { Run(); });
}

RendezvousGang::~RendezvousGang() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
  put_slot_.Close();
  get_slot_.Close();
  thread_.join();
}

void RendezvousGang::Put(const std::string& key, const std::string& value) {
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(key);
    if (it != known_.end() && it->second == value && own_.count(key) != 0) return;  // a repetition
    known_[key] = value;
    own_.insert(key);
    unsent_.insert(key);
    wanted = wanted_.erase(key) != 0;
  }
  changed_.notify_all();
  get_slot_.Cancel();  // a waiting get must not hold the put back
  if (wanted) on_value_(key, value);
}

void RendezvousGang::Get(const std::string& key) {
  std::optional<std::string> value;
  {
    const std::lock_guard lock(mutex_);
    const auto it = known_.find(key);
    if (it != known_.end()) {
      value = it->second;
    } else if (!wanted_.insert(key).second) {
      return;
    }
  }
  if (value) return on_value_(key, *value);
  changed_.notify_all();
  get_slot_.Cancel();  // so that the next question includes it
}

void RendezvousGang::PutAgain() {
  {
    const std::lock_guard lock(mutex_);
    unsent_ = own_;
    ++generation_;
  }
  changed_.notify_all();
  get_slot_.Cancel();
}

void RendezvousGang::Run() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (unsent_.empty() && wanted_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const bool sent = SendPuts(&lock);
    if (sent && !closed_ && unsent_.empty() && !wanted_.empty()) AskGets(&lock);
    if (!closed_ && (!sent || (unsent_.empty() && !wanted_.empty()))) {
      changed_.wait_for(lock, std::chrono::milliseconds(kPauseMs));
    }
  }
}

bool RendezvousGang::SendPuts(std::unique_lock<std::mutex>* lock) {
  const std::set<std::string> keys = unsent_;
  for (const std::string& key : keys) {
    coatrack::v1::PutRendezvousRequest request;
    request.set_job_id(job_id_);
    request.set_attempt(attempt_);
    request.set_key(key);
    request.set_value(known_[key]);
    const uint64_t generation = generation_;
    lock->unlock();
    coatrack::v1::PutRendezvousResponse response;
    const grpc::Status status = put_slot_.Run(kCallDeadlineMs, [&](grpc::ClientContext* context) {
      return stub_->PutRendezvous(context, request, &response);
    });
    lock->lock();
    if (!status.ok()) return false;
    if (generation == generation_ && known_[key] == request.value()) unsent_.erase(key);
  }
  return true;
}

bool RendezvousGang::AskGets(std::unique_lock<std::mutex>* lock) {
  const uint64_t ticket = get_slot_.ticket();  // with the lock held: later changes cancel the call
  coatrack::v1::GetRendezvousRequest request;
  request.set_job_id(job_id_);
  request.set_attempt(attempt_);
  for (const std::string& key : wanted_) request.add_keys(key);
  request.set_max_wait_ms(kGetWaitMs);
  lock->unlock();
  coatrack::v1::GetRendezvousResponse response;
  const grpc::Status status =
      get_slot_.Run(ticket, kGetWaitMs + kCallDeadlineMs, [&](grpc::ClientContext* context) {
        return stub_->GetRendezvous(context, request, &response);
      });
  lock->lock();
  if (!status.ok()) return false;
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [key, value] : response.values()) {
    known_[key] = value;
    if (wanted_.erase(key) != 0) found.emplace_back(key, value);
  }
  lock->unlock();
  for (const auto& [key, value] : found) on_value_(key, value);
  lock->lock();
  return true;
}

}  // namespace coat
