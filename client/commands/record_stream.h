// The records of a followed job, on a thread of their own.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "client/rpc/cancel_token.h"
#include "client/rpc/job_client.h"

namespace coat {

// Calls `on_records` from the first record on until the job ends or this is destroyed. Without
// records the watch still shows the step, so a fault here is not one of the job and stays unsaid.
class RecordStream {
 public:
  using OnRecords = std::function<void(const coatrack::v1::StreamMetricsResponse&)>;
  RecordStream(JobClient* client, const std::string& job, OnRecords on_records);
  ~RecordStream();
  RecordStream(const RecordStream&) = delete;
  RecordStream& operator=(const RecordStream&) = delete;

 private:
  CancelToken cancel_;
  std::thread thread_;
};

}  // namespace coat
