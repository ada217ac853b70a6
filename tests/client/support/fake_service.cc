#include "tests/client/support/fake_service.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <stdexcept>

namespace coat::testing {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema

const grpc::Status kNoHandler(grpc::StatusCode::UNIMPLEMENTED, "the test has no handler");

template <typename Handler, typename Request, typename Response>
grpc::Status Answer(std::mutex* mutex, const Handler& handler, const Request* request,
                    Response* response) {
  const std::lock_guard lock(*mutex);
  return handler ? handler(*request, response) : kNoHandler;
}

}  // namespace

grpc::Status FakeService::Submit(grpc::ServerContext*, const SubmitRequest* request,
                                 SubmitResponse* response) {
  return Answer(&mutex_, submit, request, response);
}
grpc::Status FakeService::Get(grpc::ServerContext*, const GetRequest* request,
                              GetResponse* response) {
  return Answer(&mutex_, get, request, response);
}
grpc::Status FakeService::List(grpc::ServerContext*, const ListRequest* request,
                               ListResponse* response) {
  return Answer(&mutex_, list, request, response);
}
grpc::Status FakeService::ListEvents(grpc::ServerContext*, const ListEventsRequest* request,
                                     ListEventsResponse* response) {
  return Answer(&mutex_, list_events, request, response);
}
grpc::Status FakeService::Cancel(grpc::ServerContext*, const CancelRequest* request,
                                 CancelResponse* response) {
  return Answer(&mutex_, cancel, request, response);
}
grpc::Status FakeService::Kill(grpc::ServerContext*, const KillRequest* request,
                               KillResponse* response) {
  return Answer(&mutex_, kill, request, response);
}
grpc::Status FakeService::Plan(grpc::ServerContext*, const PlanRequest* request,
                               PlanResponse* response) {
  return Answer(&mutex_, plan, request, response);
}
grpc::Status FakeService::ListWorkers(grpc::ServerContext*, const ListWorkersRequest* request,
                                      ListWorkersResponse* response) {
  return Answer(&mutex_, list_workers, request, response);
}
grpc::Status FakeService::ListCheckpoints(grpc::ServerContext*,
                                          const ListCheckpointsRequest* request,
                                          ListCheckpointsResponse* response) {
  return Answer(&mutex_, list_checkpoints, request, response);
}
grpc::Status FakeService::GetServerInfo(grpc::ServerContext*, const GetServerInfoRequest* request,
                                        GetServerInfoResponse* response) {
  return Answer(&mutex_, get_server_info, request, response);
}

grpc::Status FakeService::Watch(grpc::ServerContext* context, const WatchRequest* request,
                                grpc::ServerWriter<WatchResponse>* writer) {
  return watch ? watch(context, *request, writer) : kNoHandler;
}
grpc::Status FakeService::StreamLogs(grpc::ServerContext* context, const StreamLogsRequest* request,
                                     grpc::ServerWriter<StreamLogsResponse>* writer) {
  return stream_logs ? stream_logs(context, *request, writer) : kNoHandler;
}
grpc::Status FakeService::StreamMetrics(grpc::ServerContext* context,
                                        const StreamMetricsRequest* request,
                                        grpc::ServerWriter<StreamMetricsResponse>* writer) {
  return stream_metrics ? stream_metrics(context, *request, writer) : kNoHandler;
}

FakeServer::FakeServer(FakeService* service, int port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(service);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) throw std::runtime_error("the fake server cannot listen");
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

grpc::Status InvalidSpec(const FieldViolations& violations) {
  google::protobuf::Any any;
  any.PackFrom(violations);
  google::protobuf::Empty details;  // the wire form of google.rpc.Status
  auto* fields = details.GetReflection()->MutableUnknownFields(&details);
  fields->AddVarint(1, static_cast<uint64_t>(grpc::StatusCode::INVALID_ARGUMENT));
  fields->AddLengthDelimited(2, "the job is not valid");
  fields->AddLengthDelimited(3, any.SerializeAsString());
  return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "the job is not valid",
                      details.SerializeAsString());
}

}  // namespace coat::testing
