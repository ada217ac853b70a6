#include "client/rpc/channel.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/empty.pb.h>
#include <google/protobuf/unknown_field_set.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "coatrack/v1/job_service.pb.h"
#include "configs/base/keepalive.h"

namespace coat {
namespace {

constexpr int kDetailsField = 3;  // google.rpc.Status: repeated google.protobuf.Any details

std::string WithRemedy(const std::string& what, const char* remedy) { return what + "; " + remedy; }

// The coordinator's own messages mostly end in a remedy, which knows more than this program.
std::string UnlessRemedied(const std::string& said, const char* remedy) {
  return said.find(';') == std::string::npos ? WithRemedy(said, remedy) : said;
}

Code CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK: return Code::kOk;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE: return Code::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND: return Code::kNotFound;
    case grpc::StatusCode::ALREADY_EXISTS: return Code::kAlreadyExists;
    case grpc::StatusCode::FAILED_PRECONDITION: return Code::kFailedPrecondition;
    case grpc::StatusCode::RESOURCE_EXHAUSTED: return Code::kResourceExhausted;
    case grpc::StatusCode::ABORTED: return Code::kAborted;
    case grpc::StatusCode::UNAVAILABLE: return Code::kUnavailable;
    case grpc::StatusCode::DEADLINE_EXCEEDED: return Code::kDeadlineExceeded;
    case grpc::StatusCode::DATA_LOSS: return Code::kDataLoss;
    case grpc::StatusCode::CANCELLED: return Code::kStopped;
    default: return Code::kInternal;
  }
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name the time a connection may take to come about, also over a slow line.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // An address of this machine never goes through a proxy of the environment.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

Violations DecodeViolations(const grpc::Status& status) {
  // Debian has no header for google.rpc.Status, so its details are taken from unknown fields.
  google::protobuf::Empty details;
  Violations violations;
  if (!details.ParseFromString(status.error_details())) return violations;
  const auto& fields = details.GetReflection()->GetUnknownFields(details);
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    google::protobuf::Any any;
    coatrack::v1::FieldViolations found;
    if (field.number() != kDetailsField ||
        field.type() != google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED ||
        !any.ParseFromString(field.length_delimited()) || !any.UnpackTo(&found)) {
      continue;
    }
    for (const auto& violation : found.violations()) {
      violations.push_back({.field = violation.field(),
                            .description = violation.description(),
                            .suggestion = violation.suggestion(),
                            .place = violation.place()});
    }
  }
  return violations;
}

Status FromGrpc(const grpc::Status& status, const std::string& address) {
  const Code code = CodeOf(status.error_code());
  const std::string& said = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::OK: return Status();
    case grpc::StatusCode::INVALID_ARGUMENT: {
      const Violations violations = DecodeViolations(status);
      return Status(code, violations.empty() ? said : FormatViolations(violations));
    }
    case grpc::StatusCode::UNAVAILABLE:
      return Status(code,
                    WithRemedy("the coordinator at " + address + " does not answer (" + said + ")",
                               "start coat-server, or name another by --server or "
                               "COAT_SERVER"));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return Status(code, WithRemedy("no answer from the coordinator at " + address + " in time",
                                     "try again, or allow more by --timeout"));
    case grpc::StatusCode::NOT_FOUND:
      return Status(code, UnlessRemedied(said, "'coat list -a' shows all jobs"));
    case grpc::StatusCode::UNIMPLEMENTED:
      return Status(code, WithRemedy("the coordinator at " + address + " does not know this call",
                                     "use programs of the same version ('coat version')"));
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::ABORTED: return Status(code, UnlessRemedied(said, "try again later"));
    default: return Status(code, said);
  }
}

}  // namespace coat
