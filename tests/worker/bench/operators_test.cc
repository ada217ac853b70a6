// gemm, ops, layer and memory end to end on llama-tiny.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <sstream>

#include "configs/base/error.h"
#include "worker/bench/element_ops.h"
#include "worker/bench/gemm.h"
#include "worker/bench/layer.h"
#include "worker/bench/memory.h"

namespace coat {
namespace {

struct Output {
  explicit Output(const char* bench) : report(bench, "cpu", 1, &json, &table) {}
  std::ostringstream json, table;
  Report report;
};

StepOptions SmallSteps() {
  StepOptions options;
  options.models = {"llama-tiny"};
  options.shape.sequence_length = 16;
  options.shape.micro_batch = 1;
  options.steps = 1;
  options.warmup = 1;
  return options;
}

TEST(OperatorsTest, GemmRowsCoverRolesAndFormats) {
  Output out("gemm");
  GemmOptions options;
  options.shape.sequence_length = 16;
  options.timing = {1, 1e-5};
  RunGemm(options, &out.report);
  ASSERT_EQ(out.report.rows().size(), 4u * 5 + 4u * 4 + 4);
  std::set<std::string> roles;
  for (const auto& row : out.report.rows()) {
    roles.insert(row.at("role").get<std::string>());
    const double flops =
        2.0 * row.at("m").get<double>() * row.at("n").get<double>() * row.at("k").get<double>();
    EXPECT_NEAR(row.at("tflops").get<double>() * row.at("ms").get<double>() * 1e9, flops,
                flops * 1e-9);
  }
  EXPECT_EQ(roles, (std::set<std::string>{"dgrad", "forward", "forward_fast", "wgrad"}));
}

TEST(OperatorsTest, ElementRowsCountBytes) {
  Output out("ops");
  ElementOptions options;
  options.shape.sequence_length = 16;
  options.timing = {1, 1e-5};
  RunElementOps(options, &out.report);
  ASSERT_GT(out.report.rows().size(), 25u);
  const auto& copy = out.report.rows()[0];
  EXPECT_EQ(copy.at("operator"), "copy");
  EXPECT_EQ(copy.at("copy_share"), 1.0);
  for (const auto& row : out.report.rows()) {
    EXPECT_GT(row.at("bytes").get<int64_t>(), 0) << row;
    EXPECT_GT(row.at("copy_share").get<double>(), 0) << row;
    // [gate | up] read in BF16; codes, group scales and the row maxima written.
    if (row.at("operator") != "gate_up_quantize") continue;
    const int64_t elements = copy.at("bytes").get<int64_t>() / 4;
    EXPECT_EQ(row.at("bytes").get<int64_t>(), elements * 2 + elements * 9 / 8 + 32 * 4);
  }
}

TEST(OperatorsTest, LayerSharesAddUp) {
  Output out("layer");
  StepOptions options = SmallSteps();
  options.recipes = {"coat"};
  RunLayer(options, &out.report);
  double shares = 0, ms = 0;
  std::set<std::string> names;
  for (const auto& row : out.report.rows()) {
    names.insert(row.at("operator").get<std::string>());
    if (!row.contains("share")) continue;
    shares += row.at("share").get<double>();
    ms += row.at("ms").get<double>();
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  const auto& step = out.report.rows().back();
  EXPECT_EQ(step.at("operator"), "step");
  EXPECT_GT(step.at("step_ms").get<double>(), 0);
  EXPECT_NEAR(step.at("operators_ms").get<double>(), ms, ms * 1e-9);
  for (const char* name : {"add_norm", "swiglu", "attention_backward", "adamw"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(OperatorsTest, MemoryOfTheArenaIsThePlan) {
  Output out("memory");
  EXPECT_TRUE(RunMemory(SmallSteps(), &out.report));
  ASSERT_EQ(out.report.rows().size(), 3u);
  for (const auto& row : out.report.rows()) {
    EXPECT_EQ(row.at("planned_bytes"), row.at("arena_bytes"));
    EXPECT_EQ(row.at("planned"), row.at("reserved"));
  }
  Output planned("memory");
  StepOptions options = SmallSteps();
  options.models = {"llama-7b"};
  options.steps = 0;
  EXPECT_TRUE(RunMemory(options, &planned.report));
  EXPECT_FALSE(planned.report.rows()[0].contains("arena_bytes"));
  EXPECT_GT(planned.report.rows()[0].at("planned_bytes").get<int64_t>(), int64_t{50} << 30);
}

TEST(OperatorsTest, ALossThatIsNotFiniteIsAFailure) {
  Output out("step");
  try {
    CheckLoss(std::numeric_limits<double>::quiet_NaN(), 2, "llama-tiny", "coat");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 3 of llama-tiny, recipe coat"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(CheckLoss(5.5, 0, "llama-tiny", "coat"));
}

}  // namespace
}  // namespace coat
