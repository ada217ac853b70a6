#include "client/rpc/cancel_token.h"

#include <grpcpp/client_context.h>

namespace coat {

void CancelToken::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (call_ != nullptr) call_->TryCancel();
  changed_.notify_all();
}

bool CancelToken::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool CancelToken::Sleep(std::chrono::milliseconds duration) const {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, duration, [&] { return cancelled_; });
}

CancelScope::CancelScope(CancelToken* token, grpc::ClientContext* call) : token_(token) {
  if (token_ == nullptr) return;
  std::lock_guard lock(token_->mutex_);
  token_->call_ = call;
  if (token_->cancelled_) call->TryCancel();
}

CancelScope::~CancelScope() {
  if (token_ == nullptr) return;
  std::lock_guard lock(token_->mutex_);
  token_->call_ = nullptr;
}

}  // namespace coat
