// plan, validate and completion: nothing but the file is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "configs/spec/load.h"
#include "tests/client/commands/command_fixture.h"
#include "worker/memory/plan.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: names of the schema
using ::testing::HasSubstr;

class OfflineTest : public CommandTest {
 protected:
  void SetUp() override {}  // no server
};

TEST_F(OfflineTest, PlanIsThePlanOfTheEngine) {
  const auto job = LoadJobFile(JobFile());
  ASSERT_TRUE(job.ok());
  const MemoryPlan plan = MakePlan(job->spec, 0, 2, DeviceType::kCpu);
  const MemoryPlan bf16 = MakePlan(Bf16Counterpart(job->spec), 0, 2, DeviceType::kCpu);
  const auto json = nlohmann::json::parse(Coat({"plan", JobFile(), "-o", "json"}).out);
  EXPECT_EQ(json.at("total_bytes"), plan.total_bytes);
  EXPECT_EQ(json.at("bf16_total_bytes"), bf16.total_bytes);
  EXPECT_EQ(json.at("parameters"), 869'760);
  EXPECT_EQ(json.at("kinds").size(), static_cast<size_t>(kMemoryKinds));
  EXPECT_FALSE(json.contains("fits_now")) << "nobody was asked";
  const Outcome table = Coat({"plan", JobFile()});
  EXPECT_EQ(table.code, 0) << table.err;
  EXPECT_EQ(table.err, "");
  EXPECT_THAT(table.out, HasSubstr("tiny: 869,760 parameters, 2 ranks; memory of each on the CPU"));
  EXPECT_THAT(table.out, HasSubstr("BF16"));
  EXPECT_THAT(Coat({"plan", JobFile(), "--tensors"}).out, HasSubstr("layers.3."));
  EXPECT_EQ(Coat({"plan", JobFile(), "-o", "name"}).out, std::to_string(plan.total_bytes) + "\n");
}

TEST_F(OfflineTest, PlanNamesTheMissingCoordinatorButPlans) {
  const Outcome outcome = Coat({"plan", JobFile(), "--server", "127.0.0.1:1"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("No placement: the coordinator at 127.0.0.1:1"));
  EXPECT_THAT(outcome.out, HasSubstr("total"));
}

TEST_F(OfflineTest, PlanShowsThePlacement) {
  testing::FakeServer server(&service_);
  service_.plan = [](const PlanRequest& request, PlanResponse* response) {
    if (request.spec().name() != "tiny") return grpc::Status(grpc::StatusCode::INTERNAL, "name");
    response->set_fits_now(true);
    for (int rank = 0; rank < 2; ++rank) {
      auto* placed = response->add_placement();
      placed->set_rank(rank);
      placed->set_worker("w" + std::to_string(rank));
      placed->set_device("cpu:0");
    }
    return grpc::Status();
  };
  EXPECT_THAT(Coat({"plan", JobFile(), "--server", server.address()}).out,
              HasSubstr("Would start now: rank 0 on w0 cpu:0, rank 1 on w1 cpu:0\n"));
}

TEST_F(OfflineTest, ValidatePrintsDefaultsOnDemand) {
  EXPECT_EQ(Coat({"validate", JobFile()}).out, JobFile() + ": valid\n");
  const std::string yaml = Coat({"validate", JobFile(), "-o", "yaml"}).out;
  EXPECT_THAT(yaml, HasSubstr("optimizer_state: fp8_dre\n"));
  EXPECT_THAT(yaml, HasSubstr("  hidden_size: 128\n"));
  LoadedJob again;
  EXPECT_TRUE(LoadJobText(yaml, "again", {}, &again).empty());
  EXPECT_EQ(nlohmann::json::parse(Coat({"validate", JobFile(), "-o", "json"}).out).at("name"),
            "tiny");
  const Outcome bad = Coat({"validate", JobFile(), "--set", "train.global_batch=5"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("write 4 or 8"));
}

TEST_F(OfflineTest, CompletionKnowsEveryVerbAndFlag) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string text = Coat({"completion", shell}).out;
    for (const char* word :
         {"submit",     "run",          "list",        "ls",      "ps",       "describe",
          "watch",      "logs",         "metrics",     "cancel",  "kill",     "wait",
          "plan",       "validate",     "checkpoints", "workers", "nodes",    "version",
          "completion", "--request-id", "--dry-run",   "--tail",  "--server", "--set"}) {
      EXPECT_THAT(text, HasSubstr(word)) << shell;
    }
  }
}

TEST_F(OfflineTest, BashCompletesVerbsAndFlags) {
  const std::string script = folder_.file("completion");
  testing::WriteFile(script, Coat({"completion", "bash"}).out +
                                 "COMP_WORDS=(coat des); COMP_CWORD=1; _coat; "
                                 "echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(coat --server x logs --ta); COMP_CWORD=4; _coat; "
                                 "echo \"${COMPREPLY[*]}\"\n"
                                 "COMP_WORDS=(coat logs --ta); COMP_CWORD=2; _coat; "
                                 "echo \"${COMPREPLY[*]}\"\n");
  const auto finished = testing::RunProgram({"bash", script});
  EXPECT_EQ(finished.status, 0) << finished.err;
  EXPECT_THAT(finished.out, ::testing::StartsWith("describe\n"));
  EXPECT_THAT(finished.out, ::testing::EndsWith("\n--tail\n"));
}

}  // namespace
}  // namespace coat
