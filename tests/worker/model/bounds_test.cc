// No operator writes beyond the storage that the plan gives a tensor, padding included.
#include <gtest/gtest.h>

#include <map>

#include "configs/base/units.h"
#include "tests/worker/model/rig.h"
#include "worker/model/declare.h"
#include "worker/optim/optimizer.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

constexpr int64_t kGuard = 4096;
constexpr uint8_t kPattern = 0xA5;

struct Guard {
  std::string behind;
  int64_t offset = 0, bytes = 0;
};

// Gives every tensor, transients too, a place of its own with a guard behind its last byte.
std::vector<Guard> SpreadOut(const JobSpec& job, MemoryPlan* plan) {
  std::map<std::string, int64_t> storage;
  for (const TensorDecl& decl : DeclareModel(WithDefaults(job))) {
    storage[decl.name] = StorageBytes(decl);
  }
  std::vector<Guard> guards;
  plan->total_bytes = 0;
  for (PlannedTensor& planned : plan->tensors) {
    const auto found = storage.find(planned.name);
    const int64_t bytes = found == storage.end() ? planned.bytes : found->second;
    planned.offset = plan->total_bytes;
    planned.bytes = RoundUp(bytes, 256) + kGuard;
    plan->total_bytes += planned.bytes;
    guards.push_back({planned.name, planned.offset + bytes, planned.bytes - bytes});
  }
  return guards;
}

class Bounds : public ::testing::TestWithParam<Recipe> {};

TEST_P(Bounds, NothingIsWrittenBehindATensor) {
  JobSpec job = SmallJob();
  auto* model = job.mutable_model();  // nothing here is a multiple of 16
  model->set_hidden_size(36);
  model->set_heads(6);
  model->set_kv_heads(3);
  model->set_intermediate_size(50);
  model->set_vocab_size(257);
  job.mutable_train()->set_sequence_length(17);
  job.mutable_train()->set_micro_batch(1);
  job.mutable_train()->set_loss_chunk_rows(7);
  job.mutable_precision()->set_recipe(GetParam());
  job.mutable_precision()->set_save(SAVE_MODE_STANDARD);
  std::vector<Guard> guards;
  Rig rig(job, [&](MemoryPlan* plan) { guards = SpreadOut(job, plan); });
  auto* base = rig.arena->Get(rig.plan.tensors.front().name).as<uint8_t>();
  for (const Guard& guard : guards) {
    std::memset(base + guard.offset, kPattern, static_cast<size_t>(guard.bytes));
  }
  const std::unique_ptr<Optimizer> optimizer =
      CreateOptimizer(rig.spec, rig.model.get(), rig.ops.get(), rig.arena.get());
  rig.model->SetTelemetry(true);
  rig.Step(rig.Random(61));
  EXPECT_TRUE(rig.Finite());
  optimizer->Step(1, rig.model->nonfinite(), rig.arena->Get(kBatchInverseCount));
  rig.model->WeightsUpdated();
  rig.model->WeightsChanged();
  rig.Evaluate(rig.Random(62));
  for (const Guard& guard : guards) {
    for (int64_t i = 0; i < guard.bytes; ++i) {
      ASSERT_EQ(base[guard.offset + i], kPattern)
          << "byte " << i << " behind " << guard.behind << " was overwritten";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bounds, ::testing::Values(RECIPE_BF16, RECIPE_FP8, RECIPE_COAT),
                         [](const auto& info) { return Recipe_Name(info.param); });

}  // namespace
}  // namespace coat
