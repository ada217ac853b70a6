#include "client/rpc/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/support/fake_service.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

coatrack::v1::FieldViolations Example() {
  coatrack::v1::FieldViolations violations;
  auto* violation = violations.add_violations();
  violation->set_field("train.steps");
  violation->set_description("is 0");
  violation->set_suggestion("write 1 or more");
  violations.add_violations()->set_description("second");
  return violations;
}

TEST(ChannelTest, DecodesViolationsFromTheDetails) {
  const Violations found = DecodeViolations(testing::InvalidSpec(Example()));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(FormatViolations(found), "train.steps: is 0; write 1 or more\nsecond");
  const Status status = FromGrpc(testing::InvalidSpec(Example()), "a:1");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "train.steps: is 0; write 1 or more\nsecond");
}

TEST(ChannelTest, StrangeDetailsAreNoViolations) {
  using grpc::StatusCode;
  EXPECT_TRUE(
      DecodeViolations(grpc::Status(StatusCode::INVALID_ARGUMENT, "x", "\xFF\xFF")).empty());
  EXPECT_TRUE(DecodeViolations(grpc::Status(StatusCode::INVALID_ARGUMENT, "x")).empty());
  const Status status = FromGrpc(grpc::Status(StatusCode::INVALID_ARGUMENT, "bad page"), "a:1");
  EXPECT_EQ(status.message(), "bad page");
}

TEST(ChannelTest, ErrorsSayWhatToDo) {
  using grpc::StatusCode;
  const auto message = [](StatusCode code, const char* said) {
    return FromGrpc(grpc::Status(code, said), "host:7070");
  };
  EXPECT_TRUE(FromGrpc(grpc::Status(), "a").ok());
  EXPECT_EQ(message(StatusCode::UNAVAILABLE, "refused").message(),
            "the coordinator at host:7070 does not answer (refused); start coat-server, or name "
            "another by --server or COAT_SERVER");
  EXPECT_EQ(message(StatusCode::DEADLINE_EXCEEDED, "").code(), Code::kDeadlineExceeded);
  EXPECT_THAT(message(StatusCode::DEADLINE_EXCEEDED, "").message(), HasSubstr("--timeout"));
  EXPECT_THAT(message(StatusCode::NOT_FOUND, "no job x").message(), HasSubstr("no job x; 'coat"));
  EXPECT_EQ(message(StatusCode::NOT_FOUND, "no job x; look elsewhere").message(),
            "no job x; look elsewhere");
  EXPECT_THAT(message(StatusCode::UNIMPLEMENTED, "").message(), HasSubstr("same version"));
  EXPECT_EQ(message(StatusCode::RESOURCE_EXHAUSTED, "queue full").code(), Code::kResourceExhausted);
  EXPECT_EQ(message(StatusCode::FAILED_PRECONDITION, "ended").message(), "ended");
}

}  // namespace
}  // namespace coat
