#include "configs/base/status.h"

namespace coat {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kAlreadyExists: return "already exists";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kAborted: return "aborted";
    case Code::kUnavailable: return "unavailable";
    case Code::kDeadlineExceeded: return "deadline exceeded";
    case Code::kDataLoss: return "data loss";
    case Code::kDataChanged: return "data changed";
    case Code::kOutOfDeviceMemory: return "out of device memory";
    case Code::kCollective: return "collective";
    case Code::kNumeric: return "numeric";
    case Code::kStopped: return "stopped";
    case Code::kIo: return "input/output";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

std::string Status::ToString() const {
  return ok() ? "ok" : std::string(CodeName(code_)) + ": " + message_;
}

}  // namespace coat
