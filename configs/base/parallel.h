// The same work on many files or parts, several at a time.
#pragma once

#include <cstddef>
#include <functional>

namespace coat {

// Calls task(0) to task(count - 1) once each, in order of their beginning, on at most
// `most_threads` threads (one of them the caller's) and no more than the machine has processors.
// Returns when all have ended. Once a task has thrown, no further one begins; the exception of the
// lowest index is thrown on, which does not depend on the number of threads.
void ForEachIndex(size_t count, size_t most_threads, const std::function<void(size_t)>& task);

}  // namespace coat
