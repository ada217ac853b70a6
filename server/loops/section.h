// The scope in which the coordinator's mutex is held.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "server/loops/coordinator.h"

namespace coat {

class Coordinator::Section {
 public:
  explicit Section(Coordinator* coordinator)
      : coordinator_(coordinator), lock_(coordinator->mutex_) {}
  ~Section() {
    coordinator_->WriteChanged();
    const int64_t now_ms = coordinator_->parts_.clock->SteadyMs();
    for (const std::string& worker : std::exchange(coordinator_->woken_, {})) {
      coordinator_->AnswerSync(worker, now_ms);
    }
    std::vector<Callback> ready = std::exchange(coordinator_->ready_, {});
    lock_.unlock();
    for (Callback& call : ready) call();
  }
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

 private:
  Coordinator* coordinator_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace coat
