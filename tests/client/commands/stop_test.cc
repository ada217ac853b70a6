// cancel and kill.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

class StopTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ServeJobThatEnds(JOB_STATE_CANCELLED, REASON_CANCELLED);
    service_.cancel = [this](const CancelRequest& request, CancelResponse* response) {
      calls_.push_back("cancel " + request.job() + " " + request.message());
      if (request.job() == "x") return grpc::Status(grpc::StatusCode::NOT_FOUND, "no job x");
      *response->mutable_job() = MakeJob(JOB_STATE_STOPPING);
      return grpc::Status();
    };
    service_.kill = [this](const KillRequest& request, KillResponse* response) {
      calls_.push_back("kill " + request.job());
      *response->mutable_job() = MakeJob(JOB_STATE_STOPPING);
      return grpc::Status();
    };
  }

  // As a person at a terminal who answers `answer`.
  Outcome Asked(const std::vector<std::string>& arguments, const std::string& answer) {
    std::istringstream in(answer);
    std::ostringstream out, err;
    Host host = MakeHost(&in, &out, &err);
    host.in_kind = Terminal::Kind::kScreen;
    host.err_terminal.kind = Terminal::Kind::kScreen;
    const int code = RunCoat(arguments, host);
    return {code, out.str(), err.str()};
  }

  std::vector<std::string> calls_;
};

TEST_F(StopTest, CancelPrintsTheJob) {
  const Outcome outcome = Coat({"cancel", "j1", "-m", "wrong data"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "j1\n");
  EXPECT_EQ(outcome.err, "Job j1: stopping\n");
  EXPECT_EQ(calls_, std::vector<std::string>{"cancel j1 wrong data"});
}

TEST_F(StopTest, CancelWaitsForTheEnd) {
  const Outcome outcome = Coat({"cancel", "j1", "--wait"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "Job j1: stopping\nJob j1: cancelled\n");
}

TEST_F(StopTest, OneUnknownJobDoesNotStopTheOthers) {
  const Outcome outcome = Coat({"cancel", "x", "j1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.out, "j1\n");
  EXPECT_EQ(calls_.size(), 2u);
}

TEST_F(StopTest, KillAsksOnATerminal) {
  EXPECT_EQ(Asked({"kill", "j1"}, "n\n").code, 1);
  EXPECT_EQ(Asked({"kill", "j1"}, "").code, 1);
  EXPECT_TRUE(calls_.empty());
  const Outcome yes = Asked({"kill", "j1"}, "y\n");
  EXPECT_EQ(yes.code, 0);
  EXPECT_THAT(yes.err, HasSubstr("Kill j1 now?"));
  EXPECT_EQ(Asked({"kill", "j1", "-y"}, "").code, 0);
  EXPECT_EQ(Coat({"kill", "j1"}).code, 0) << "nobody is there to ask";
  EXPECT_EQ(calls_.size(), 3u);
}

TEST_F(StopTest, CancelAsksForSeveralOnly) {
  EXPECT_EQ(Asked({"cancel", "j1"}, "").code, 0);
  EXPECT_EQ(Asked({"cancel", "j1", "j2"}, "no\n").code, 1);
  EXPECT_EQ(calls_.size(), 1u);
}

}  // namespace
}  // namespace coat
