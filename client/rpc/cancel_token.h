// Ends a call or a wait from another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace grpc {
class ClientContext;
}

namespace coat {

// Thread-safe. Once cancelled it stays so.
class CancelToken {
 public:
  void Cancel();
  bool cancelled() const;
  // Returns false at once when cancelled, true after `duration`.
  bool Sleep(std::chrono::milliseconds duration) const;

 private:
  friend class CancelScope;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool cancelled_ = false;
  grpc::ClientContext* call_ = nullptr;  // the call in progress
};

// While it lives, the token's Cancel cancels this call. The token may be null; it and the call
// outlive the scope.
class CancelScope {
 public:
  CancelScope(CancelToken* token, grpc::ClientContext* call);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  CancelToken* token_;
};

}  // namespace coat
