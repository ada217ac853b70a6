// A server stream that no thread waits for: it sends, sleeps until its topic changes, or ends.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "server/api/answer.h"
#include "server/loops/coordinator.h"

namespace coat {

// Subclasses implement Next, which leads to exactly one of Send, Sleep and End, at once or later
// from a callback that holds self(). Owns itself until gRPC is done with it.
template <typename Response>
class StreamCall : public grpc::ServerWriteReactor<Response>,
                   public std::enable_shared_from_this<StreamCall<Response>> {
 public:
  StreamCall(Coordinator* coordinator, const char* method)
      : coordinator_(coordinator), method_(method), started_(std::chrono::steady_clock::now()) {}

  // The reactor for gRPC; starts the stream.
  grpc::ServerWriteReactor<Response>* Start() {
    self_ = this->shared_from_this();
    Next();
    return this;
  }
  // Ends the stream before it began.
  grpc::ServerWriteReactor<Response>* Refuse(const Status& status) {
    self_ = this->shared_from_this();
    End(status);
    return this;
  }

 protected:
  virtual void Next() = 0;
  virtual void Ended() {}  // once, before the object goes

  std::shared_ptr<StreamCall> self() { return this->shared_from_this(); }
  Coordinator* coordinator() { return coordinator_; }

  void Send(Response response) {
    response_ = std::move(response);
    this->StartWrite(&response_);
  }
  // Next is called when the topic's version is no longer `seen`, after `max_ms` at the latest.
  void Sleep(const std::string& topic, uint64_t seen, int64_t max_ms = kMaxSleepMs) {
    sleeping_ = true;
    if (cancelled_ && sleeping_.exchange(false)) return End({Code::kAborted, "cancelled"});
    coordinator_->Wait(topic, seen, max_ms, [self = self()] {
      if (self->sleeping_.exchange(false)) self->Wake();
    });
  }
  void End(const Status& status) { Finish(ToGrpc(status)); }

 private:
  static constexpr int64_t kMaxSleepMs = 30'000;

  void Wake() {
    coordinator_->Stopped() ? End({Code::kUnavailable, "the coordinator stops"}) : Next();
  }
  void Finish(const grpc::Status& status) {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
    coordinator_->CountRpc(method_, GrpcCodeName(status.error_code()), seconds.count());
    grpc::ServerWriteReactor<Response>::Finish(status);
  }
  void OnWriteDone(bool ok) override { ok ? Next() : Finish(grpc::Status::CANCELLED); }
  void OnCancel() override {
    cancelled_ = true;
    if (sleeping_.exchange(false)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    Ended();
    self_.reset();
  }

  Coordinator* coordinator_;
  const char* method_;
  std::chrono::steady_clock::time_point started_;
  Response response_;
  std::shared_ptr<StreamCall> self_;
  std::atomic<bool> sleeping_{false};
  std::atomic<bool> cancelled_{false};
};

}  // namespace coat
