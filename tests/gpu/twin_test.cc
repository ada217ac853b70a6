// One microbatch on the GPU against the CPU: loss and every gradient, all recipes.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/gpu/perturb.h"
#include "tests/support/gpu.h"
#include "tests/worker/model/rig.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

struct Case {
  std::string name;
  int64_t layers;
  Recipe recipe;
  SaveMode save;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t layers : {1, 4}) {
    const std::string size = layers == 1 ? "Block" : "Model";
    cases.push_back({size + "Bf16", layers, RECIPE_BF16, SAVE_MODE_STANDARD});
    cases.push_back({size + "Fp8", layers, RECIPE_FP8, SAVE_MODE_STANDARD});
    cases.push_back({size + "CoatStandard", layers, RECIPE_COAT, SAVE_MODE_STANDARD});
    cases.push_back({size + "CoatLean", layers, RECIPE_COAT, SAVE_MODE_LEAN});
  }
  return cases;
}

class Twin : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { COAT_NEEDS_GPU(); }

  static JobSpec Job() {
    JobSpec spec = SmallJob();
    auto* model = spec.mutable_model();
    model->set_layers(GetParam().layers);
    model->set_hidden_size(256);
    model->set_heads(4);
    model->set_kv_heads(2);
    model->set_intermediate_size(688);
    model->set_vocab_size(1000);
    model->set_init_std(0.05);
    spec.mutable_train()->set_sequence_length(128);
    spec.mutable_train()->set_micro_batch(4);
    spec.mutable_train()->set_global_batch(4);
    spec.mutable_precision()->set_recipe(GetParam().recipe);
    spec.mutable_precision()->set_save(GetParam().save);
    return spec;
  }
};

// Both devices round at the same places, so they differ where a sum in another order falls on the
// other side of a rounding edge. Moving every weight by one BF16 ulp moves far more than that.
TEST_P(Twin, LossAndGradientsAreNearerThanOneUlpOfTheWeights) {
  Rig cpu(Job());
  Rig gpu(Job(), nullptr, "cuda:0");
  Rig moved(Job());
  gpu.CopyMasters(cpu);
  moved.CopyMasters(cpu);
  PerturbWeights(3, moved.ops.get(), moved.model.get());
  const HostBatch batch = cpu.Random(1);
  for (Rig* rig : {&cpu, &gpu, &moved}) rig->Step(batch);
  EXPECT_TRUE(gpu.Finite());
  // Rounding of 2^-9 averages out over 512 tokens. In FP8 it also moves 2^-9 / 2^-4 of the codes by
  // a step of 2^-4, which is 2^-6.5 in the mean square.
  const double bound = GetParam().recipe == RECIPE_BF16 ? 0x1p-12 : 0x1p-9;
  EXPECT_NEAR(gpu.Nll(), cpu.Nll(), bound * cpu.Nll());
  for (size_t i = 0; i < cpu.model->parameters().size(); ++i) {
    const std::vector<float> want = cpu.Fetch(cpu.model->parameters()[i].grad);
    const double error = RelativeError(gpu.Fetch(gpu.model->parameters()[i].grad), want);
    const double ulp = RelativeError(moved.Fetch(moved.model->parameters()[i].grad), want);
    EXPECT_LE(error, ulp) << cpu.model->parameters()[i].name;
    RecordProperty(cpu.model->parameters()[i].name, std::to_string(error / ulp));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Twin, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace coat
