// JobService as functions: deadlines, retries and errors in one place.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/rpc/cancel_token.h"
#include "client/rpc/retry.h"
#include "coatrack/v1/job_service.grpc.pb.h"
#include "configs/base/status.h"

namespace coat {

struct JobClientOptions {
  std::string address;
  std::chrono::milliseconds call_timeout{30'000};  // of one call, its retries included
  RetryPolicy retry;
};

// How a stream is followed.
struct FollowOptions {
  CancelToken* cancel = nullptr;  // may be null
  std::optional<std::chrono::steady_clock::time_point> until;
  std::function<void(const Status&)> on_lost;  // the connection broke; it is opened again
};

// Thread-safe. Every call has a deadline. All calls here are idempotent (Submit by its request id)
// and are made again when the coordinator is UNAVAILABLE, and only then. Errors: FromGrpc.
class JobClient {
 public:
  explicit JobClient(JobClientOptions options);

  Result<coatrack::v1::SubmitResponse> Submit(const coatrack::v1::SubmitRequest& request);
  Result<coatrack::v1::GetResponse> Get(const coatrack::v1::GetRequest& request);
  Result<coatrack::v1::ListResponse> List(const coatrack::v1::ListRequest& request);
  Result<coatrack::v1::ListEventsResponse> ListEvents(
      const coatrack::v1::ListEventsRequest& request);
  Result<coatrack::v1::CancelResponse> Cancel(const coatrack::v1::CancelRequest& request);
  Result<coatrack::v1::KillResponse> Kill(const coatrack::v1::KillRequest& request);
  Result<coatrack::v1::PlanResponse> Plan(const coatrack::v1::PlanRequest& request);
  Result<coatrack::v1::ListWorkersResponse> ListWorkers(
      const coatrack::v1::ListWorkersRequest& request);
  Result<coatrack::v1::ListCheckpointsResponse> ListCheckpoints(
      const coatrack::v1::ListCheckpointsRequest& request);
  Result<coatrack::v1::GetServerInfoResponse> GetServerInfo(
      const coatrack::v1::GetServerInfoRequest& request);

  // Streams: `on_message` runs on the caller's thread; they end when the server ends them. A
  // stream that breaks is opened again where it stopped, without a message seen twice: events by
  // sequence, logs by (attempt, offset), records by step. Errors: kStopped when cancelled,
  // kDeadlineExceeded when `until` passed, FromGrpc otherwise.
  Status Watch(coatrack::v1::WatchRequest request, const FollowOptions& options,
               const std::function<void(const coatrack::v1::WatchResponse&)>& on_message);
  Status StreamLogs(coatrack::v1::StreamLogsRequest request, const FollowOptions& options,
                    const std::function<void(const coatrack::v1::StreamLogsResponse&)>& on_message);
  Status StreamMetrics(
      coatrack::v1::StreamMetricsRequest request, const FollowOptions& options,
      const std::function<void(const coatrack::v1::StreamMetricsResponse&)>& on_message);

  const std::string& address() const { return options_.address; }

 private:
  template <typename Request, typename Response>
  Result<Response> Call(grpc::Status (coatrack::v1::JobService::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                        const Request& request);

  const JobClientOptions options_;
  std::unique_ptr<coatrack::v1::JobService::Stub> stub_;
};

}  // namespace coat
