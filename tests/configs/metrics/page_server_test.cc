#include "configs/metrics/page_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>

#include "configs/metrics/family.h"
#include "tests/support/process.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

std::string Get(const std::string& host, int port, const std::string& path) {
  return testing::RunProgram({"curl", "-sf", "http://" + host + ":" + std::to_string(port) + path})
      .out;
}

std::vector<prometheus::MetricFamily> Leader(double value) {
  FamilyBuilder family(MetricOf(MetricPage::kFleet, "coat_leader"));
  family.Set({}, value);
  return {family.Take()};
}

TEST(PageServer, RendersAfreshAtEachScrape) {
  std::atomic<int> scrapes = 0;
  const auto server =
      PageServer::Start("127.0.0.1:0", {{"/metrics", [&] { return Leader(++scrapes); }},
                                        {"/metrics/jobs", [] { return Leader(100); }}});
  ASSERT_TRUE(server.ok()) << server.status().message();
  const int port = server.value()->port();
  EXPECT_THAT(Get("127.0.0.1", port, "/metrics"), HasSubstr("\ncoat_leader 1\n"));
  EXPECT_THAT(Get("127.0.0.1", port, "/metrics"), HasSubstr("\ncoat_leader 2\n"));
  EXPECT_THAT(Get("127.0.0.1", port, "/metrics/jobs"), HasSubstr("\ncoat_leader 100\n"));
  EXPECT_EQ(Get("127.0.0.1", port, "/nothing"), "");
}

TEST(PageServer, RendersWithAnOrdinaryStack) {
  const auto server =
      PageServer::Start("127.0.0.1:0", {{"/metrics", [] {
                                           std::array<volatile char, size_t{1} << 20> local;
                                           for (auto& byte : local) byte = 1;
                                           return Leader(local.back());
                                         }}});
  ASSERT_TRUE(server.ok()) << server.status().message();
  EXPECT_THAT(Get("127.0.0.1", server.value()->port(), "/metrics"), HasSubstr("\ncoat_leader 1\n"));
}

TEST(PageServer, NamesAPortThatIsTaken) {
  const auto first = PageServer::Start("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok());
  const std::string address = "127.0.0.1:" + std::to_string(first.value()->port());
  const auto second = PageServer::Start(address, {});
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr(address));
}

// prometheus-cpp alone needs up to two seconds.
TEST(PageServer, EndsAtOnceWhateverItIsBoundTo) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0", "127.0.0.7:0"}) {
    auto server = PageServer::Start(address, {{"/metrics", [] { return Leader(1); }}});
    ASSERT_TRUE(server.ok()) << server.status().message();
    const auto start = std::chrono::steady_clock::now();
    std::move(server).value().reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1)) << address;
  }
}

}  // namespace
}  // namespace coat
