#include <algorithm>
#include <iterator>

#include "server/api/services.h"
#include "server/api/stream.h"

namespace coat {
namespace {

constexpr size_t kRecordsPerMessage = 500;

class MetricsCall final : public StreamCall<coatrack::v1::StreamMetricsResponse> {
 public:
  MetricsCall(Coordinator* coordinator, const JobTable::Known& job, bool follow, int64_t after_step)
      : StreamCall(coordinator, "StreamMetrics"),
        job_(job),
        follow_(follow),
        after_step_(after_step) {}

 private:
  void Next() override {
    if (sent_ < page_.records.size()) return SendSome();
    topic_version_ = coordinator()->TopicVersion(Coordinator::RecordsTopic(job_.id));
    settled_ = coordinator()->Settled(job_.sequence);
    coordinator()->journal()->ReadRecords(
        job_.id, after_step_, page_.next, [this, self = self()](Result<RecordPage> page) {
          if (!page.ok()) return End(page.status());
          page_ = std::move(*page);
          sent_ = 0;
          if (!page_.records.empty()) return SendSome();
          if (!follow_ || settled_) return End({});
          Sleep(Coordinator::RecordsTopic(job_.id), topic_version_);
        });
  }

  void SendSome() {
    coatrack::v1::StreamMetricsResponse response;
    const size_t end = std::min(page_.records.size(), sent_ + kRecordsPerMessage);
    for (; sent_ < end; ++sent_) {
      // If the file is thinned meanwhile, reading goes on after this step.
      after_step_ = std::max(after_step_, page_.records[sent_].step());
      *response.add_records() = std::move(page_.records[sent_]);
    }
    Send(std::move(response));
  }

  const JobTable::Known job_;
  const bool follow_;
  int64_t after_step_;
  RecordPage page_;
  size_t sent_ = 0;
  uint64_t topic_version_ = 0;
  bool settled_ = false;
};

}  // namespace

grpc::ServerWriteReactor<coatrack::v1::StreamMetricsResponse>* JobServiceImpl::StreamMetrics(
    Context* /*context*/, const coatrack::v1::StreamMetricsRequest* request) {
  const Result<JobTable::Known> known = coordinator_->Resolve(request->job());
  const auto call =
      std::make_shared<MetricsCall>(coordinator_, known.ok() ? *known : JobTable::Known{},
                                    request->follow(), request->after_step());
  return known.ok() ? call->Start() : call->Refuse(known.status());
}

}  // namespace coat
