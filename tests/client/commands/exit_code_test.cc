#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

class ExitCodeTest : public CommandTest {};

TEST_F(ExitCodeTest, UsageFaultsAreTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"frobnicate"},
                                             {"list", "--frobnicate"},
                                             {"describe"},
                                             {"submit"},
                                             {"list", "-o", "xml"},
                                             {"list", "-n", "0"},
                                             {"list", "-n", "many"},
                                             {"list", "--timeout", "30"},
                                             {"list", "--state", "runing"},
                                             {"list", "--label", "team"},
                                             {"logs", "j1", "--tail", "-3"},
                                             {"checkpoints"},
                                             {"completion", "csh"},
                                             {"metrics", "j1", "-f", "-n", "3"}}) {
    const Outcome outcome = Coat(arguments);
    EXPECT_EQ(outcome.code, kExitUsage) << ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "") << ::testing::PrintToString(arguments);
    EXPECT_NE(outcome.err, "") << ::testing::PrintToString(arguments);
  }
  EXPECT_THAT(Coat({"list", "--state", "runing"}).err, HasSubstr("write 'running'"));
  EXPECT_THAT(Coat({"list", "--timeout", "30"}).err, HasSubstr("15m"));
}

TEST_F(ExitCodeTest, HelpAndVersionAreZeroOnStdout) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"}, {"run", "--help"}, {"--version"}}) {
    const Outcome outcome = Coat(arguments);
    EXPECT_EQ(outcome.code, kExitOk);
    EXPECT_NE(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
  }
}

struct End {
  JobState state;
  Reason reason;
  int code;
};

TEST_F(ExitCodeTest, WaitAndRunTellHowTheJobEnded) {
  for (const End& end :
       {End{JOB_STATE_SUCCEEDED, REASON_COMPLETED, 0}, End{JOB_STATE_FAILED, REASON_NUMERIC, 100},
        End{JOB_STATE_CANCELLED, REASON_CANCELLED, 103}}) {
    ServeJobThatEnds(end.state, end.reason);
    EXPECT_EQ(Coat({"wait", "j1"}).code, end.code);
    EXPECT_EQ(Coat({"run", JobFile(), "-o", "name"}).code, end.code);
    EXPECT_EQ(Coat({"submit", JobFile(), "--wait"}).code, end.code);
    EXPECT_EQ(Coat({"watch", "j1"}).code, 0) << "watch only tells";
  }
}

TEST_F(ExitCodeTest, WaitForAnUnknownJobIs102) {
  ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  const Outcome outcome = Coat({"wait", "x"});
  EXPECT_EQ(outcome.code, kExitNotFound);
  EXPECT_EQ(outcome.err, "coat: no job x; 'coat list -a' shows all jobs\n");
  EXPECT_EQ(Coat({"watch", "x"}).code, kExitError);
  EXPECT_EQ(Coat({"wait", "j1", "x"}).code, kExitNotFound);
}

TEST_F(ExitCodeTest, ALateEndIs124) {
  service_.watch = [](grpc::ServerContext* context, const WatchRequest&,
                      grpc::ServerWriter<WatchResponse>*) {
    while (!context->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  };
  const Outcome outcome = Coat({"wait", "j1", "--timeout", "100ms"});
  EXPECT_EQ(outcome.code, kExitTimeout);
  EXPECT_THAT(outcome.err, HasSubstr("Come back with: coat watch j1"));
}

TEST_F(ExitCodeTest, NoCoordinatorIsOneAndSaysWhatToDo) {
  const std::string address = server_->address();
  server_.reset();
  const Outcome outcome = Coat({"list", "--server", address});
  EXPECT_EQ(outcome.code, kExitError);
  EXPECT_THAT(outcome.err, HasSubstr("the coordinator at " + address + " does not answer"));
  EXPECT_THAT(outcome.err, HasSubstr("start coat-server"));
  EXPECT_EQ(outcome.out, "");
}

TEST_F(ExitCodeTest, AFaultOfTheFileIsOneWithItsPlace) {
  const std::string path = folder_.file("bad.yaml");
  testing::WriteFile(path, "name: a\ntrain: {step: 5}\n");
  for (const char* verb : {"submit", "run", "validate", "plan"}) {
    const Outcome outcome = Coat({verb, path});
    EXPECT_EQ(outcome.code, kExitError) << verb;
    EXPECT_THAT(outcome.err, HasSubstr(path + ":2: train.step: is not a field; write 'steps'"))
        << verb;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_THAT(Coat({"validate", folder_.file("none.yaml")}).err, HasSubstr("cannot be opened"));
}

}  // namespace
}  // namespace coat
