#include "server/api/services.h"
#include "server/api/stream.h"
#include "server/jobs/transition.h"

namespace coat {
namespace {

constexpr int kEventsPerMessage = 100;

class WatchCall final : public StreamCall<coatrack::v1::WatchResponse> {
 public:
  WatchCall(Coordinator* coordinator, int64_t sequence, int64_t after)
      : StreamCall(coordinator, "Watch"), sequence_(sequence), after_(after) {}

 private:
  void Next() override {
    if (ended_) return End({});
    topic_version_ = coordinator()->TopicVersion(Coordinator::JobTopic(sequence_));
    settled_ = coordinator()->Settled(sequence_);
    coordinator()->GetJob(sequence_, [this, self = self()](Result<coatrack::v1::Job> job) {
      if (!job.ok()) return End(job.status());
      coordinator()->ReadEvents(
          sequence_, after_, kEventsPerMessage,
          [this, self, job = std::move(*job)](Result<std::vector<coatrack::v1::JobEvent>> events) {
            events.ok() ? Show(job, std::move(*events)) : End(events.status());
          });
    });
  }

  void Show(const coatrack::v1::Job& job, std::vector<coatrack::v1::JobEvent> events) {
    const bool full = static_cast<int>(events.size()) == kEventsPerMessage;
    std::string bytes = job.SerializeAsString();
    // An end that is not committed yet is not shown.
    const bool early = IsTerminal(job.state()) && !settled_;
    if (early || (events.empty() && bytes == shown_ && !settled_)) {
      return Sleep(Coordinator::JobTopic(sequence_), topic_version_);
    }
    shown_ = std::move(bytes);
    coatrack::v1::WatchResponse response;
    *response.mutable_job() = job;
    for (coatrack::v1::JobEvent& event : events) {
      after_ = event.sequence();
      *response.add_events() = std::move(event);
    }
    ended_ = settled_ && !full;
    Send(std::move(response));
  }

  const int64_t sequence_;
  int64_t after_;
  uint64_t topic_version_ = 0;
  bool settled_ = false;
  bool ended_ = false;
  std::string shown_;  // the job last sent
};

}  // namespace

grpc::ServerWriteReactor<coatrack::v1::WatchResponse>* JobServiceImpl::Watch(
    Context* /*context*/, const coatrack::v1::WatchRequest* request) {
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  const auto call = std::make_shared<WatchCall>(coordinator_, known.ok() ? known->sequence : 0,
                                                request->after_sequence());
  return known.ok() ? call->Start() : call->Refuse(known.status());
}

}  // namespace coat
