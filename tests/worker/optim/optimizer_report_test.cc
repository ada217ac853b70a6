// What the optimizer reports about itself: its state, k, the health of the moments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/worker/optim/tiny_engine.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

TEST(OptimizerReportTest, SaysWhatRuns) {
  auto spec = TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32);
  spec.mutable_precision()->set_moment_formats(coatrack::v1::MOMENT_FORMATS_E4M3_E5M2);
  EXPECT_EQ(Engine(spec).optimizer().StateName(), "fp8_dre e4m3/e5m2");
  const auto fp8 = TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8, coatrack::v1::MASTER_WEIGHTS_FP32);
  Engine plain(fp8);
  EXPECT_EQ(plain.optimizer().StateName(), "fp8 e4m3/e4m3");
  EXPECT_TRUE(plain.optimizer().ExpansionK(false).counts.empty());
}

// What the sample says is stored is what the update stores.
TEST(OptimizerReportTest, MomentHealth) {
  for (const auto formats :
       {coatrack::v1::MOMENT_FORMATS_E4M3_E4M3, coatrack::v1::MOMENT_FORMATS_E4M3_E5M2}) {
    auto spec = TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32);
    spec.mutable_precision()->set_moment_formats(formats);
    Engine engine(spec);
    engine.Step(1);
    engine.optimizer().SetTelemetry(true);
    engine.Step(2);
    const MomentHealth health = engine.optimizer().moment_health();
    float a_min = 0, a_max = 0;
    int64_t groups = 0, elements = 0, nonzero = 0;
    for (const StateTensor& state : engine.optimizer().StateTensors()) {
      if (state.name.ends_with(".m.values")) {
        const int64_t all = (state.tensor.numel() + 127) / 128;
        const int64_t sampled = std::min<int64_t>(16, all), first = (all - sampled) / 2;
        const int64_t end = std::min(state.tensor.numel(), (first + sampled) * 128);
        elements += end - first * 128;
        for (int64_t i = first * 128; i < end; ++i) {
          nonzero += (state.tensor.as<const uint8_t>()[i] & 0x7F) != 0;
        }
      }
      if (!state.name.ends_with(".m.amax")) continue;
      const int64_t all = state.tensor.numel(), sampled = std::min<int64_t>(16, all);
      for (int64_t g = (all - sampled) / 2; g < (all + sampled) / 2; ++g) {
        const float a = state.tensor.as<const float>()[g];
        if (a == 0) continue;
        a_min = groups == 0 ? a : std::min(a_min, a);
        a_max = std::max(a_max, a);
        ++groups;
      }
    }
    EXPECT_EQ(health.m[0], static_cast<float>(elements));
    EXPECT_EQ(health.m[1], static_cast<float>(nonzero));
    EXPECT_GE(health.m[2], static_cast<float>(groups));  // the largest of each group
    EXPECT_EQ(health.m[3], 0.0f);                        // nothing is flushed
    EXPECT_EQ(health.v[3], 0.0f);
    EXPECT_EQ(health.m[6], a_min);
    EXPECT_EQ(health.m[7], a_max);
    // Half a step of E4M3 is 1/16 at most, expanded or not much less with k near 1.
    EXPECT_GT(std::sqrt(health.m[4] / health.m[5]), 1e-3);
    EXPECT_LT(std::sqrt(health.m[4] / health.m[5]), 0.0625);
    EXPECT_LT(std::sqrt(health.v[4] / health.v[5]), 0.125);
  }
  Engine fp32(TinyJob(coatrack::v1::OPTIMIZER_STATE_FP32, coatrack::v1::MASTER_WEIGHTS_FP32));
  fp32.optimizer().SetTelemetry(true);
  fp32.Step(1);
  EXPECT_EQ(fp32.optimizer().moment_health().m, HealthCounters{});
}

TEST(OptimizerReportTest, BucketsOfK) {
  Engine engine(TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32));
  const uint16_t k16[] = {1, 2, 3, 15, 16, 17, 32, 1024};
  for (const StateTensor& state : engine.optimizer().StateTensors()) {
    if (state.name == "embedding.v.k16") std::copy_n(k16, 8, state.tensor.as<uint16_t>());
    if (state.name == "embedding.v.amax") std::fill_n(state.tensor.as<float>(), 8, 1.0f);
  }
  // k = 1/16 | 1/8 | 3/16 to 1/4 | - | 15/16 and 1 | 17/16 to 2 | - | - | - | - | 64 | above
  EXPECT_EQ(engine.optimizer().ExpansionK(true).counts,
            (std::vector<int64_t>{1, 1, 1, 0, 2, 2, 0, 0, 0, 0, 1, 0}));
}

TEST(OptimizerReportTest, HistogramOfMeasuredK) {
  Engine engine(TinyJob(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MASTER_WEIGHTS_FP32));
  const auto total = [&](bool second_moment) {
    const KHistogram histogram = engine.optimizer().ExpansionK(second_moment);
    EXPECT_EQ(histogram.bounds.front(), 1.0 / 16);
    EXPECT_EQ(histogram.bounds.back(), 64.0);
    EXPECT_EQ(histogram.counts.size(), histogram.bounds.size() + 1);
    return std::accumulate(histogram.counts.begin(), histogram.counts.end(), int64_t{0});
  };
  EXPECT_EQ(total(false), 0);  // all groups are zero
  engine.Step(1);
  int64_t groups = 0;
  for (const StateTensor& state : engine.optimizer().StateTensors()) {
    if (!state.name.ends_with(".v.k16")) continue;
    groups += state.tensor.numel();
  }
  EXPECT_GT(total(true), 0);
  EXPECT_LE(total(true), groups);
  // k of v is about half that of m: its range is twice as wide in log2.
  const auto mean = [&](bool second_moment) {
    const KHistogram histogram = engine.optimizer().ExpansionK(second_moment);
    double sum = 0, count = 0;
    for (size_t i = 0; i < histogram.bounds.size(); ++i) {
      sum += std::log2(histogram.bounds[i]) * static_cast<double>(histogram.counts[i]);
      count += static_cast<double>(histogram.counts[i]);
    }
    return sum / count;
  };
  EXPECT_NEAR(mean(false) - mean(true), 1.0, 0.25);
}

}  // namespace
}  // namespace coat
