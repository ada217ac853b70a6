// Values that the ranks of an attempt exchange, in memory (PROTOCOLS.md section 3).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "configs/base/status.h"

namespace coat {

inline constexpr int64_t kMaxRendezvousValueBytes = 1 << 20;
inline constexpr int64_t kMaxRendezvousBytes = 64 << 20;  // of an attempt

// Not thread-safe.
class Rendezvous {
 public:
  // Errors: kResourceExhausted above the limits.
  Status Put(const std::string& job, int32_t attempt, const std::string& key,
             const std::string& value);
  // Those that exist. Missing keys are remembered as asked for at `now_ms`.
  std::map<std::string, std::string> Get(const std::string& job, int32_t attempt,
                                         const std::vector<std::string>& keys, int64_t now_ms);
  // A key asked for at least `timeout_ms` ago and not put since.
  std::optional<std::string> Overdue(const std::string& job, int32_t attempt, int64_t now_ms,
                                     int64_t timeout_ms) const;
  // Forgets all attempts of the job.
  void Clear(const std::string& job);

 private:
  struct Values {
    std::map<std::string, std::string> values;
    std::map<std::string, int64_t> asked_ms;
    int64_t bytes = 0;
  };
  std::map<std::pair<std::string, int32_t>, Values> attempts_;
};

}  // namespace coat
