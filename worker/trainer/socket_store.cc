#include "worker/trainer/socket_store.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "configs/base/error.h"

namespace coat {
namespace {

using Kind = RankMessage::Kind;
constexpr int kRetryMs = 200;

RankMessage Hello(const coatrack::v1::RankLaunch& launch) {
  RankMessage hello;
  hello.kind = Kind::kHello;
  hello.job_id = launch.job_id();
  hello.attempt = launch.attempt();
  hello.rank = launch.rank();
  return hello;
}

RankMessage Message(Kind kind, const std::string& key, const std::string& value = "") {
  RankMessage message;
  message.kind = kind;
  message.key = key;
  message.value = value;
  return message;
}

}  // namespace

SocketStore::SocketStore(const coatrack::v1::RankLaunch& launch, std::atomic<bool>* stop)
    : path_(launch.socket_path()), hello_(Hello(launch)), stop_(stop) {
  if (path_.size() >= sizeof(sockaddr_un::sun_path)) {
    throw Error(Code::kInvalidArgument, "launch: socket_path is longer than " +
                                            std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                                            " bytes: " + path_);
  }
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { Run(); });
}

SocketStore::~SocketStore() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(wake_fd_, &one, sizeof(one));
  thread_.join();
  Disconnect();
  ::close(wake_fd_);
}

void SocketStore::Put(const std::string& key, const std::string& value) {
  const std::lock_guard lock(mutex_);
  puts_[key] = value;
  SendLocked(Message(Kind::kPut, key, value));
}

std::string SocketStore::Get(const std::string& key, int timeout_ms) {
  using SteadyClock = std::chrono::steady_clock;
  const auto deadline = SteadyClock::now() + std::chrono::milliseconds(timeout_ms);
  std::unique_lock lock(mutex_);
  if (values_.count(key) == 0 && gets_.insert(key).second) SendLocked(Message(Kind::kGet, key));
  while (values_.count(key) == 0) {
    if (*stop_) {
      throw Error(Code::kStopped, "asked to stop while waiting for the other ranks");
    }
    if (SteadyClock::now() >= deadline) {
      throw Error(Code::kDeadlineExceeded, "rendezvous: nobody put '" + key + "' within " +
                                               std::to_string(timeout_ms) + " ms");
    }
    arrived_.wait_for(lock, std::chrono::milliseconds(100));
  }
  return values_[key];
}

void SocketStore::Run() {
  do {
    if (Connect()) ReadMessages();
    Disconnect();
  } while (!WaitOrQuit(kRetryMs));
}

bool SocketStore::Connect() {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    if (fd >= 0) ::close(fd);
    return false;
  }
  const std::lock_guard lock(mutex_);
  fd_ = fd;
  SendLocked(hello_);
  for (const auto& [key, value] : puts_) SendLocked(Message(Kind::kPut, key, value));
  for (const std::string& key : gets_) SendLocked(Message(Kind::kGet, key));
  return true;
}

void SocketStore::ReadMessages() {
  std::string buffer;
  char chunk[4096];
  while (true) {
    pollfd fds[2] = {{fd_, POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) return;
    if (fds[1].revents != 0) return;
    if (fds[0].revents == 0) continue;
    const ssize_t n = ::recv(fd_, chunk, sizeof(chunk), 0);
    if (n <= 0) return;
    buffer.append(chunk, static_cast<size_t>(n));
    if (static_cast<int64_t>(buffer.size()) > kMaxMessageLineBytes) return;
    size_t begin = 0;
    for (size_t end; (end = buffer.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const Result<RankMessage> message =
          ParseRankMessage(std::string_view(buffer).substr(begin, end - begin));
      if (!message.ok()) {
        std::fprintf(stderr, "%s: %s\n", path_.c_str(), message.status().message().c_str());
        return;
      }
      Handle(*message);
    }
    buffer.erase(0, begin);
  }
}

void SocketStore::Handle(const RankMessage& message) {
  if (message.kind == Kind::kStop) {
    if (message.stop == RankStop::kNow) ::raise(SIGKILL);
    *stop_ = true;
    return;
  }
  if (message.kind != Kind::kValue) return;
  const std::lock_guard lock(mutex_);
  values_[message.key] = message.value;
  gets_.erase(message.key);
  arrived_.notify_all();
}

// What cannot be sent now is repeated after the next connection.
void SocketStore::SendLocked(const RankMessage& message) {
  if (fd_ < 0) return;
  const std::string line = FormatRankMessage(message);
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::send(fd_, line.data() + done, line.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      ::shutdown(fd_, SHUT_RDWR);  // the thread notices and connects again
      return;
    }
    done += static_cast<size_t>(n);
  }
}

void SocketStore::Disconnect() {
  const std::lock_guard lock(mutex_);
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

bool SocketStore::WaitOrQuit(int milliseconds) {
  pollfd wake = {wake_fd_, POLLIN, 0};
  return ::poll(&wake, 1, milliseconds) > 0;
}

}  // namespace coat
