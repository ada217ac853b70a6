#include "worker/trainer/exit_reason.h"

namespace coat {

coatrack::v1::Reason ReasonOf(Code code) {
  using coatrack::v1::Reason;
  switch (code) {
    case Code::kOk: return Reason::REASON_COMPLETED;
    case Code::kInvalidArgument:
    case Code::kNotFound:
    case Code::kAlreadyExists: return Reason::REASON_USER_ERROR;
    case Code::kFailedPrecondition:  // no such device here, or not compiled in
    case Code::kAborted: return Reason::REASON_LAUNCH_FAILED;
    case Code::kUnavailable: return Reason::REASON_WORKER_LOST;
    case Code::kDeadlineExceeded: return Reason::REASON_RENDEZVOUS_TIMEOUT;
    case Code::kDataChanged: return Reason::REASON_DATA_CHANGED;
    case Code::kOutOfDeviceMemory: return Reason::REASON_OUT_OF_DEVICE_MEMORY;
    case Code::kCollective: return Reason::REASON_PEER_FAILED;
    case Code::kNumeric: return Reason::REASON_NUMERIC;
    case Code::kStopped: return Reason::REASON_STOPPED;
    case Code::kResourceExhausted:  // disk full
    case Code::kDataLoss:
    case Code::kIo: return Reason::REASON_STORAGE;
    case Code::kInternal: break;
  }
  return Reason::REASON_INTERNAL;
}

}  // namespace coat
