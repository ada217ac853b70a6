// What ranks wrote, on its way to the coordinator (PROTOCOLS.md section 6).
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "coatrack/v1/worker_service.grpc.pb.h"
#include "worker/supervisor/coordinator_channel.h"
#include "worker/supervisor/supervisor.h"

namespace coat {

inline constexpr int kPushIntervalMs = 100;  // at most 10 pushes a second for a job
inline constexpr int64_t kTailBytes = 64 * 1024;

struct Sender {
  std::string worker;
  std::string incarnation;
};

// Pushes rank 0's records, which carry the job-wide values: all of them, in order, many in one
// call. Push() does one round over all ranks; one thread.
class RecordPusher {
 public:
  RecordPusher(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel, Sender sender);
  void Push();
  void Close() { slot_.Close(); }

 private:
  void PushRank(const Supervisor::StreamWork& work);

  Supervisor* const supervisor_;
  const std::unique_ptr<coatrack::v1::WorkerService::Stub> stub_;
  const Sender sender_;
  CallSlot slot_;
};

// Pushes the output that somebody follows, and of every ended rank the last kTailBytes (all from
// the follower's offset when there is one), marked final.
class LogPusher {
 public:
  LogPusher(Supervisor* supervisor, std::shared_ptr<grpc::Channel> channel, Sender sender);
  void Push();
  void Close() { slot_.Close(); }

 private:
  void PushRank(const Supervisor::StreamWork& work);

  Supervisor* const supervisor_;
  const std::unique_ptr<coatrack::v1::WorkerService::Stub> stub_;
  const Sender sender_;
  CallSlot slot_;
};

}  // namespace coat
