// When a call that failed is made again.
#pragma once

#include <algorithm>
#include <chrono>

namespace coat {

struct RetryPolicy {
  std::chrono::milliseconds first_backoff{200};
  std::chrono::milliseconds max_backoff{3'000};
  int call_attempts = 4;  // of a call that is answered once
  // How long a stream that broke is opened again without a message.
  std::chrono::milliseconds stream_patience{120'000};
  // A stream is renewed after this long, so that no call lives without a deadline.
  std::chrono::milliseconds stream_deadline{600'000};

  // Before attempt 1, 2, ... (the first retry is 1).
  std::chrono::milliseconds Backoff(int attempt) const {
    auto backoff = first_backoff;
    for (int i = 1; i < attempt && backoff < max_backoff; ++i) backoff *= 2;
    return std::min(backoff, max_backoff);
  }
};

}  // namespace coat
