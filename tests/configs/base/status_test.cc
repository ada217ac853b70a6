#include "configs/base/status.h"

#include <gtest/gtest.h>

#include "configs/base/error.h"

namespace coat {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, "odd");
  return value / 2;
}

Result<int> Quarter(int value) {
  ASSIGN_OR_RETURN(const int half, Half(value));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

Status CheckQuarter(int value) {
  RETURN_IF_ERROR(Quarter(value).status());
  return Status();
}

TEST(StatusTest, CarriesValuesAndFaults) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().ToString(), "invalid argument: odd");
  EXPECT_TRUE(CheckQuarter(8).ok());
  EXPECT_EQ(CheckQuarter(6).code(), Code::kInvalidArgument);
  EXPECT_EQ(Status().ToString(), "ok");
}

TEST(StatusTest, ErrorsKeepCodeAndMessage) {
  try {
    Check(false, "tensor layers.0.qkv is missing");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_STREQ(error.what(), "tensor layers.0.qkv is missing");
  }
  EXPECT_NO_THROW(Check(true, ""));
  EXPECT_EQ(Error(Status(Code::kIo, "x")).code(), Code::kIo);
}

}  // namespace
}  // namespace coat
