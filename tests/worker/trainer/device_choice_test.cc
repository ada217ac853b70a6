#include "worker/trainer/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coat {
namespace {

using coatrack::v1::DeviceKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

coatrack::v1::JobSpec Job(DeviceKind device, int ranks) {
  coatrack::v1::JobSpec spec;
  spec.mutable_resources()->set_device(device);
  spec.mutable_resources()->set_ranks(ranks);
  return spec;
}

std::function<Result<int>()> Has(int gpus) {
  return [gpus] { return Result<int>(gpus); };
}

Result<int> NoDriver() { return Status(Code::kFailedPrecondition, "no driver here"); }

TEST(ChooseDevices, GpuJobsGetOneGpuARank) {
  EXPECT_THAT(*ChooseDevices(Job(coatrack::v1::DEVICE_KIND_GPU, 2), Has(4)),
              ElementsAre("cuda:0", "cuda:1"));
}

TEST(ChooseDevices, CpuJobsNeverAsk) {
  const auto devices = ChooseDevices(Job(coatrack::v1::DEVICE_KIND_CPU, 2), [] {
    ADD_FAILURE();
    return Result<int>(2);
  });
  EXPECT_THAT(*devices, ElementsAre("cpu", "cpu"));
}

TEST(ChooseDevices, AutoIsOneKindForTheWholeGang) {
  const auto job = Job(coatrack::v1::DEVICE_KIND_AUTO, 2);
  EXPECT_THAT(*ChooseDevices(job, Has(2)), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(*ChooseDevices(job, Has(1)), ElementsAre("cpu", "cpu"));
  EXPECT_THAT(*ChooseDevices(job, NoDriver), ElementsAre("cpu", "cpu"));
}

TEST(ChooseDevices, TooFewGpusNameFieldReasonAndRemedy) {
  const auto none = ChooseDevices(Job(coatrack::v1::DEVICE_KIND_GPU, 1), NoDriver);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::kInvalidArgument);
  for (const char* part :
       {"resources.device: gpu", "no driver here", "--set resources.device=cpu"}) {
    EXPECT_THAT(none.status().message(), HasSubstr(part));
  }
  const auto few = ChooseDevices(Job(coatrack::v1::DEVICE_KIND_GPU, 3), Has(2));
  ASSERT_FALSE(few.ok());
  for (const char* part : {"resources.ranks: 3", "machine has 2", "--nproc 2"}) {
    EXPECT_THAT(few.status().message(), HasSubstr(part));
  }
}

}  // namespace
}  // namespace coat
