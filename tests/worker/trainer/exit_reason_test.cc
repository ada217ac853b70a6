#include "worker/trainer/exit_reason.h"

#include <gtest/gtest.h>

namespace coat {
namespace {

using coatrack::v1::Reason;

TEST(ReasonOf, TellsTheKindsOfFailureApart) {
  EXPECT_EQ(ReasonOf(Code::kInvalidArgument), Reason::REASON_USER_ERROR);
  EXPECT_EQ(ReasonOf(Code::kOutOfDeviceMemory), Reason::REASON_OUT_OF_DEVICE_MEMORY);
  EXPECT_EQ(ReasonOf(Code::kCollective), Reason::REASON_PEER_FAILED);
  EXPECT_EQ(ReasonOf(Code::kDeadlineExceeded), Reason::REASON_RENDEZVOUS_TIMEOUT);
  EXPECT_EQ(ReasonOf(Code::kDataChanged), Reason::REASON_DATA_CHANGED);
  EXPECT_EQ(ReasonOf(Code::kNumeric), Reason::REASON_NUMERIC);
  EXPECT_EQ(ReasonOf(Code::kResourceExhausted), Reason::REASON_STORAGE);
  EXPECT_EQ(ReasonOf(Code::kDataLoss), Reason::REASON_STORAGE);
  EXPECT_EQ(ReasonOf(Code::kStopped), Reason::REASON_STOPPED);
}

TEST(ReasonOf, EveryCodeHasOne) {
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    EXPECT_NE(ReasonOf(static_cast<Code>(code)), Reason::REASON_UNSPECIFIED) << code;
  }
}

}  // namespace
}  // namespace coat
