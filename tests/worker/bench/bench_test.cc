// The three measurements end to end, on the smallest problems that mean something.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "configs/base/error.h"
#include "worker/bench/quant.h"
#include "worker/bench/step.h"
#include "worker/bench/update.h"

namespace coat {
namespace {

struct Output {
  std::ostringstream json, table;
};

TEST(BenchTest, QuantRecordsRealMoments) {
  Output out;
  Report report("quant", "cpu", 1, &out.json, &out.table);
  QuantOptions options;
  options.steps = 8;
  options.shape.sequence_length = 64;
  options.data_root = COAT_SOURCE_DIR;
  options.text = {"worker/bench/*.h"};
  const double ratio = RunQuant(options, &report);
  ASSERT_EQ(report.rows().size(), 12u);
  EXPECT_GE(ratio, 1.5);  // the paper's table 1 says so of its own states
  for (const auto& row : report.rows()) {
    EXPECT_GT(row.at("error").get<double>(), 0);
    EXPECT_GT(row.at("relative_error").get<double>(), 0);
  }
  EXPECT_EQ(report.rows()[0].at("ratio"), 1.0);
  EXPECT_GT(report.rows()[0].at("parameters").get<int64_t>(), 800'000);
}

TEST(BenchTest, StepRowsTellRecipesApart) {
  Output out;
  Report report("step", "cpu", 1, &out.json, &out.table);
  StepOptions options;
  options.models = {"llama-tiny"};
  options.shape.sequence_length = 32;
  options.steps = 2;
  options.warmup = 1;
  RunStep(options, &report);
  ASSERT_EQ(report.rows().size(), 3u);
  for (const auto& row : report.rows()) {
    EXPECT_GT(row.at("step_ms").get<double>(), 0);
    EXPECT_NEAR(row.at("tokens_per_second").get<double>() * row.at("step_ms").get<double>(),
                64 * 1e3, 1);
    int64_t sum = 0;
    for (const auto& [kind, bytes] : row.at("bytes").items()) sum += bytes.get<int64_t>();
    EXPECT_EQ(sum, row.at("arena_bytes").get<int64_t>());
  }
  EXPECT_EQ(report.rows()[0].at("optimizer_state"), "fp32");
  EXPECT_EQ(report.rows()[2].at("optimizer_state"), "fp8_dre e4m3/e4m3");
  EXPECT_LT(report.rows()[2].at("bytes").at("optimizer").get<int64_t>() * 3,
            report.rows()[0].at("bytes").at("optimizer").get<int64_t>());
}

TEST(BenchTest, StepRefusesAnUnknownField) {
  Output out;
  Report report("step", "cpu", 1, &out.json, &out.table);
  StepOptions options;
  options.settings = {"precision.gradient=bf16"};
  try {
    RunStep(options, &report);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("precision.gradient"), std::string::npos)
        << error.what();
  }
}

TEST(BenchTest, UpdateRowsCountStateBytes) {
  Output out;
  Report report("optimizer", "cpu", 2, &out.json, &out.table);
  UpdateOptions options;
  options.device.threads = 2;
  options.parameters = 1 << 16;
  options.steps = 3;
  options.warmup = 1;
  options.master = "bf16_sr";
  options.gradients = "bf16";
  RunUpdate(options, &report);
  const double bytes[] = {2.09375, 2.0625, 4, 8};
  ASSERT_EQ(report.rows().size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const auto& row = report.rows()[i];
    EXPECT_EQ(row.at("state_bytes_per_parameter").get<double>(), bytes[i]);
    EXPECT_EQ(row.at("moved_bytes_per_parameter").get<double>(), 2 * bytes[i] + 2 * 2 + 2);
    EXPECT_GT(row.at("update_ms").get<double>(), 0);
  }
}

}  // namespace
}  // namespace coat
