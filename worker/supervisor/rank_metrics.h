// The newest value of each thing a rank's records carry; what the Prometheus page shows of it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"

namespace coat {

class RankMetrics {
 public:
  // Records in the order of the file. Values that a record leaves out keep their last value;
  // histograms add up, as Prometheus counts from the start.
  void Add(const coatrack::v1::StepRecord& record);

  bool empty() const { return !seen_; }
  double step_seconds() const { return step_seconds_; }
  int64_t tokens_total() const { return tokens_total_; }  // of all ranks
  int64_t skipped_total() const { return skipped_total_; }
  int64_t measured_bytes() const;  // sum of memory()
  const std::map<std::string, int64_t>& memory() const { return memory_; }
  const std::map<std::string, int64_t>& planned() const { return planned_; }
  const std::map<std::string, int64_t>& planned_bf16() const { return planned_bf16_; }
  const std::map<std::string, coatrack::v1::OperandHealth>& health() const { return health_; }
  const coatrack::v1::Histogram& expansion_k_m() const { return expansion_k_m_; }
  const coatrack::v1::Histogram& expansion_k_v() const { return expansion_k_v_; }

 private:
  bool seen_ = false;
  double step_seconds_ = 0;
  int64_t tokens_total_ = 0;
  int64_t skipped_total_ = 0;
  std::map<std::string, int64_t> memory_;  // kind -> bytes
  std::map<std::string, int64_t> planned_;
  std::map<std::string, int64_t> planned_bf16_;
  std::map<std::string, coatrack::v1::OperandHealth> health_;  // by operand
  coatrack::v1::Histogram expansion_k_m_;
  coatrack::v1::Histogram expansion_k_v_;
};

// One rank as the page shows it.
struct RankSeries {
  std::string job_id;
  std::string job_name;
  int rank = 0;
  int world_size = 1;
  std::string device;
  int64_t device_bytes = 0;  // what the device offers
  std::string recipe;        // of the job, "coat"
  RankMetrics metrics;
};

}  // namespace coat
