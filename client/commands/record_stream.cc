#include "client/commands/record_stream.h"

#include <utility>

namespace coat {

RecordStream::RecordStream(JobClient* client, const std::string& job, OnRecords on_records) {
  thread_ = std::thread([this, client, job, on_records = std::move(on_records)] {
    coatrack::v1::StreamMetricsRequest request;
    request.set_job(job);
    request.set_follow(true);
    request.set_after_step(-1);
    client->StreamMetrics(request, {.cancel = &cancel_, .until = {}, .on_lost = {}}, on_records);
  });
}

RecordStream::~RecordStream() {
  cancel_.Cancel();
  thread_.join();
}

}  // namespace coat
