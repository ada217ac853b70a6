#include "configs/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

namespace coat {

void ForEachIndex(size_t count, size_t most_threads, const std::function<void(size_t)>& task) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto work = [&] {
    for (size_t i; !failed && (i = next.fetch_add(1)) < count;) {
      try {
        task(i);
      } catch (...) {
        errors[i] = std::current_exception();
        failed = true;
      }
    }
  };
  const size_t threads =
      std::min({count, most_threads, static_cast<size_t>(std::thread::hardware_concurrency())});
  {
    std::vector<std::jthread> pool;
    for (size_t i = 1; i < threads; ++i) pool.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace coat
