#include "worker/supervisor/rank_socket.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

using Kind = RankMessage::Kind;

// All of the line or nothing: what the socket's buffer does not take at once is a failure.
bool Send(int fd, const RankMessage& message) {
  const std::string line = FormatRankMessage(message);
  const ssize_t sent = send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(line.size())) return true;
  shutdown(fd, SHUT_RDWR);  // the reader thread closes it
  return false;
}

bool SendStopTo(int fd, coatrack::v1::StopMode mode) {
  RankMessage message;
  message.kind = Kind::kStop;
  message.stop = mode == coatrack::v1::STOP_MODE_NOW ? RankStop::kNow : RankStop::kCheckpoint;
  return Send(fd, message);
}

Result<int> Bind(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, path + ": too long for a socket (" +
                                              std::to_string(sizeof(address.sun_path) - 1) +
                                              " bytes); choose a shorter state_dir");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Status(Code::kIo, path + ": " + std::strerror(errno));
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || listen(fd, kMaxConnections) != 0) {
    const Status status(Code::kIo, path + ": " + std::strerror(errno));
    close(fd);
    return status;
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<RankSocket>> RankSocket::Listen(const std::string& path,
                                                       Supervisor* supervisor,
                                                       std::shared_ptr<grpc::Channel> channel) {
  const int wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) return Status(Code::kIo, std::string("eventfd: ") + std::strerror(errno));
  auto listen_fd = Bind(path);
  if (!listen_fd.ok()) {
    close(wake_fd);
    return listen_fd.status();
  }
  return std::unique_ptr<RankSocket>(
      new RankSocket(path, *listen_fd, wake_fd, supervisor, std::move(channel)));
}

RankSocket::RankSocket(std::string path, int listen_fd, int wake_fd, Supervisor* supervisor,
                       std::shared_ptr<grpc::Channel> channel)
    : path_(std::move(path)),
      listen_fd_(listen_fd),
      wake_fd_(wake_fd),
      supervisor_(supervisor),
      channel_(std::move(channel)) {
  thread_ = std::thread([this] { Run(); });
}

RankSocket::~RankSocket() {
  eventfd_write(wake_fd_, 1);
  thread_.join();
  gangs_.clear();  // their threads may still deliver until here
  for (const auto& [fd, connection] : connections_) close(fd);
  close(listen_fd_);
  close(wake_fd_);
}

void RankSocket::Run() {
  while (true) {
    std::vector<pollfd> polled{{wake_fd_, POLLIN, 0}, {listen_fd_, POLLIN, 0}};
    for (const int fd : Descriptors()) polled.push_back({fd, POLLIN, 0});
    if (poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) {
      spdlog::error("{}: poll: {}", path_, std::strerror(errno));
      return;
    }
    if (polled[0].revents != 0) return;
    for (size_t i = 2; i < polled.size(); ++i) {
      if (polled[i].revents != 0 && !Read(polled[i].fd)) Drop(polled[i].fd);
    }
    if (polled[1].revents != 0) AcceptOne();
  }
}

std::vector<int> RankSocket::Descriptors() {
  const std::lock_guard lock(mutex_);
  std::vector<int> descriptors;
  for (const auto& [fd, connection] : connections_) descriptors.push_back(fd);
  return descriptors;
}

void RankSocket::AcceptOne() {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  const std::lock_guard lock(mutex_);
  if (connections_.size() >= static_cast<size_t>(kMaxConnections)) {
    spdlog::warn("{}: more than {} connections; one is refused", path_, kMaxConnections);
    close(fd);
    return;
  }
  connections_.emplace(fd, Connection{});
}

bool RankSocket::Read(int fd) {
  std::array<char, 16384> buffer{};
  const ssize_t count = recv(fd, buffer.data(), buffer.size(), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  std::vector<std::string> lines;
  {
    const std::lock_guard lock(mutex_);
    std::string& input = connections_.at(fd).input;
    input.append(buffer.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = input.find('\n', begin)) != std::string::npos; begin = end + 1) {
      lines.push_back(input.substr(begin, end - begin));
    }
    input.erase(0, begin);
    if (static_cast<int64_t>(input.size()) > kMaxMessageLineBytes) return false;
  }
  for (const std::string& line : lines) {
    if (!Handle(fd, line)) return false;
  }
  return true;
}

bool RankSocket::Handle(int fd, const std::string& line) {
  const auto message = ParseRankMessage(line);
  if (!message.ok()) {
    spdlog::warn("{}: {}", path_, message.status().message());
    return false;
  }
  if (message->kind == Kind::kHello) return Greet(fd, *message);
  Gang gang;
  {
    const std::lock_guard lock(mutex_);
    Connection& connection = connections_.at(fd);
    if (!connection.greeted) return false;
    gang = {connection.id.job_id, connection.id.attempt};
    if (message->kind == Kind::kGet) connection.wanted.insert(message->key);
  }
  if (message->kind == Kind::kPut) {
    GangOf(gang)->Put(message->key, message->value);
  } else if (message->kind == Kind::kGet) {
    GangOf(gang)->Get(message->key);
  }
  return true;
}

bool RankSocket::Greet(int fd, const RankMessage& message) {
  const RankId id{message.job_id, message.attempt, message.rank};
  if (!supervisor_->IsAlive(id)) {
    spdlog::warn("{}: {} is not a rank of this worker", path_, ToString(id));
    return false;
  }
  {
    const std::lock_guard lock(mutex_);
    Connection& connection = connections_.at(fd);
    connection.greeted = true;
    connection.id = id;
  }
  const auto stop = supervisor_->PendingStop(id);
  return !stop || SendStopTo(fd, *stop);
}

std::shared_ptr<RendezvousGang> RankSocket::GangOf(const Gang& gang) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<RendezvousGang>& found = gangs_[gang];
  if (!found) {
    found = std::make_shared<RendezvousGang>(
        gang.first, gang.second, channel_,
        [this, gang](const std::string& key, const std::string& value) {
          Deliver(gang, key, value);
        });
  }
  return found;
}

void RankSocket::Deliver(const Gang& gang, const std::string& key, const std::string& value) {
  RankMessage message;
  message.kind = Kind::kValue;
  message.key = key;
  message.value = value;
  const std::lock_guard lock(mutex_);
  for (auto& [fd, connection] : connections_) {
    const bool same = connection.id.job_id == gang.first && connection.id.attempt == gang.second;
    if (connection.greeted && same && connection.wanted.erase(key) != 0) Send(fd, message);
  }
}

bool RankSocket::SendStop(const RankId& id, coatrack::v1::StopMode mode) {
  const std::lock_guard lock(mutex_);
  bool sent = false;
  for (const auto& [fd, connection] : connections_) {
    if (connection.greeted && connection.id == id) sent = SendStopTo(fd, mode) || sent;
  }
  return sent;
}

void RankSocket::PutAgain() {
  std::vector<std::shared_ptr<RendezvousGang>> gangs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, gang] : gangs_) gangs.push_back(gang);
  }
  for (const auto& gang : gangs) gang->PutAgain();
}

void RankSocket::DropGoneGangs() {
  std::vector<Gang> keys;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, gang] : gangs_) keys.push_back(key);
  }
  std::erase_if(keys,
                [this](const Gang& key) { return supervisor_->HasAttempt(key.first, key.second); });
  std::vector<std::shared_ptr<RendezvousGang>> gone;  // their threads end outside the lock
  const std::lock_guard lock(mutex_);
  for (const Gang& key : keys) {
    const auto it = gangs_.find(key);
    if (it == gangs_.end()) continue;
    gone.push_back(std::move(it->second));
    gangs_.erase(it);
  }
}

void RankSocket::Drop(int fd) {
  const std::lock_guard lock(mutex_);
  connections_.erase(fd);
  close(fd);
}

}  // namespace coat
