// Following a job: until it ends, with or without progress.
#pragma once

#include <functional>
#include <string>

#include "client/commands/context.h"
#include "client/rpc/cancel_token.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

struct FollowHooks {
  std::function<void(const coatrack::v1::WatchResponse&)> on_change;  // may be empty
  std::function<void(const std::string&)> say;                        // empty: Context::Say
};

// Watches `job` until it has ended and returns it as it then is; hooks run on this thread.
// Errors: kStopped when cancelled, kDeadlineExceeded after --timeout, others of JobClient.
Result<coatrack::v1::Job> FollowJob(Context& context, const std::string& job, CancelToken* cancel,
                                    const FollowHooks& hooks);

// The same with a progress line on stderr, from the job's records.
Result<coatrack::v1::Job> FollowWithProgress(Context& context, const std::string& job,
                                             CancelToken* cancel);

// wait and run: 0 succeeded, 100 failed, 103 cancelled.
int ExitCodeOf(const coatrack::v1::Job& job);
// wait and run: says why following ended early; 102 not found, 124 timeout, else 1.
int FailFollowing(Context& context, const std::string& job, const Status& status);

// "Detached; job ... goes on." and how to come back.
void SayDetached(Context& context, const std::string& job);

}  // namespace coat
