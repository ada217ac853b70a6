#include "worker/trainer/run_report.h"

#include <algorithm>
#include <cstdio>

#include "configs/base/units.h"
#include "configs/spec/words.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::RankExit;
using coatrack::v1::Reason;
using coatrack::v1::StepRecord;
using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLineInterval{2000};

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

int64_t TotalBytes(const StepRecord& record) {
  int64_t total = 0;
  for (const auto& kind : record.memory_planned()) total += kind.bytes();
  return total;
}

}  // namespace

RunReport::RunReport(const coatrack::v1::JobSpec& spec, bool quiet)
    : steps_(spec.train().steps()), quiet_(quiet) {}

void RunReport::Say(const std::string& line) const {
  if (quiet_) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void RunReport::Begin(const coatrack::v1::RankLaunch& launch) {
  Say("job " + launch.job_id() + ", attempt " + std::to_string(launch.attempt()) + ": " +
      std::to_string(launch.world_size()) + " ranks of " + std::to_string(launch.threads()) +
      " threads, on " + (launch.device() == "cpu" ? "the CPU" : "GPUs"));
  if (!launch.resume_dir().empty()) Say("resuming from " + launch.resume_dir());
  if (!launch.init_dir().empty()) Say("weights from " + launch.init_dir());
}

void RunReport::Update(const std::string& rank_dir) {
  while (true) {
    const Result<RecordChunk> chunk = ReadRecords(rank_dir, offset_, 256 * kKiB);
    if (!chunk.ok()) {
      std::fprintf(stderr, "coat-train: %s\n", chunk.status().message().c_str());
      return;
    }
    if (chunk->next_offset == offset_) return;
    offset_ = chunk->next_offset;
    for (const StepRecord& record : chunk->records) {
      if (!IsProgressOnly(record)) Show(record);
    }
  }
}

void RunReport::Show(const StepRecord& record) {
  if (record.step() == 0 && record.memory_planned_size() > 0) {
    Say("memory of a rank: " + FormatBytes(TotalBytes(record)) + ", optimizer state " +
        record.optimizer_state());
  }
  if (record.has_loss()) loss_ = record.loss();
  if (record.tokens() > 0) {
    speed_.Add(record.tokens(), record.step_seconds());
    skipped_ = record.skipped_total();
    const SteadyClock::time_point now = SteadyClock::now();
    if (now - last_line_ >= kLineInterval || record.step() == steps_ || record.skipped()) {
      last_line_ = now;
      const auto left = speed_.SecondsLeft(steps_ - record.step());
      Say("step " + std::to_string(record.step()) + "/" + std::to_string(steps_) + "  loss " +
          (record.has_loss() ? Format("%.4f", record.loss()) : "-") + "  lr " +
          Format("%.2e", record.learning_rate()) + "  norm " + Format("%.3f", record.grad_norm()) +
          "  " + FormatCount(static_cast<int64_t>(speed_.TokensPerSecond())) + " tokens/s  " +
          FormatDurationMs(static_cast<int64_t>(left.value_or(0) * 1000)) + " left" +
          (record.skipped() ? "  SKIPPED" : ""));
    }
  }
  if (record.has_validation_loss()) {
    validation_loss_ = record.validation_loss();
    if (record.step() == 0) first_validation_loss_ = record.validation_loss();
    Say("validation loss " + Format("%.4f", record.validation_loss()) + " at step " +
        std::to_string(record.step()));
  }
  if (!record.checkpoint().empty()) {
    checkpoint_ = record.checkpoint();
    Say("checkpoint " + record.checkpoint() + "  " + FormatBytes(record.checkpoint_bytes()));
  }
}

int RunReport::Finish(const Gang::End& end, const std::string& rank_dir) const {
  const RankExit& exit = end.exit;
  if (exit.reason() == Reason::REASON_STOPPED) {
    Say(exit.message() + "; go on with --resume");
    return 130;
  }
  if (exit.reason() != Reason::REASON_COMPLETED) {
    const std::string output =
        rank_dir.substr(0, rank_dir.rfind('/') + 1) + std::to_string(end.rank) + "/" + kOutputFile;
    std::fprintf(stderr, "coat-train: rank %d failed (%s): %s\noutput: %s\n", end.rank,
                 EnumWord(exit.reason()).c_str(), exit.message().c_str(), output.c_str());
    return 1;
  }
  std::string line = "done: " + std::to_string(exit.last_step()) + " steps";
  if (loss_) line += ", loss " + Format("%.4f", *loss_);
  if (validation_loss_) line += ", validation loss " + Format("%.4f", *validation_loss_);
  if (first_validation_loss_) line += " (" + Format("%.4f", *first_validation_loss_) + " before)";
  if (skipped_ > 0) line += ", " + std::to_string(skipped_) + " steps skipped";
  Say(line);
  if (!checkpoint_.empty()) Say("checkpoint: " + checkpoint_);
  return 0;
}

}  // namespace coat
