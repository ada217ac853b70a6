// The real coat-worker, with whatever driver this host has.
#include <gtest/gtest.h>

#include "tests/worker/supervisor/worker_fixture.h"
#include "worker/supervisor/gpu_driver.h"

namespace coat {
namespace {

using Seen = testing::FakeCoordinator::Seen;

class GpuOfferTest : public testing::WorkerTest {};

TEST_F(GpuOfferTest, GpusAreOfferedOrTheirLackIsExplained) {
  const auto driver = LoadNvml();
  const auto gpus =
      driver.ok() ? driver.value()->List() : Result<std::vector<Gpu>>(driver.status());
  const auto worker = StartProgram();
  ASSERT_TRUE(coordinator_.WaitFor([](const Seen& seen) { return seen.last.devices_size() > 0; }));
  int offered = 0;
  const coatrack::v1::SyncRequest report = coordinator_.seen().last;
  for (const auto& device : report.devices()) {
    if (device.kind() == coatrack::v1::DEVICE_KIND_GPU) ++offered;
  }
  EXPECT_EQ(offered, gpus.ok() ? static_cast<int>(gpus->size()) : 0);
  const std::string log = testing::ReadFile(dir_.file("worker.log"));
  EXPECT_EQ(log.find("no GPU to offer") != std::string::npos, offered == 0) << log;
}

}  // namespace
}  // namespace coat
