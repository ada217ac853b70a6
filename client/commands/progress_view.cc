#include "client/commands/progress_view.h"

#include <algorithm>
#include <ostream>

#include "client/render/job_view.h"

namespace coat {

void ProgressView::OnWatch(const coatrack::v1::WatchResponse& response) {
  std::lock_guard lock(mutex_);
  if (response.events_size() > 0) Clear();
  for (const auto& event : response.events()) *out_ << EventLine(event) << "\n";
  const auto& job = response.job();
  progress_.steps = job.steps();
  progress_.step = std::max(job.step(), history_.empty() ? 0 : history_.newest()->step());
  if (!progress_.loss.has_value() && job.has_loss()) progress_.loss = job.loss();
  Show();
}

void ProgressView::OnRecords(const coatrack::v1::StreamMetricsResponse& response) {
  std::lock_guard lock(mutex_);
  for (const auto& record : response.records()) history_.Add(record);
  const auto* newest = history_.newest();
  if (newest == nullptr) return;
  progress_.step = newest->step();
  if (newest->has_loss()) progress_.loss = newest->loss();
  progress_.tokens_per_second = history_.tokens_per_second();
  progress_.seconds_per_step = history_.seconds_per_step();
  Show();
}

void ProgressView::Note(const std::string& line) {
  std::lock_guard lock(mutex_);
  Clear();
  *out_ << line << std::endl;
}

void ProgressView::Show() {
  constexpr auto kLeastBetween = std::chrono::milliseconds(100);
  if (progress_.steps <= 0 || progress_.step <= 0) {
    out_->flush();
    return;
  }
  if (terminal_.is_screen()) {
    const auto now = std::chrono::steady_clock::now();
    const bool complete = progress_.step >= progress_.steps;
    if (!complete && !line_.empty() && now - drawn_ < kLeastBetween) return;
    drawn_ = now;
    line_ = ProgressLine(progress_, terminal_);
    *out_ << "\r\x1b[K" << line_ << std::flush;
    return;
  }
  const int64_t twentieth = progress_.step * 20 / progress_.steps;
  if (twentieth == shown_twentieth_) return;
  shown_twentieth_ = twentieth;
  *out_ << ProgressText(progress_) << std::endl;
}

void ProgressView::Clear() {
  if (terminal_.is_screen() && !line_.empty()) *out_ << "\r\x1b[K";
  line_.clear();
}

void ProgressView::Finish() {
  std::lock_guard lock(mutex_);
  if (terminal_.is_screen() && !line_.empty()) *out_ << "\n";
  line_.clear();
  out_->flush();
}

}  // namespace coat
