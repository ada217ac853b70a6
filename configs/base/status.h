// Status and Result<T>: how services report failure. The engine throws Error instead (error.h).
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace coat {

// One code space for services and engine. Services map it to gRPC codes, trainers to Reason.
enum class Code {
  kOk,
  kInvalidArgument,  // bad input of a person: spec, flag, file content
  kNotFound,
  kAlreadyExists,
  kFailedPrecondition,  // right request, wrong state
  kResourceExhausted,   // a bound was reached: queue, disk, device memory
  kAborted,             // fenced: stale epoch, attempt or incarnation
  kUnavailable,         // try again later
  kDeadlineExceeded,
  kDataLoss,     // corrupt file or row
  kDataChanged,  // training data differs from the first attempt's
  kOutOfDeviceMemory,
  kCollective,  // a peer is gone or silent
  kNumeric,
  kStopped,  // asked to stop
  kIo,
  kInternal,
};

const char* CodeName(Code code);  // "invalid argument"

class Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string ToString() const;  // "invalid argument: message", or "ok"

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace coat

#define COAT_CONCAT_INNER(a, b) a##b
#define COAT_CONCAT(a, b) COAT_CONCAT_INNER(a, b)

// RETURN_IF_ERROR(expr): returns expr's Status from the enclosing function unless it is ok.
#define RETURN_IF_ERROR(expr)                  \
  do {                                         \
    ::coat::Status coat_status = (expr);       \
    if (!coat_status.ok()) return coat_status; \
  } while (false)

// ASSIGN_OR_RETURN(auto x, expr): x = the value of expr's Result, or returns its Status.
#define ASSIGN_OR_RETURN(decl, expr) \
  ASSIGN_OR_RETURN_INNER(COAT_CONCAT(coat_result_, __LINE__), decl, expr)
#define ASSIGN_OR_RETURN_INNER(result, decl, expr) \
  auto result = (expr);                            \
  if (!result.ok()) return result.status();        \
  decl = std::move(result).value()
