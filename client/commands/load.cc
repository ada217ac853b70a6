#include "client/commands/load.h"

namespace coat {

using coatrack::v1::Device;
using coatrack::v1::JobEvent;
using coatrack::v1::RankPlacement;
using coatrack::v1::Worker;

Result<RunHistory> LoadHistory(JobClient* client, const std::string& job) {
  RunHistory history;
  coatrack::v1::StreamMetricsRequest request;
  request.set_job(job);
  request.set_after_step(-1);
  RETURN_IF_ERROR(client->StreamMetrics(request, {}, [&](const auto& response) {
    for (const auto& record : response.records()) history.Add(record);
  }));
  return history;
}

Result<std::vector<JobEvent>> LoadEvents(JobClient* client, const std::string& job,
                                         int64_t after_sequence) {
  std::vector<JobEvent> events;
  coatrack::v1::ListEventsRequest request;
  request.set_job(job);
  request.set_after_sequence(after_sequence);
  for (;;) {
    ASSIGN_OR_RETURN(const auto page, client->ListEvents(request));
    for (const JobEvent& event : page.events()) events.push_back(event);
    if (!page.more() || page.events_size() == 0) return events;
    request.set_after_sequence(events.back().sequence());
  }
}

int64_t LoadDeviceBytes(JobClient* client, const coatrack::v1::Job& job) {
  const auto workers = client->ListWorkers({});
  if (!workers.ok()) return 0;
  for (const RankPlacement& rank : job.placement()) {
    if (rank.rank() != 0) continue;
    for (const Worker& worker : workers->workers()) {
      if (worker.name() != rank.worker()) continue;
      for (const Device& device : worker.devices()) {
        if (device.id() == rank.device()) return device.total_bytes();
      }
    }
  }
  return 0;
}

}  // namespace coat
