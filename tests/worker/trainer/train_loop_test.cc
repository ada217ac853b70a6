#include "worker/trainer/train_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <map>

#include "tests/support/process.h"
#include "tests/worker/trainer/tiny_world.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;
using coatrack::v1::StepRecord;
using ::testing::HasSubstr;
using testing::HookedModel;
using testing::MaskData;
using testing::RankResult;
using testing::RunWorld;
using testing::TempDir;
using testing::TinyJob;
using testing::WorldOptions;

class TrainLoopTest : public ::testing::Test {
 protected:
  TrainLoopTest() : spec_(TinyJob(dir_.path())) { options_.data_root = dir_.path(); }

  std::vector<RankResult> Run(int world_size = 1) {
    options_.world_size = world_size;
    std::vector<RankResult> results = RunWorld(spec_, options_);
    for (const RankResult& result : results) EXPECT_EQ(result.message, "");
    return results;
  }

  TempDir dir_;
  JobSpec spec_;
  WorldOptions options_;
};

TEST_F(TrainLoopTest, TheSameJobGivesTheSameBits) {
  const RankResult first = Run()[0];
  const RankResult second = Run()[0];
  EXPECT_EQ(first.losses().size(), 6u);
  EXPECT_EQ(first.losses(), second.losses());
  EXPECT_EQ(first.weights_hash, second.weights_hash);
  EXPECT_EQ(first.moments, second.moments);
}

TEST_F(TrainLoopTest, LossFalls) {
  spec_.mutable_train()->set_steps(60);
  const RankResult result = Run()[0];
  // Untrained: log 257 = 5.55 nats.
  EXPECT_NEAR(*result.loss_of(1), std::log(257.0), 0.1);
  EXPECT_LT(*result.loss_of(60), 4.0);
  EXPECT_LT(result.record(60).validation_loss(), result.record(0).validation_loss() - 1.0);
}

TEST_F(TrainLoopTest, RanksHoldTheSameWeightsAndAgreeWithOneRank) {
  const RankResult one = Run(1)[0];
  for (const int world_size : {2, 4}) {
    const std::vector<RankResult> ranks = Run(world_size);
    for (const RankResult& rank : ranks) {
      EXPECT_EQ(rank.weights_hash, ranks[0].weights_hash);
      EXPECT_EQ(rank.moments, ranks[0].moments);
      EXPECT_EQ(rank.losses(), ranks[0].losses());
      EXPECT_EQ(rank.state.position.index, one.state.position.index);
    }
    // Step 1: four FP32 sums in another order. Later: rounding differences that FP8 codes enlarge.
    const double eps = std::numeric_limits<float>::epsilon();
    EXPECT_NEAR(*ranks[0].loss_of(1), *one.loss_of(1), 4 * eps * *one.loss_of(1));
    EXPECT_NEAR(*ranks[0].loss_of(6), *one.loss_of(6), 0.01 * *one.loss_of(6));
  }
}

TEST_F(TrainLoopTest, StandardAndLeanGiveTheSameBits) {
  spec_.mutable_precision()->set_save(coatrack::v1::SAVE_MODE_LEAN);
  const RankResult lean = Run()[0];
  spec_.mutable_precision()->set_save(coatrack::v1::SAVE_MODE_STANDARD);
  const RankResult standard = Run()[0];
  EXPECT_EQ(lean.losses(), standard.losses());
  EXPECT_EQ(lean.weights_hash, standard.weights_hash);
}

TEST_F(TrainLoopTest, NanOnOneRankSkipsOnAllAndKeepsEveryBit) {
  spec_.mutable_train()->set_steps(2);
  const RankResult before = Run(2)[0];
  spec_.mutable_train()->set_steps(3);
  for (const bool by_flag : {false, true}) {
    options_.after_build = [by_flag](Session* session) {
      const bool poison = session->rank() == 1;
      session->model = std::make_unique<HookedModel>(
          std::move(session->model), [=](Model* model, int64_t, int64_t resets) {
            if (!poison || resets != 4) return;  // evaluation, step 1, 2, 3
            if (by_flag) {
              *model->nonfinite().as<int32_t>() = 1;
            } else {
              model->parameters()[2].grad.as<float>()[5] = NAN;
            }
          });
    };
    for (const RankResult& rank : Run(2)) {
      EXPECT_TRUE(rank.record(3).skipped());
      EXPECT_EQ(rank.record(3).skipped_total(), 1);
      EXPECT_EQ(rank.record(3).applied_steps(), 2);
      EXPECT_FALSE(rank.record(2).skipped());
      EXPECT_EQ(rank.state.step, 3);
      EXPECT_EQ(rank.state.applied_steps, 2);
      EXPECT_EQ(rank.weights_hash, before.weights_hash);
      EXPECT_EQ(rank.moments, before.moments);
    }
  }
}

TEST_F(TrainLoopTest, EndlessNansEndTheRun) {
  spec_.mutable_train()->set_steps(150);
  spec_.mutable_train()->set_telemetry_every_steps(0);  // a sampled step is read at once
  options_.world_size = 2;
  for (const int64_t ahead : {0, 1}) {
    options_.after_build = [ahead](Session* session) {
      session->steps_ahead = ahead;
      session->model = std::make_unique<HookedModel>(
          std::move(session->model),
          [](Model* model, int64_t, int64_t) { *model->nonfinite().as<int32_t>() = 1; });
    };
    for (const RankResult& rank : RunWorld(spec_, options_)) {
      EXPECT_EQ(rank.code, Code::kNumeric);
      EXPECT_THAT(rank.message, HasSubstr("step 100"));
      EXPECT_THAT(rank.message, HasSubstr("optimizer.lr"));
      EXPECT_EQ(rank.state.step, 100 + ahead);
      EXPECT_EQ(rank.state.skipped_total, 100);
    }
  }
}

// Without what depends on when it was written.
std::vector<std::string> Comparable(std::vector<StepRecord> records) {
  std::vector<std::string> texts;
  for (StepRecord& record : records) {
    record.clear_time();
    record.clear_step_seconds();
    record.clear_all_reduce_seconds();
    record.clear_all_reduce_wait_seconds();
    record.clear_collective_sequence();
    record.clear_memory();
    record.clear_checkpoint();
    record.clear_checkpoint_seconds();
    record.clear_checkpoint_bytes();
    texts.push_back(record.ShortDebugString());
  }
  return texts;
}

TEST_F(TrainLoopTest, ResultsReadAStepLateGiveTheSameRecords) {
  spec_.mutable_train()->set_steps(13);
  spec_.mutable_train()->set_eval_every_steps(5);
  spec_.mutable_train()->set_telemetry_every_steps(7);
  spec_.mutable_checkpoint()->set_every_steps(4);
  std::vector<RankResult> results[2];
  // How far each rank had come in its steps when the record of a step arrived.
  std::atomic<int64_t> resets{0};
  std::map<int64_t, int64_t> begun;
  options_.on_record = [&](int rank, const StepRecord& record, std::atomic<bool>*) {
    if (rank == 0 && record.tokens() > 0) begun[record.step()] = resets;
  };
  for (const int64_t ahead : {0, 1}) {
    options_.checkpoint_dir = dir_.file("checkpoints" + std::to_string(ahead));
    options_.after_build = [&resets, ahead](Session* session) {
      session->steps_ahead = ahead;
      if (session->rank() != 0) return;
      session->model = std::make_unique<HookedModel>(
          std::move(session->model),
          [&resets, session](Model*, int64_t, int64_t) { resets = session->state.step; });
    };
    results[ahead] = Run(2);
    for (const int64_t step : {1, 4, 5, 7, 8, 10, 12, 13}) EXPECT_EQ(begun[step], step);
    for (const int64_t step : {2, 3, 6, 9, 11}) EXPECT_EQ(begun[step], step + ahead);
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(Comparable(results[1][rank].records), Comparable(results[0][rank].records));
    EXPECT_EQ(results[1][rank].weights_hash, results[0][rank].weights_hash);
    EXPECT_EQ(results[1][rank].state.tokens_total, results[0][rank].state.tokens_total);
  }
}

TEST_F(TrainLoopTest, FullyMaskedBatchIsSkippedWithoutANumber) {
  spec_.mutable_train()->set_steps(1);
  const RankResult before = Run()[0];
  spec_.mutable_train()->set_steps(2);
  options_.after_build = [](Session* session) {
    MaskData(session, [](int64_t epoch, int64_t index, Sample* sample) {
      if (epoch == 0 && index >= 4) std::fill(sample->targets.begin(), sample->targets.end(), -1);
    });
  };
  const RankResult result = Run(2)[0];
  EXPECT_FALSE(result.record(1).skipped());
  EXPECT_TRUE(result.record(2).skipped());
  EXPECT_FALSE(result.record(2).has_loss());
  EXPECT_EQ(result.state.applied_steps, 1);
  EXPECT_EQ(result.state.step, 2);
  EXPECT_EQ(*result.loss_of(1), *before.loss_of(1));
}

// Sum of nll and number of valid targets of every microbatch of the first step, without training.
struct FirstStep {
  double nll = 0;
  int64_t targets = 0;
};
FirstStep Reference(const JobSpec& spec, const WorldOptions& options) {
  FirstStep first;
  testing::WithSessions(spec, options, [&](Session* session) {
    DataPosition position;
    const StepBatch batch = session->feeder->Next(&position);
    first.targets = batch.valid_targets;
    for (int64_t i = 0; i < 4; ++i) {
      session->model->ResetStep();
      session->model->EvaluateMicrobatch(session->feeder->Upload(batch.samples, i));
      first.nll += static_cast<double>(*session->model->nll().as<float>());
    }
  });
  return first;
}

TEST_F(TrainLoopTest, LossIsPerTokenWhenMasksAreUneven) {
  spec_.mutable_train()->set_steps(1);
  options_.after_build = [](Session* session) {
    // Sequence 0 keeps one target, sequence 1 none, sequences 2 and 3 all.
    MaskData(session, [](int64_t, int64_t index, Sample* sample) {
      if (index > 1) return;
      const auto keep = sample->targets.begin() + (index == 0 ? 1 : 0);
      std::fill(keep, sample->targets.end(), -1);
    });
  };
  const FirstStep reference = Reference(spec_, options_);
  EXPECT_EQ(reference.targets, 1 + 0 + 16 + 16);
  const double mean = reference.nll / static_cast<double>(reference.targets);
  for (const int world_size : {1, 2, 4}) {
    const RankResult result = Run(world_size)[0];
    EXPECT_FALSE(result.record(1).skipped());
    EXPECT_TRUE(std::isfinite(result.record(1).grad_norm()));
    EXPECT_NEAR(*result.loss_of(1), mean, 4 * std::numeric_limits<float>::epsilon() * mean);
  }
}

TEST_F(TrainLoopTest, FewerValidationSequencesThanRanks) {
  spec_.mutable_train()->set_eval_sequences(1);
  const std::vector<RankResult> four = Run(4);
  const std::vector<RankResult> one = Run(1);
  const double loss = one[0].record(0).validation_loss();
  for (const RankResult& rank : four) EXPECT_EQ(rank.record(0).validation_loss(), loss);
}

TEST_F(TrainLoopTest, NoValidationDataMeansNoValidationLoss) {
  spec_.mutable_data()->set_validation_fraction(0);
  const RankResult result = Run(2)[0];
  EXPECT_FALSE(result.record(0).has_validation_loss());
  EXPECT_FALSE(result.record(6).has_validation_loss());
  EXPECT_EQ(result.losses().size(), 6u);
}

TEST_F(TrainLoopTest, EvaluatesWhenAskedAndChangesNothing) {
  const RankResult without = Run()[0];
  spec_.mutable_train()->set_eval_every_steps(2);
  const RankResult with = Run()[0];
  EXPECT_EQ(with.losses(), without.losses());
  EXPECT_EQ(with.weights_hash, without.weights_hash);
  for (const int64_t step : {0, 2, 4, 6}) EXPECT_TRUE(with.record(step).has_validation_loss());
  for (const int64_t step : {1, 3, 5}) EXPECT_FALSE(with.record(step).has_validation_loss());
}

TEST_F(TrainLoopTest, DifferentWeightsAreNoticed) {
  options_.world_size = 2;
  options_.after_build = [](Session* session) {
    if (session->rank() == 1) session->model->parameters()[1].master.as<float>()[0] += 1;
  };
  for (const RankResult& rank : RunWorld(spec_, options_)) {
    EXPECT_EQ(rank.code, Code::kInternal);
    EXPECT_THAT(rank.message, HasSubstr("step 0: the weights of rank 1 differ"));
  }
}

TEST_F(TrainLoopTest, FailureOfOneRankEndsTheOthers) {
  options_.world_size = 2;
  options_.on_record = [](int rank, const StepRecord& record, std::atomic<bool>*) {
    if (rank == 1 && record.step() == 2) throw Error(Code::kIo, "disk of rank 1");
  };
  const std::vector<RankResult> ranks = RunWorld(spec_, options_);
  EXPECT_EQ(ranks[1].code, Code::kIo);
  EXPECT_EQ(ranks[0].code, Code::kCollective);
  EXPECT_THAT(ranks[0].message, HasSubstr("rank 1"));
}

TEST_F(TrainLoopTest, UtilisationNeedsAKnownDevice) {
  spec_.mutable_train()->set_steps(1);
  EXPECT_FALSE(Run(2)[0].record(1).has_mfu_ratio());
  options_.after_build = [](Session* session) { session->peak_flops = 1e12; };
  const StepRecord record = Run(2)[0].record(1);
  const double flops = TrainFlopsPerToken(spec_) * 64;  // tokens of the step
  EXPECT_DOUBLE_EQ(record.mfu_ratio(), flops / (record.step_seconds() * 2 * 1e12));
}

TEST_F(TrainLoopTest, RecordsCarryTelemetryAndMemory) {
  spec_.mutable_train()->set_telemetry_every_steps(3);
  const RankResult result = Run(2)[1];
  for (const int64_t step : {1, 3, 6}) {
    const StepRecord& record = result.record(step);
    std::vector<std::string> operands;
    for (const auto& health : record.health()) {
      operands.push_back(health.operand());
      EXPECT_GT(health.relative_error(), 0) << health.operand();
      EXPECT_LT(health.relative_error(), 0.1) << health.operand();
    }
    EXPECT_THAT(operands, ::testing::ElementsAre("activation", "weight", "gradient", "group",
                                                 "moment_m", "moment_v"));
    EXPECT_GT(record.expansion_k_m().counts_size(), 0);
    EXPECT_EQ(record.optimizer_state(), "fp8_dre e4m3/e4m3");
    ASSERT_EQ(record.memory_size(), kMemoryKinds + 1);
    for (int kind = 0; kind < kMemoryKinds; ++kind) {
      EXPECT_EQ(record.memory(kind).bytes(), record.memory_planned(kind).bytes());
    }
    EXPECT_EQ(record.memory(kMemoryKinds).kind(), "other");
  }
  EXPECT_EQ(result.record(2).health_size(), 0);
  EXPECT_EQ(result.record(2).memory_size(), 0);
  const StepRecord& first = result.record(1);
  EXPECT_EQ(first.tokens(), 64);
  EXPECT_EQ(result.record(6).tokens_total(), 6 * 64);
  EXPECT_EQ(first.learning_rate(), 3e-3);
  EXPECT_GT(first.grad_norm(), 0);
  EXPECT_GT(first.update_to_weight_ratio(), 0);
  EXPECT_GT(first.step_seconds(), 0);
  EXPECT_EQ(first.rank(), 1);
  EXPECT_GT(result.record(6).collective_sequence(), first.collective_sequence());
  EXPECT_EQ(result.records.back().phase(), coatrack::v1::PHASE_DONE);
  EXPECT_EQ(result.records.back().weights_hash(), result.weights_hash);
}

}  // namespace
}  // namespace coat
