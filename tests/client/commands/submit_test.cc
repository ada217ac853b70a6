#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

class SubmitTest : public CommandTest {};

TEST_F(SubmitTest, SendsTheFileAsWrittenAndPrintsTheId) {
  ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  const Outcome outcome =
      Coat({"submit", "-f", JobFile(), "--set", "train.steps=7", "--set", "labels.team=a"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "j1\n");
  EXPECT_EQ(outcome.err, "Job j1 (tiny) is submitted.\nFollow it with: coat watch j1\n");
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_EQ(submitted_[0].spec().train().steps(), 7);
  EXPECT_EQ(submitted_[0].spec().labels().at("team"), "a");
  EXPECT_FALSE(submitted_[0].spec().has_priority()) << "defaults are the server's";
  EXPECT_FALSE(submitted_[0].validate_only());
}

TEST_F(SubmitTest, EachInvocationHasItsOwnRequestId) {
  ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  Coat({"submit", JobFile()});
  Coat({"submit", JobFile()});
  Coat({"submit", JobFile(), "--request-id", "mine"});
  ASSERT_EQ(submitted_.size(), 3u);
  EXPECT_EQ(submitted_[0].request_id().size(), 32u);
  EXPECT_NE(submitted_[0].request_id(), submitted_[1].request_id());
  EXPECT_EQ(submitted_[2].request_id(), "mine");
}

TEST_F(SubmitTest, ALostAnswerIsAskedForAgainByTheSameId) {
  service_.submit = [this](const SubmitRequest& request, SubmitResponse* response) {
    submitted_.push_back(request);
    if (submitted_.size() == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
    *response->mutable_job() = MakeJob(JOB_STATE_PENDING);
    response->set_already_existed(true);
    return grpc::Status();
  };
  const Outcome outcome = Coat({"submit", JobFile()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  ASSERT_EQ(submitted_.size(), 2u);
  EXPECT_EQ(submitted_[0].request_id(), submitted_[1].request_id());
  EXPECT_THAT(outcome.err, HasSubstr("was submitted before by this request id"));
}

TEST_F(SubmitTest, DryRunOnlyAsks) {
  ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  const Outcome outcome = Coat({"submit", JobFile(), "--dry-run"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("nothing was submitted"));
  ASSERT_EQ(submitted_.size(), 1u);
  EXPECT_TRUE(submitted_[0].validate_only());
}

TEST_F(SubmitTest, FaultsOfTheServerNameTheField) {
  service_.submit = [](const SubmitRequest&, SubmitResponse*) {
    FieldViolations violations;
    auto* violation = violations.add_violations();
    violation->set_field("train.steps");
    violation->set_description("is above this cluster's limit");
    violation->set_suggestion("write at most 50");
    return testing::InvalidSpec(violations);
  };
  const Outcome outcome = Coat({"submit", JobFile()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.err, "coat: train.steps: is above this cluster's limit; write at most 50\n");
}

TEST_F(SubmitTest, WarningsGoToStderr) {
  service_.submit = [](const SubmitRequest&, SubmitResponse* response) {
    *response->mutable_job() = MakeJob(JOB_STATE_PENDING);
    response->add_warnings("no worker could ever hold it");
    return grpc::Status();
  };
  const Outcome outcome = Coat({"submit", JobFile(), "-o", "table"});
  EXPECT_THAT(outcome.err, HasSubstr("Warning: no worker could ever hold it\n"));
  EXPECT_EQ(outcome.out,
            "ID  NAME  STATE      STEP    LOSS  TOK/S  AGE\n"
            "j1  tiny  pending  50/100  2.5000      -  90s\n");
}

}  // namespace
}  // namespace coat
