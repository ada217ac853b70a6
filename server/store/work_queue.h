// One thread that runs tasks in order, taking all that wait at once.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace coat {

template <typename Task>
class WorkQueue {
 public:
  // `run` is called on the queue's thread with everything that waited, in order.
  explicit WorkQueue(std::function<void(std::vector<Task>)> run)
      : run_(std::move(run)), thread_([this] { Loop(); }) {}

  // Runs what still waits, then joins.
  ~WorkQueue() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    ready_.notify_one();
    thread_.join();
  }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void Push(Task task) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    ready_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      ready_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      std::vector<Task> batch = std::exchange(tasks_, {});
      lock.unlock();
      run_(std::move(batch));
      lock.lock();
    }
  }

  std::function<void(std::vector<Task>)> run_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<Task> tasks_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace coat
