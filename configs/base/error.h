// The engine's one error type, thrown below coat-train's main and caught there.
#pragma once

#include <stdexcept>
#include <string>

#include "configs/base/status.h"

namespace coat {

class Error : public std::runtime_error {
 public:
  // `message` says what, where (file, offset, field, tensor) and what to do.
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  explicit Error(const Status& status) : Error(status.code(), status.message()) {}
  Code code() const { return code_; }

 private:
  Code code_;
};

// Throws kInternal unless `condition` holds: for what only a bug of ours can break.
inline void Check(bool condition, const std::string& what) {
  if (!condition) throw Error(Code::kInternal, what);
}

}  // namespace coat
