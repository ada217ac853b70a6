// Reads a server's stream to its end, opening it again where it broke.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "client/rpc/cancel_token.h"
#include "client/rpc/channel.h"
#include "client/rpc/job_client.h"
#include "client/rpc/retry.h"

namespace coat {

// What is to be done after one stream ended.
enum class StreamEnd : uint8_t { kDone, kOpenAgain, kBroken };

// `renewed`: it was this program's deadline for a single stream that ended it.
StreamEnd JudgeStreamEnd(grpc::StatusCode code, bool renewed);

// `open(context)` starts the stream from wherever `on_message` has brought the request.
template <typename Response, typename Open, typename OnMessage>
Status FollowStream(const FollowOptions& options, const RetryPolicy& retry,
                    const std::string& address, const Open& open, const OnMessage& on_message) {
  using Steady = std::chrono::steady_clock;
  const CancelToken never;
  const CancelToken& token = options.cancel == nullptr ? never : *options.cancel;
  Steady::time_point heard = Steady::now();
  for (int failures = 0;;) {
    const Steady::time_point opened = Steady::now();
    Steady::time_point deadline = opened + retry.stream_deadline;
    const bool last = options.until.has_value() && *options.until <= deadline;
    if (last) deadline = *options.until;
    grpc::Status status;
    {
      grpc::ClientContext context;
      context.set_deadline(std::chrono::system_clock::now() + (deadline - opened));
      const CancelScope scope(options.cancel, &context);
      const std::unique_ptr<grpc::ClientReader<Response>> reader = open(&context);
      for (Response response; reader->Read(&response);) {
        failures = 0;
        on_message(response);
        heard = Steady::now();
      }
      status = reader->Finish();
    }
    if (status.ok()) return Status();
    if (token.cancelled()) return Status(Code::kStopped, "stopped following");
    if (last && Steady::now() >= *options.until) {
      return Status(Code::kDeadlineExceeded, "the time of --timeout passed");
    }
    const StreamEnd end = JudgeStreamEnd(status.error_code(), Steady::now() >= deadline);
    const Status fault = FromGrpc(status, address);
    if (end == StreamEnd::kDone) return fault;
    if (end == StreamEnd::kOpenAgain) continue;
    if (Steady::now() - heard >= retry.stream_patience) return fault;
    if (++failures == 1 && options.on_lost) options.on_lost(fault);
    if (!token.Sleep(retry.Backoff(failures))) {
      return Status(Code::kStopped, "stopped following");
    }
  }
}

}  // namespace coat
