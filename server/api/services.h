// The two services. Each method is in the file of its name.
#pragma once

#include <string>

#include "coatrack/v1/job_service.grpc.pb.h"
#include "coatrack/v1/worker_service.grpc.pb.h"
#include "server/loops/coordinator.h"

namespace coat {

// What GetServerInfo adds to what the coordinator knows.
struct ServerIdentity {
  std::string version;
  std::string metrics_address;
};

class JobServiceImpl final : public coatrack::v1::JobService::CallbackService {
 public:
  JobServiceImpl(Coordinator* coordinator, ServerIdentity identity)
      : coordinator_(coordinator), identity_(std::move(identity)) {}

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* Submit(Context* context, const coatrack::v1::SubmitRequest* request,
                coatrack::v1::SubmitResponse* response) override;
  Unary* Get(Context* context, const coatrack::v1::GetRequest* request,
             coatrack::v1::GetResponse* response) override;
  Unary* List(Context* context, const coatrack::v1::ListRequest* request,
              coatrack::v1::ListResponse* response) override;
  Unary* ListEvents(Context* context, const coatrack::v1::ListEventsRequest* request,
                    coatrack::v1::ListEventsResponse* response) override;
  grpc::ServerWriteReactor<coatrack::v1::WatchResponse>* Watch(
      Context* context, const coatrack::v1::WatchRequest* request) override;
  grpc::ServerWriteReactor<coatrack::v1::StreamLogsResponse>* StreamLogs(
      Context* context, const coatrack::v1::StreamLogsRequest* request) override;
  grpc::ServerWriteReactor<coatrack::v1::StreamMetricsResponse>* StreamMetrics(
      Context* context, const coatrack::v1::StreamMetricsRequest* request) override;
  Unary* Cancel(Context* context, const coatrack::v1::CancelRequest* request,
                coatrack::v1::CancelResponse* response) override;
  Unary* Kill(Context* context, const coatrack::v1::KillRequest* request,
              coatrack::v1::KillResponse* response) override;
  Unary* Plan(Context* context, const coatrack::v1::PlanRequest* request,
              coatrack::v1::PlanResponse* response) override;
  Unary* ListWorkers(Context* context, const coatrack::v1::ListWorkersRequest* request,
                     coatrack::v1::ListWorkersResponse* response) override;
  Unary* ListCheckpoints(Context* context, const coatrack::v1::ListCheckpointsRequest* request,
                         coatrack::v1::ListCheckpointsResponse* response) override;
  Unary* GetServerInfo(Context* context, const coatrack::v1::GetServerInfoRequest* request,
                       coatrack::v1::GetServerInfoResponse* response) override;

 private:
  Coordinator* const coordinator_;
  const ServerIdentity identity_;
};

class WorkerServiceImpl final : public coatrack::v1::WorkerService::CallbackService {
 public:
  explicit WorkerServiceImpl(Coordinator* coordinator) : coordinator_(coordinator) {}

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  Unary* Sync(Context* context, const coatrack::v1::SyncRequest* request,
              coatrack::v1::SyncResponse* response) override;
  Unary* PushRecords(Context* context, const coatrack::v1::PushRecordsRequest* request,
                     coatrack::v1::PushRecordsResponse* response) override;
  Unary* PushLogs(Context* context, const coatrack::v1::PushLogsRequest* request,
                  coatrack::v1::PushLogsResponse* response) override;
  Unary* PutRendezvous(Context* context, const coatrack::v1::PutRendezvousRequest* request,
                       coatrack::v1::PutRendezvousResponse* response) override;
  Unary* GetRendezvous(Context* context, const coatrack::v1::GetRendezvousRequest* request,
                       coatrack::v1::GetRendezvousResponse* response) override;

 private:
  Coordinator* const coordinator_;
};

}  // namespace coat
