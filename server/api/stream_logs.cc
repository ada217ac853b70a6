#include <algorithm>
#include <limits>

#include "server/api/services.h"
#include "server/api/stream.h"
#include "server/jobs/job_record.h"

namespace coat {
namespace {

constexpr int64_t kBytesPerMessage = 256 * 1024;
constexpr int64_t kDemandWaitMs = 2'000;  // for output that travels only because of this call
constexpr int64_t kQuietMs = 300;         // then a call that does not follow ends

// The part of `text` that holds its last `lines` lines; a last line without newline counts.
size_t TailStart(const std::string& text, int64_t lines) {
  if (lines <= 0) return text.size();
  size_t at = text.size();
  if (at > 0 && text[at - 1] == '\n') --at;
  for (; at > 0; --at) {
    if (text[at - 1] == '\n' && --lines == 0) break;
  }
  return at;
}

class LogsCall final : public StreamCall<coatrack::v1::StreamLogsResponse> {
 public:
  LogsCall(Coordinator* coordinator, const JobTable::Known& job,
           const coatrack::v1::StreamLogsRequest& request)
      : StreamCall(coordinator, "StreamLogs"),
        job_(job),
        rank_(request.rank()),
        follow_(request.follow()),
        since_ms_(request.has_since() ? ToWallMs(request.since()) : 0),
        tail_lines_(request.has_tail_lines() ? request.tail_lines() : -1),
        attempt_(request.from().attempt()),
        offset_(request.from().offset()) {
    coordinator->FollowLogs(job_.sequence, rank_);
  }

 private:
  void Ended() override { coordinator()->UnfollowLogs(job_.sequence, rank_); }

  void Next() override {
    topic_version_ = coordinator()->TopicVersion(Coordinator::LogsTopic(job_.id));
    settled_ = coordinator()->Settled(job_.sequence);
    if (tail_lines_ >= 0 && attempt_ == 0) return FindAttempt();
    Read();
  }

  // A tail is that of the newest attempt.
  void FindAttempt() {
    coordinator()->GetJob(job_.sequence, [this, self = self()](Result<coatrack::v1::Job> job) {
      if (!job.ok()) return End(job.status());
      attempt_ = job->attempt();
      Read();
    });
  }

  void Read() {
    const int64_t bytes = tail_lines_ >= 0 ? std::numeric_limits<int64_t>::max() : kBytesPerMessage;
    coordinator()->journal()->ReadLog({job_.id, attempt_, rank_}, offset_, bytes, since_ms_,
                                      [this, self = self()](Result<LogChunk> chunk) {
                                        chunk.ok() ? Show(std::move(*chunk)) : End(chunk.status());
                                      });
  }

  void Show(LogChunk chunk) {
    if (chunk.data.empty()) return Wait(chunk);
    got_any_ = true;
    offset_ = chunk.offset + static_cast<int64_t>(chunk.data.size());
    coatrack::v1::StreamLogsResponse response;
    response.set_rank(rank_);
    response.mutable_position()->set_attempt(attempt_);
    response.mutable_position()->set_offset(offset_);
    response.set_truncated(chunk.truncated);
    if (tail_lines_ >= 0) chunk.data.erase(0, TailStart(chunk.data, tail_lines_));
    tail_lines_ = -1;
    response.set_data(std::move(chunk.data));
    Send(std::move(response));
  }

  void Wait(const LogChunk& chunk) {
    if (chunk.next_attempt != 0) {
      attempt_ = chunk.next_attempt;
      offset_ = 0;
      return Next();
    }
    if (settled_) return End({});
    const std::string topic = Coordinator::LogsTopic(job_.id);
    if (follow_) return Sleep(topic, topic_version_);
    if (waited_) return End({});
    waited_ = !got_any_;
    if (got_any_ && std::exchange(quiet_, true)) return End({});
    Sleep(topic, topic_version_, got_any_ ? kQuietMs : kDemandWaitMs);
  }

  const JobTable::Known job_;
  const int32_t rank_;
  const bool follow_;
  const int64_t since_ms_;
  int64_t tail_lines_;
  int32_t attempt_;
  int64_t offset_;
  uint64_t topic_version_ = 0;
  bool settled_ = false;
  bool got_any_ = false;
  bool waited_ = false;  // for a first piece
  bool quiet_ = false;   // waited after the last piece
};

}  // namespace

grpc::ServerWriteReactor<coatrack::v1::StreamLogsResponse>* JobServiceImpl::StreamLogs(
    Context* /*context*/, const coatrack::v1::StreamLogsRequest* request) {
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  const auto call =
      std::make_shared<LogsCall>(coordinator_, known.ok() ? *known : JobTable::Known{}, *request);
  return known.ok() ? call->Start() : call->Refuse(known.status());
}

}  // namespace coat
