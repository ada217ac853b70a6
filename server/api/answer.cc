#include "server/api/answer.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>

#include "coatrack/v1/job_service.pb.h"

namespace coat {
namespace {

// Fields of google.rpc.Status, for which Debian ships no header.
constexpr int kCodeField = 1;
constexpr int kMessageField = 2;
constexpr int kDetailsField = 3;

grpc::StatusCode CodeOf(Code code) {
  switch (code) {
    case Code::kOk: return grpc::StatusCode::OK;
    case Code::kInvalidArgument: return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kNotFound: return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists: return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kFailedPrecondition: return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kResourceExhausted: return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kAborted: return grpc::StatusCode::ABORTED;
    case Code::kUnavailable: return grpc::StatusCode::UNAVAILABLE;
    case Code::kDeadlineExceeded: return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Code::kDataLoss: return grpc::StatusCode::DATA_LOSS;
    default: return grpc::StatusCode::INTERNAL;
  }
}

}  // namespace

const char* GrpcCodeName(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK: return "OK";
    case grpc::StatusCode::CANCELLED: return "CANCELLED";
    case grpc::StatusCode::INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED: return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::NOT_FOUND: return "NOT_FOUND";
    case grpc::StatusCode::ALREADY_EXISTS: return "ALREADY_EXISTS";
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION: return "FAILED_PRECONDITION";
    case grpc::StatusCode::ABORTED: return "ABORTED";
    case grpc::StatusCode::UNAVAILABLE: return "UNAVAILABLE";
    case grpc::StatusCode::DATA_LOSS: return "DATA_LOSS";
    default: return "INTERNAL";
  }
}

grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {CodeOf(status.code()), status.message()};
}

grpc::Status ToGrpc(const Violations& violations) {
  coatrack::v1::FieldViolations shown;
  for (const Violation& violation : violations) {
    coatrack::v1::FieldViolation* field = shown.add_violations();
    field->set_field(violation.field);
    field->set_description(violation.description);
    field->set_suggestion(violation.suggestion);
    field->set_place(violation.place);
  }
  google::protobuf::Any any;
  any.PackFrom(shown);
  const std::string message = FormatViolations(violations);
  google::protobuf::Empty details;
  auto* fields = details.GetReflection()->MutableUnknownFields(&details);
  fields->AddVarint(kCodeField, static_cast<uint64_t>(grpc::StatusCode::INVALID_ARGUMENT));
  fields->AddLengthDelimited(kMessageField, message);
  fields->AddLengthDelimited(kDetailsField, any.SerializeAsString());
  // Status messages travel in headers, which are small.
  return {grpc::StatusCode::INVALID_ARGUMENT, message.substr(0, 4000), details.SerializeAsString()};
}

}  // namespace coat
