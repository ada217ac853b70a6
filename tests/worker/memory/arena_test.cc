#include "worker/memory/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "configs/base/units.h"
#include "tests/worker/memory/jobs.h"
#include "worker/memory/host_limits.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

JobSpec Tiny() {
  JobSpec spec = Job("llama-tiny", 1, 33);
  spec.mutable_model()->set_layers(3);
  spec.mutable_model()->set_hidden_size(72);
  spec.mutable_model()->set_heads(6);
  spec.mutable_model()->set_kv_heads(3);
  spec.mutable_model()->set_head_size(12);
  spec.mutable_model()->set_intermediate_size(200);
  return spec;
}

struct Choice {
  Recipe recipe;
  SaveMode save;
  Fp8Weights fp8_weights;
  GradientFormat gradients;
  MasterWeights master;
  OptimizerState state;
  bool tied, mixed;
};

std::vector<Choice> AllChoices() {
  std::vector<Choice> all;
  for (const Recipe recipe : {RECIPE_BF16, RECIPE_FP8, RECIPE_COAT}) {
    for (const SaveMode save : {SAVE_MODE_STANDARD, SAVE_MODE_LEAN}) {
      for (const Fp8Weights weights : {FP8_WEIGHTS_PER_LAYER, FP8_WEIGHTS_RESIDENT}) {
        for (const bool other : {false, true}) {
          for (const OptimizerState state : {OPTIMIZER_STATE_FP8_DRE, OPTIMIZER_STATE_FP8,
                                             OPTIMIZER_STATE_BF16, OPTIMIZER_STATE_FP32}) {
            all.push_back(
                {recipe, save, weights, other ? GRADIENT_FORMAT_BF16 : GRADIENT_FORMAT_FP32,
                 other ? MASTER_WEIGHTS_BF16_SR : MASTER_WEIGHTS_FP32, state, other, !other});
          }
        }
      }
    }
  }
  return all;
}

JobSpec Choose(const Choice& choice) {
  JobSpec spec = Tiny();
  spec.mutable_model()->set_tie_embeddings(choice.tied);
  auto* precision = spec.mutable_precision();
  precision->set_recipe(choice.recipe);
  precision->set_save(choice.save);
  precision->set_fp8_weights(choice.fp8_weights);
  precision->set_gradients(choice.gradients);
  precision->set_master(choice.master);
  precision->set_optimizer_state(choice.state);
  if (choice.mixed) {
    auto* first = precision->add_overrides();
    first->set_layer("first");
    first->set_recipe(RECIPE_FP8);
    auto* last = precision->add_overrides();
    last->set_layer("last");
    last->set_recipe(RECIPE_BF16);
  }
  return WithDefaults(spec);
}

TEST(Arena, ReservesThePlanToTheByteForEveryRecipeAndOption) {
  for (const Choice& choice : AllChoices()) {
    const JobSpec spec = Choose(choice);
    SCOPED_TRACE(spec.precision().ShortDebugString());
    const MemoryPlan plan = MakePlan(spec, 0, 1, DeviceType::kCpu);
    const Arena arena(plan, "cpu");
    EXPECT_EQ(arena.bytes(), plan.total_bytes);
    EXPECT_EQ(arena.bytes_by_kind(), plan.bytes_by_kind);
    int64_t sum = 0;
    for (const int64_t bytes : arena.bytes_by_kind()) sum += bytes;
    EXPECT_EQ(sum, plan.total_bytes);
  }
}

TEST(Arena, EveryTensorLiesInsideAndIsWritable) {
  const MemoryPlan plan = MakePlan(WithDefaults(Tiny()), 0, 1, DeviceType::kCpu);
  const Arena arena(plan, "cpu");
  for (const PlannedTensor& planned : plan.tensors) {
    const Tensor tensor = arena.Get(planned.name);
    EXPECT_EQ(tensor.dtype, planned.dtype);
    EXPECT_EQ(tensor.ld, planned.ld);
    EXPECT_EQ(tensor.rank, static_cast<int>(planned.shape.size()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data) % 256, 0u) << planned.name;
    if (planned.bytes == 0) continue;
    EXPECT_LE(tensor.bytes(), planned.bytes) << planned.name;
    EXPECT_LT(planned.bytes - tensor.bytes(), 256 + 15 * tensor.ld * 4) << planned.name;
    const auto* first = tensor.as<uint8_t>();
    for (int64_t i = 0; i < planned.bytes; ++i) {
      ASSERT_EQ(first[i], 0) << planned.name << " does not start as zeros, or overlaps another";
    }
    std::memset(tensor.data, 0x5A, static_cast<size_t>(planned.bytes));
  }
}

TEST(Arena, FindsByName) {
  const MemoryPlan plan = MakePlan(WithDefaults(Tiny()), 0, 1, DeviceType::kCpu);
  const Arena arena(plan, "cpu");
  EXPECT_TRUE(arena.Find("no.such.tensor").empty());
  try {
    arena.Get("no.such.tensor");
    FAIL() << "a tensor that is not in the plan";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInternal);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("no.such.tensor"));
  }
}

TEST(Arena, RefusesMoreThanTheHostHasAndSaysHowMuch) {
  MemoryPlan plan;
  plan.total_bytes = RoundUp(AvailableHostBytes() + 64 * kGiB, 256);
  try {
    const Arena arena(plan, "cpu");
    FAIL() << "reserved " << plan.total_bytes << " bytes";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kOutOfDeviceMemory);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(std::to_string(plan.total_bytes)));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("are available"));
  }
}

TEST(Arena, RefusesATensorOutsideThePlan) {
  MemoryPlan plan;
  plan.total_bytes = 256;
  PlannedTensor outside;
  outside.name = "outside";
  outside.shape = {512};
  outside.ld = 512;
  outside.bytes = 2048;
  plan.tensors.push_back(outside);
  EXPECT_THROW(Arena(plan, "cpu"), Error);
}

TEST(Arena, RefusesAnUnknownDevice) {
  try {
    const Arena arena(MemoryPlan(), "abacus");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kFailedPrecondition);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("abacus"));
  }
}

}  // namespace
}  // namespace coat
