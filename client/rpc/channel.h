// The channel to the coordinator, and how its answers become Status.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "configs/base/status.h"
#include "configs/spec/violation.h"

namespace coat {

// Plaintext, with the keepalive and message limits of configs/base/keepalive.h. Connects at the
// first call.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address);

// FieldViolations of a status whose details are a google.rpc.Status; empty when there are none.
Violations DecodeViolations(const grpc::Status& status);

// The code of ours, and a message that says what, where and what to do. `address` is shown.
Status FromGrpc(const grpc::Status& status, const std::string& address);

}  // namespace coat
