// A JobService whose answers the test chooses.
#pragma once

#include <grpcpp/server.h>

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "coatrack/v1/job_service.grpc.pb.h"

namespace coat::testing {

// An RPC without a handler is UNIMPLEMENTED. Handlers run on gRPC's threads, one at a time for
// unary calls; set them before the first call.
class FakeService final : public coatrack::v1::JobService::Service {
 public:
  template <typename Request, typename Response>
  using Unary = std::function<grpc::Status(const Request&, Response*)>;
  template <typename Request, typename Response>
  using Stream = std::function<grpc::Status(grpc::ServerContext*, const Request&,
                                            grpc::ServerWriter<Response>*)>;

  Unary<coatrack::v1::SubmitRequest, coatrack::v1::SubmitResponse> submit;
  Unary<coatrack::v1::GetRequest, coatrack::v1::GetResponse> get;
  Unary<coatrack::v1::ListRequest, coatrack::v1::ListResponse> list;
  Unary<coatrack::v1::ListEventsRequest, coatrack::v1::ListEventsResponse> list_events;
  Unary<coatrack::v1::CancelRequest, coatrack::v1::CancelResponse> cancel;
  Unary<coatrack::v1::KillRequest, coatrack::v1::KillResponse> kill;
  Unary<coatrack::v1::PlanRequest, coatrack::v1::PlanResponse> plan;
  Unary<coatrack::v1::ListWorkersRequest, coatrack::v1::ListWorkersResponse> list_workers;
  Unary<coatrack::v1::ListCheckpointsRequest, coatrack::v1::ListCheckpointsResponse>
      list_checkpoints;
  Unary<coatrack::v1::GetServerInfoRequest, coatrack::v1::GetServerInfoResponse> get_server_info;
  Stream<coatrack::v1::WatchRequest, coatrack::v1::WatchResponse> watch;
  Stream<coatrack::v1::StreamLogsRequest, coatrack::v1::StreamLogsResponse> stream_logs;
  Stream<coatrack::v1::StreamMetricsRequest, coatrack::v1::StreamMetricsResponse> stream_metrics;

  grpc::Status Submit(grpc::ServerContext*, const coatrack::v1::SubmitRequest* request,
                      coatrack::v1::SubmitResponse* response) override;
  grpc::Status Get(grpc::ServerContext*, const coatrack::v1::GetRequest* request,
                   coatrack::v1::GetResponse* response) override;
  grpc::Status List(grpc::ServerContext*, const coatrack::v1::ListRequest* request,
                    coatrack::v1::ListResponse* response) override;
  grpc::Status ListEvents(grpc::ServerContext*, const coatrack::v1::ListEventsRequest* request,
                          coatrack::v1::ListEventsResponse* response) override;
  grpc::Status Cancel(grpc::ServerContext*, const coatrack::v1::CancelRequest* request,
                      coatrack::v1::CancelResponse* response) override;
  grpc::Status Kill(grpc::ServerContext*, const coatrack::v1::KillRequest* request,
                    coatrack::v1::KillResponse* response) override;
  grpc::Status Plan(grpc::ServerContext*, const coatrack::v1::PlanRequest* request,
                    coatrack::v1::PlanResponse* response) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const coatrack::v1::ListWorkersRequest* request,
                           coatrack::v1::ListWorkersResponse* response) override;
  grpc::Status ListCheckpoints(grpc::ServerContext*,
                               const coatrack::v1::ListCheckpointsRequest* request,
                               coatrack::v1::ListCheckpointsResponse* response) override;
  grpc::Status GetServerInfo(grpc::ServerContext*,
                             const coatrack::v1::GetServerInfoRequest* request,
                             coatrack::v1::GetServerInfoResponse* response) override;
  grpc::Status Watch(grpc::ServerContext* context, const coatrack::v1::WatchRequest* request,
                     grpc::ServerWriter<coatrack::v1::WatchResponse>* writer) override;
  grpc::Status StreamLogs(grpc::ServerContext* context,
                          const coatrack::v1::StreamLogsRequest* request,
                          grpc::ServerWriter<coatrack::v1::StreamLogsResponse>* writer) override;
  grpc::Status StreamMetrics(
      grpc::ServerContext* context, const coatrack::v1::StreamMetricsRequest* request,
      grpc::ServerWriter<coatrack::v1::StreamMetricsResponse>* writer) override;

 private:
  std::mutex mutex_;  // of the unary handlers
};

// Serves on 127.0.0.1 from construction to destruction; calls in progress are then cancelled.
class FakeServer {
 public:
  // `port` 0: a free one.
  explicit FakeServer(FakeService* service, int port = 0);
  ~FakeServer();
  int port() const { return port_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// A status as the coordinator sends it: details are a google.rpc.Status with FieldViolations.
grpc::Status InvalidSpec(const coatrack::v1::FieldViolations& violations);

}  // namespace coat::testing
