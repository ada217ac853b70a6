#include "worker/supervisor/stream_pushers.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "worker/supervisor/record_cursor.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using coatrack::v1::WorkerService;

constexpr int64_t kRecordBytes = 1024 * 1024;  // of JSON in one push
constexpr int64_t kOutputBytes = 256 * 1024;

// Where the next push of output begins.
int64_t OutputStart(const Supervisor::StreamWork& work) {
  const int64_t pushed = work.streams.output_acknowledged;
  if (work.alive || work.streams.output_demand) return pushed;
  return std::max(pushed, OutputSize(work.dir) - kTailBytes);
}

}  // namespace

RecordPusher::RecordPusher(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel,
                           Sender sender)
    : supervisor_(supervisor),
      stub_(WorkerService::NewStub(std::move(channel))),
      sender_(std::move(sender)) {}

void RecordPusher::Push() {
  for (const auto& work : supervisor_->Streams()) {
    if (!work.streams.records_delivered) PushRank(work);
  }
}

void RecordPusher::PushRank(const Supervisor::StreamWork& work) {
  const auto finish = [&] {
    if (work.alive) return;
    supervisor_->UpdateStreams(work.id, [](RankStreams* s) { s->records_delivered = true; });
  };
  if (work.id.rank != 0) return finish();
  auto chunk = ReadGoodRecords(work.dir, work.streams.records_acknowledged, kRecordBytes);
  if (!chunk.ok()) {
    spdlog::warn("{}", chunk.status().message());
    return finish();
  }
  if (chunk->next_offset == work.streams.records_acknowledged) return finish();
  // Sync reports progress; on a curve such a record would stand for a step.
  std::erase_if(chunk->records, IsProgressOnly);
  if (chunk->records.empty()) {
    supervisor_->UpdateStreams(
        work.id, [&](RankStreams* streams) { streams->records_acknowledged = chunk->next_offset; });
    return;
  }
  coatrack::v1::PushRecordsRequest request;
  request.set_worker(sender_.worker);
  request.set_incarnation(sender_.incarnation);
  SetRankKey(work.id, request.mutable_key());
  for (auto& record : chunk->records) *request.add_records() = std::move(record);
  request.set_next_offset(chunk->next_offset);
  coatrack::v1::PushRecordsResponse response;
  const grpc::Status status = slot_.Run(kCallDeadlineMs, [&](grpc::ClientContext* context) {
    return stub_->PushRecords(context, request, &response);
  });
  if (IsRefusal(status)) return finish();
  if (!status.ok()) return;
  supervisor_->UpdateStreams(work.id, [&](RankStreams* streams) {
    streams->records_acknowledged = response.acknowledged_offset();
  });
}

LogPusher::LogPusher(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel, Sender sender)
    : supervisor_(supervisor),
      stub_(WorkerService::NewStub(std::move(channel))),
      sender_(std::move(sender)) {}

void LogPusher::Push() {
  for (const auto& work : supervisor_->Streams()) {
    if (work.streams.output_delivered) continue;
    if (!work.alive || work.streams.output_demand) PushRank(work);
  }
}

void LogPusher::PushRank(const Supervisor::StreamWork& work) {
  const int64_t start = OutputStart(work);
  const auto chunk = ReadOutput(work.dir, start, kOutputBytes);
  const auto finish = [&] {
    supervisor_->UpdateStreams(work.id, [](RankStreams* s) { s->output_delivered = true; });
  };
  if (!chunk.ok()) {
    spdlog::warn("{}", chunk.status().message());
    if (!work.alive) finish();
    return;
  }
  // The final mark comes last, after the records too: an end may follow it at once.
  const bool last =
      !work.alive && work.streams.records_delivered && chunk->next_offset >= OutputSize(work.dir);
  if (chunk->data.empty() && !last) return;
  coatrack::v1::PushLogsRequest request;
  request.set_worker(sender_.worker);
  request.set_incarnation(sender_.incarnation);
  SetRankKey(work.id, request.mutable_key());
  request.set_offset(chunk->offset);
  request.set_data(chunk->data);
  request.set_final(last);
  request.set_truncated(chunk->offset > work.streams.output_acknowledged);
  coatrack::v1::PushLogsResponse response;
  const grpc::Status status = slot_.Run(kCallDeadlineMs, [&](grpc::ClientContext* context) {
    return stub_->PushLogs(context, request, &response);
  });
  if (IsRefusal(status)) {
    if (!work.alive) finish();
    return;
  }
  if (!status.ok()) return;
  const bool done = last && response.next_offset() >= chunk->next_offset;
  supervisor_->UpdateStreams(work.id, [&](RankStreams* streams) {
    // A new demand may have come meanwhile; it decides then.
    if (streams->output_acknowledged == work.streams.output_acknowledged) {
      streams->output_acknowledged = response.next_offset();
    }
    if (done) streams->output_delivered = true;
  });
}

}  // namespace coat
