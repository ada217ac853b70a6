#include "worker/supervisor/coordinator_channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "configs/base/keepalive.h"

namespace coat {

std::shared_ptr<grpc::Channel> MakeCoordinatorChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

bool IsRefusal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ABORTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::INVALID_ARGUMENT: return true;
    default: return false;
  }
}

uint64_t CallSlot::ticket() const {
  const std::lock_guard lock(mutex_);
  return ticket_;
}

void CallSlot::Cancel() {
  const std::lock_guard lock(mutex_);
  ++ticket_;
  if (context_ != nullptr) context_->TryCancel();
}

void CallSlot::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  if (context_ != nullptr) context_->TryCancel();
}

bool CallSlot::Enter(uint64_t ticket, grpc::ClientContext* context) {
  const std::lock_guard lock(mutex_);
  if (closed_ || ticket != ticket_) return false;
  context_ = context;
  return true;
}

void CallSlot::Leave() {
  const std::lock_guard lock(mutex_);
  context_ = nullptr;
}

}  // namespace coat
