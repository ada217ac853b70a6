#include "worker/bench/report.h"

#include <gtest/gtest.h>

#include <sstream>

namespace coat {
namespace {

TEST(ReportTest, Median) {
  EXPECT_EQ(Median({}), 0.0);
  EXPECT_EQ(Median({3, 1, 2}), 2.0);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
}

TEST(ReportTest, JsonLinesAndTable) {
  std::ostringstream json, table;
  Report report("step", "cpu", 2, &json, &table);
  report.Add({{"recipe", "coat"}, {"step_ms", 12.34567}, {"bytes", {{"weights", 1024}}}});
  report.Add({{"recipe", "bf16"}, {"step_ms", 8.0}, {"bytes", {{"weights", 7}}}});
  std::istringstream lines(json.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto row = nlohmann::json::parse(line);
  EXPECT_EQ(row.at("bench"), "step");
  EXPECT_EQ(row.at("device"), "cpu");
  EXPECT_EQ(row.at("threads"), 2);
  EXPECT_EQ(row.at("commit"), BuildCommit());
  EXPECT_EQ(row.at("bytes").at("weights"), 1024);
  report.PrintTable({"recipe", "step_ms", "bytes.weights", "absent"});
  EXPECT_EQ(table.str(),
            "recipe  step_ms  bytes.weights  absent\n"
            "  coat    12.35           1024        \n"
            "  bf16        8              7        \n");
}

}  // namespace
}  // namespace coat
