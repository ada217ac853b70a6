#include "client/rpc/follow_stream.h"

namespace coat {

StreamEnd JudgeStreamEnd(grpc::StatusCode code, bool renewed) {
  if (code == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return renewed ? StreamEnd::kOpenAgain : StreamEnd::kBroken;
  }
  // A coordinator that shuts down cancels its streams.
  const bool broken = code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED;
  return broken ? StreamEnd::kBroken : StreamEnd::kDone;
}

}  // namespace coat
