// Answers of unary calls: status codes, details, and the count of each call.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <string>
#include <utility>

#include "configs/base/status.h"
#include "configs/spec/violation.h"
#include "server/loops/coordinator.h"

namespace coat {

// SERVICE.md: INVALID_ARGUMENT, ALREADY_EXISTS, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, NOT_FOUND,
// ABORTED, UNAVAILABLE, DATA_LOSS, else INTERNAL.
grpc::Status ToGrpc(const Status& status);
// INVALID_ARGUMENT whose details are a google.rpc.Status with a coatrack.v1.FieldViolations.
grpc::Status ToGrpc(const Violations& violations);
const char* GrpcCodeName(grpc::StatusCode code);

// One unary call. The reactor lives until Finish, whatever the client does meanwhile.
class UnaryCall {
 public:
  UnaryCall(Coordinator* coordinator, const char* method, grpc::CallbackServerContext* context)
      : coordinator_(coordinator),
        method_(method),
        reactor_(context->DefaultReactor()),
        started_(std::chrono::steady_clock::now()) {}

  grpc::ServerUnaryReactor* reactor() const { return reactor_; }
  void Finish(const grpc::Status& status) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started_;
    coordinator_->CountRpc(method_, GrpcCodeName(status.error_code()), seconds.count());
    reactor_->Finish(status);
  }
  // Finishes with the response, or with why there is none.
  template <typename Response>
  Done<Response> Into(Response* response) const {
    return [call = *this, response](Result<Response> result) {
      if (result.ok()) *response = std::move(*result);
      call.Finish(ToGrpc(result.status()));
    };
  }

 private:
  Coordinator* coordinator_;
  const char* method_;
  grpc::ServerUnaryReactor* reactor_;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace coat
