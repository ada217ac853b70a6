#include "worker/supervisor/flags.h"

#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/worker/supervisor/worker_fixture.h"
#include "worker/supervisor/worker_config.h"

namespace coat {
namespace {

Result<WorkerFlags> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "coat-worker");
  return ParseWorkerFlags(static_cast<int>(arguments.size()), arguments.data());
}

TEST(Flags, OverrideTheFile) {
  const testing::TempDir dir;
  testing::WriteFile(dir.file("w.yaml"),
                     "api_version: coatrack/v1\nname: from-file\ncpu_slots: 3\n"
                     "roots:\n  - {name: default, path: /a}\n");
  const auto flags = Parse({"--config", dir.file("w.yaml").c_str(), "--name", "from-flag", "--root",
                            "default=/b", "--root", "fast=/c", "--label", "zone=x", "--data-root",
                            "/d 1", "--drain-grace", "1500ms"});
  ASSERT_TRUE(flags.ok()) << flags.status().message();
  EXPECT_EQ(flags->config.name(), "from-flag");
  EXPECT_EQ(flags->config.cpu_slots(), 3);
  EXPECT_EQ(flags->config.data_root(), "/d 1");
  ASSERT_EQ(flags->config.roots_size(), 2);
  EXPECT_EQ(flags->config.roots(0).path(), "/b");
  EXPECT_EQ(flags->config.labels().at("zone"), "x");
  EXPECT_EQ(flags->config.drain_grace().nanos(), 500'000'000);
  EXPECT_EQ(flags->config.server(), "127.0.0.1:7070");
}

TEST(Flags, RefuseWhatTheyDoNotKnow) {
  for (const auto& arguments :
       std::vector<std::vector<const char*>>{{"--nonsense"},
                                             {"--cpu-slots", "two"},
                                             {"--root", "default"},
                                             {"--label", "=x"},
                                             {"--drain-grace", "10"},
                                             {"--config", "/does/not/exist"}}) {
    EXPECT_FALSE(Parse(arguments).ok()) << arguments[0];
  }
}

TEST(Flags, TheProgramExitsWithTwo) {
  const auto finished = testing::RunProgram({testing::WorkerPath(), "--nonsense"});
  EXPECT_EQ(finished.status, 2);
  EXPECT_NE(finished.err.find("--nonsense"), std::string::npos);
  EXPECT_EQ(testing::RunProgram({testing::WorkerPath(), "--help"}).status, 0);
}

TEST(Flags, RefusePlaintextBeyondLoopback) {
  for (const auto& [flag, address] : std::vector<std::pair<const char*, const char*>>{
           {"--server", "10.0.0.1:7070"}, {"--metrics-listen", "0.0.0.0:9"}}) {
    const auto flags = Parse({"--data-root", "/d", flag, address});
    ASSERT_FALSE(flags.ok());
    EXPECT_NE(flags.status().message().find("--insecure-plaintext"), std::string::npos);
    EXPECT_TRUE(Parse({"--data-root", "/d", flag, address, "--insecure-plaintext"}).ok());
  }
}

class ResolveTest : public ::testing::Test {
 protected:
  coatrack::v1::WorkerConfig Config() {
    auto flags = Parse({"--trainer-path", "/bin/true", "--state-dir", "state", "--data-root", "."});
    EXPECT_TRUE(flags.ok());
    return flags->config;
  }
};

TEST_F(ResolveTest, MakesPathsAbsoluteAndNamesTheWorker) {
  coatrack::v1::WorkerConfig config = Config();
  ASSERT_TRUE(ResolveWorkerConfig("/x/coat-worker", &config).ok());
  EXPECT_EQ(config.state_dir()[0], '/');
  EXPECT_EQ(config.data_root()[0], '/');
  EXPECT_FALSE(config.name().empty());  // the host's
}

TEST_F(ResolveTest, NeedsATrainer) {
  coatrack::v1::WorkerConfig config = Config();
  config.clear_trainer_path();
  const Status status = ResolveWorkerConfig("/nowhere/coat-worker", &config);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("/nowhere/coat-train"), std::string::npos);
}

TEST(IsPathComponent, TakesPlainNamesOnly) {
  EXPECT_TRUE(IsPathComponent("step-1.attempt-2"));
  for (const char* bad : {"", ".", "..", "a/b", "/"}) EXPECT_FALSE(IsPathComponent(bad)) << bad;
}

}  // namespace
}  // namespace coat
