// The worker's end of the wire: channel settings, and calls that another thread can cancel.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace coat {

inline constexpr int kCallDeadlineMs = 10'000;  // beyond the wait a call asks for

// Plaintext channel with the keepalive and size limits of configs/base/keepalive.h. Calls fail
// at once while it is not connected; it tries again within a second.
std::shared_ptr<grpc::Channel> MakeCoordinatorChannel(const std::string& address);

// True when repeating the call cannot help: the coordinator knows the job no longer, or refuses
// the report.
bool IsRefusal(const grpc::Status& status);

// One call at a time of one thread; the other methods from any thread.
class CallSlot {
 public:
  // A call that starts with a ticket from before a Cancel() is cancelled too.
  uint64_t ticket() const;
  void Cancel();
  // From now on every call is cancelled.
  void Close();

  // `call(context)` makes the blocking call and returns its status.
  template <typename Call>
  grpc::Status Run(uint64_t ticket, int deadline_ms, const Call& call) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms));
    if (!Enter(ticket, &context))
      return {grpc::StatusCode::CANCELLED, "cancelled before its start"};
    const grpc::Status status = call(&context);
    Leave();
    return status;
  }
  template <typename Call>
  grpc::Status Run(int deadline_ms, const Call& call) {
    return Run(ticket(), deadline_ms, call);
  }

 private:
  bool Enter(uint64_t ticket, grpc::ClientContext* context);
  void Leave();

  mutable std::mutex mutex_;
  grpc::ClientContext* context_ = nullptr;
  uint64_t ticket_ = 0;
  bool closed_ = false;
};

}  // namespace coat
