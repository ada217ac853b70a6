// The program itself: Ctrl-C, standard input, environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/client/commands/command_fixture.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kCoat = COAT_BINARY_DIR "/bin/coat";

class ProgramTest : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    ServeJobThatEnds(JOB_STATE_SUCCEEDED, REASON_COMPLETED);
  }

  // A watch that says "running" and then nothing.
  void ServeEndlessJob() {
    service_.watch = [this](grpc::ServerContext* context, const WatchRequest&,
                            grpc::ServerWriter<WatchResponse>* writer) {
      WatchResponse response;
      *response.mutable_job() = MakeJob(JOB_STATE_RUNNING);
      writer->Write(response);
      watched_ = true;
      while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
      return grpc::Status(grpc::StatusCode::CANCELLED, "");
    };
  }

  // Interrupts `coat` while it follows; returns its exit status.
  std::optional<int> Interrupted(std::vector<std::string> arguments, std::string* output) {
    ServeEndlessJob();
    watched_ = false;
    arguments.insert(arguments.begin(), kCoat);
    arguments.insert(arguments.end(), {"--server", server_->address()});
    const std::string path = folder_.file("output");
    testing::WriteFile(path, "");
    testing::Process process(arguments, {.output_path = path, .environment = {}, .directory = ""});
    if (!testing::WaitUntil([&] { return watched_.load(); })) return std::nullopt;
    process.Signal(SIGINT);
    const auto status = process.Wait(10s);
    *output = testing::ReadFile(path);
    return status;
  }

  std::atomic<bool> watched_ = false;
};

TEST_F(ProgramTest, CtrlCDetachesAndSaysHowToComeBack) {
  std::string output;
  EXPECT_EQ(Interrupted({"watch", "j1"}, &output), 0) << output;
  EXPECT_THAT(output, HasSubstr("Detached; job j1 goes on."));
  EXPECT_THAT(output, HasSubstr("come back:  coat watch j1"));
  EXPECT_EQ(Interrupted({"run", JobFile()}, &output), 1) << output;
  EXPECT_THAT(output, HasSubstr("Detached; job j1 goes on."));
  EXPECT_EQ(Interrupted({"wait", "j1"}, &output), 1) << output;
  EXPECT_THAT(output, HasSubstr("stop it:    coat cancel j1"));
}

TEST_F(ProgramTest, ReadsAJobFromStandardInput) {
  const auto finished =
      testing::RunProgram({kCoat, "submit", "-f", "-", "--server", server_->address()}, 20s,
                          testing::ReadFile(JobFile()));
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_EQ(finished.out, "j1\n");
  const auto bad = testing::RunProgram({kCoat, "validate", "-f", "-"}, 20s, "nam: x\n");
  EXPECT_EQ(bad.status, 1);
  EXPECT_EQ(bad.err, "stdin:1: nam: is not a field; write 'name'\n");
}

TEST_F(ProgramTest, TheEnvironmentNamesTheServer) {
  const std::string path = folder_.file("output");
  testing::Process process(
      {kCoat, "submit", "-f", JobFile()},
      {.output_path = path,
       .environment = {"COAT_SERVER=" + server_->address(), "HOME=" + folder_.path().string()},
       .directory = ""});
  EXPECT_EQ(process.Wait(20s), 0) << testing::ReadFile(path);
  EXPECT_THAT(testing::ReadFile(path), HasSubstr("j1\n"));
}

TEST_F(ProgramTest, UsageFaultsAreTwo) {
  EXPECT_EQ(testing::RunProgram({kCoat, "frobnicate"}).status, 2);
  EXPECT_EQ(testing::RunProgram({kCoat, "--help"}).status, 0);
}

}  // namespace
}  // namespace coat
