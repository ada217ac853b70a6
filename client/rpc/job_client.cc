#include "client/rpc/job_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <utility>

#include "client/rpc/channel.h"
#include "client/rpc/follow_stream.h"

namespace coat {

using namespace coatrack::v1;  // NOLINT: the service's own names
using Stub = JobService::Stub;

JobClient::JobClient(JobClientOptions options)
    : options_(std::move(options)), stub_(JobService::NewStub(OpenChannel(options_.address))) {}

template <typename Request, typename Response>
Result<Response> JobClient::Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                              Response*),
                                 const Request& request) {
  const auto deadline = std::chrono::system_clock::now() + options_.call_timeout;
  const CancelToken pause;  // only sleeps
  for (int attempt = 1;; ++attempt) {
    grpc::ClientContext context;
    context.set_deadline(deadline);
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (status.ok()) return response;
    const bool again = status.error_code() == grpc::StatusCode::UNAVAILABLE &&
                       attempt < options_.retry.call_attempts;
    const auto backoff = options_.retry.Backoff(attempt);
    if (!again || std::chrono::system_clock::now() + backoff >= deadline) {
      return FromGrpc(status, options_.address);
    }
    pause.Sleep(backoff);
  }
}

Result<SubmitResponse> JobClient::Submit(const SubmitRequest& request) {
  return Call(&Stub::Submit, request);
}
Result<GetResponse> JobClient::Get(const GetRequest& request) { return Call(&Stub::Get, request); }
Result<ListResponse> JobClient::List(const ListRequest& request) {
  return Call(&Stub::List, request);
}
Result<ListEventsResponse> JobClient::ListEvents(const ListEventsRequest& request) {
  return Call(&Stub::ListEvents, request);
}
Result<CancelResponse> JobClient::Cancel(const CancelRequest& request) {
  return Call(&Stub::Cancel, request);
}
Result<KillResponse> JobClient::Kill(const KillRequest& request) {
  return Call(&Stub::Kill, request);
}
Result<PlanResponse> JobClient::Plan(const PlanRequest& request) {
  return Call(&Stub::Plan, request);
}
Result<ListWorkersResponse> JobClient::ListWorkers(const ListWorkersRequest& request) {
  return Call(&Stub::ListWorkers, request);
}
Result<ListCheckpointsResponse> JobClient::ListCheckpoints(const ListCheckpointsRequest& request) {
  return Call(&Stub::ListCheckpoints, request);
}
Result<GetServerInfoResponse> JobClient::GetServerInfo(const GetServerInfoRequest& request) {
  return Call(&Stub::GetServerInfo, request);
}

Status JobClient::Watch(WatchRequest request, const FollowOptions& options,
                        const std::function<void(const WatchResponse&)>& on_message) {
  return FollowStream<WatchResponse>(
      options, options_.retry, options_.address,
      [&](grpc::ClientContext* context) { return stub_->Watch(context, request); },
      [&](const WatchResponse& response) {
        for (const JobEvent& event : response.events()) {
          request.set_after_sequence(std::max(request.after_sequence(), event.sequence()));
        }
        on_message(response);
      });
}

Status JobClient::StreamLogs(StreamLogsRequest request, const FollowOptions& options,
                             const std::function<void(const StreamLogsResponse&)>& on_message) {
  return FollowStream<StreamLogsResponse>(
      options, options_.retry, options_.address,
      [&](grpc::ClientContext* context) { return stub_->StreamLogs(context, request); },
      [&](const StreamLogsResponse& response) {
        // From here on the place is known; where the stream began no longer matters.
        *request.mutable_from() = response.position();
        request.clear_tail_lines();
        request.clear_since();
        on_message(response);
      });
}

Status JobClient::StreamMetrics(
    StreamMetricsRequest request, const FollowOptions& options,
    const std::function<void(const StreamMetricsResponse&)>& on_message) {
  return FollowStream<StreamMetricsResponse>(
      options, options_.retry, options_.address,
      [&](grpc::ClientContext* context) { return stub_->StreamMetrics(context, request); },
      [&](const StreamMetricsResponse& response) {
        // A new attempt begins at an earlier step; its records are wanted too.
        if (response.records_size() > 0) {
          request.set_after_step(response.records(response.records_size() - 1).step());
        }
        on_message(response);
      });
}

}  // namespace coat
