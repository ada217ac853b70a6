// A tiny job trained by ranks that are threads of this process.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/error.h"
#include "worker/trainer/session.h"
#include "worker/trainer/train_loop.h"

namespace coat::testing {

// Recipe coat, two layers of 32, four sequences of 16 bytes a step, constant learning rate,
// defaults applied. `data_root` gets a small corpus.
coatrack::v1::JobSpec TinyJob(const std::string& data_root);

// Records of one rank; may ask for a stop or run a hook when one arrives.
class MemorySink final : public RecordSink {
 public:
  void Write(const coatrack::v1::StepRecord& record) override;
  std::vector<coatrack::v1::StepRecord> records() const;
  std::function<void(const coatrack::v1::StepRecord&)> on_write;

 private:
  mutable std::mutex mutex_;
  std::vector<coatrack::v1::StepRecord> records_;
};

struct RankResult {
  std::optional<Outcome> outcome;
  Code code = Code::kOk;  // of the Error that ended the rank
  std::string message;
  std::vector<coatrack::v1::StepRecord> records;  // progress records left out
  std::string weights_hash;
  TrainState state;
  std::vector<std::vector<char>> moments;  // bytes of every state tensor

  std::vector<double> losses() const;  // of steps that have one, in order
  std::optional<double> loss_of(int64_t step) const;
  const coatrack::v1::StepRecord& record(int64_t step) const;  // the one of the step itself
};

struct WorldOptions {
  int world_size = 1;
  int attempt = 1;
  std::string data_root;
  std::string checkpoint_dir;
  std::string resume_dir;
  std::string init_dir;
  std::function<void(coatrack::v1::RankLaunch*)> change_launch;  // for one rank
  std::function<void(Session*)> after_build;  // on each rank's thread; must be thread-safe
  // Called with rank and record; setting `stop` asks that rank to stop.
  std::function<void(int rank, const coatrack::v1::StepRecord&, std::atomic<bool>* stop)> on_record;
};

// Trains to the end or to an error.
std::vector<RankResult> RunWorld(const coatrack::v1::JobSpec& spec, const WorldOptions& options);

// Builds the sessions and calls `body` with each on its rank's thread.
void WithSessions(const coatrack::v1::JobSpec& spec, const WorldOptions& options,
                  const std::function<void(Session*)>& body);

// A model that does as `inner` and then calls a hook, with the number of the microbatch since the
// last ResetStep and the number of ResetSteps so far. Gradients are ready behind the hook.
class HookedModel final : public Model {
 public:
  using Hook = std::function<void(Model* inner, int64_t microbatch, int64_t resets)>;
  HookedModel(std::unique_ptr<Model> inner, Hook hook)
      : inner_(std::move(inner)), hook_(std::move(hook)) {}
  const std::vector<Parameter>& parameters() const override { return inner_->parameters(); }
  void Initialize(uint64_t seed) override { inner_->Initialize(seed); }
  void WeightsChanged() override { inner_->WeightsChanged(); }
  void WeightsUpdated() override { inner_->WeightsUpdated(); }
  void TrainMicrobatch(const Batch& batch, const Tensor& inverse_count,
                       bool first_of_step) override {
    inner_->TrainMicrobatch(batch, inverse_count, first_of_step);
    hook_(inner_.get(), microbatch_++, resets_);
    if (ready_) ready_(0, static_cast<int64_t>(parameters().size()));
  }
  void WatchGradients(GradientsReady ready) override { ready_ = std::move(ready); }
  void EvaluateMicrobatch(const Batch& batch) override { inner_->EvaluateMicrobatch(batch); }
  Tensor nll() const override { return inner_->nll(); }
  Tensor nonfinite() const override { return inner_->nonfinite(); }
  void ResetStep() override {
    inner_->ResetStep();
    microbatch_ = 0;
    ++resets_;
  }
  void SetTelemetry(bool on) override { inner_->SetTelemetry(on); }
  Tensor health(Operand operand) const override { return inner_->health(operand); }

 private:
  std::unique_ptr<Model> inner_;
  Hook hook_;
  GradientsReady ready_;
  int64_t microbatch_ = 0;
  int64_t resets_ = 0;
};

// A data set whose targets are changed by a function of (epoch, index); validation is kept.
class MaskedDataset final : public Dataset {
 public:
  using Mask = std::function<void(int64_t epoch, int64_t index, Sample*)>;
  MaskedDataset(std::unique_ptr<Dataset> inner, Mask mask)
      : inner_(std::move(inner)), mask_(std::move(mask)) {}
  int64_t train_samples() const override { return inner_->train_samples(); }
  int64_t validation_samples() const override { return inner_->validation_samples(); }
  int64_t vocab_size() const override { return inner_->vocab_size(); }
  int64_t tokens() const override { return inner_->tokens(); }
  Sample Train(int64_t epoch, int64_t index) const override {
    Sample sample = inner_->Train(epoch, index);
    mask_(epoch, index, &sample);
    return sample;
  }
  Sample Validation(int64_t index) const override { return inner_->Validation(index); }
  const coatrack::v1::DataManifest& manifest() const override { return inner_->manifest(); }

 private:
  std::unique_ptr<Dataset> inner_;
  Mask mask_;
};

// Puts a masked data set under a session that is already built.
void MaskData(Session* session, MaskedDataset::Mask mask);

}  // namespace coat::testing
