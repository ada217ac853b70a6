// A trainer that trains nothing: it obeys worker/trainer/rank_protocol.h and does what the labels
// of its job say, so that the daemon can be tested without the engine.
//
//   steps       records to write, then it ends with COMPLETED (default: it goes on until stopped)
//   step_ms     time of a step (default 10)
//   stubborn    ignores stop requests
//   kill_self   at this step it sends itself SIGKILL
//   output      bytes of output to write before step one
//   last_words  written to the output at the end, without a newline
//   put         key=value to put;  get: key to wait for, its value goes to the output
//   checkpoint  at this step a checkpoint folder's name is recorded
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "worker/trainer/rank_parent.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

class Socket {
 public:
  explicit Socket(const coatrack::v1::RankLaunch& launch) : launch_(launch) {}

  // Connects if it is not, says hello, and repeats what the labels want.
  void Serve(const std::string& put, const std::string& get) {
    if (launch_.socket_path().empty()) return;
    if (fd_ < 0) Connect(put, get);
    if (fd_ >= 0) ReadLines();
  }
  bool stopped() const { return stopped_; }
  bool got() const { return got_; }

 private:
  void Connect(const std::string& put, const std::string& get) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", launch_.socket_path().c_str());
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      close(fd);
      return;
    }
    fd_ = fd;
    RankMessage hello;
    hello.job_id = launch_.job_id();
    hello.attempt = launch_.attempt();
    hello.rank = launch_.rank();
    Send(hello);
    if (const size_t equals = put.find('='); equals != std::string::npos) {
      RankMessage message;
      message.kind = RankMessage::Kind::kPut;
      message.key = put.substr(0, equals);
      message.value = put.substr(equals + 1);
      Send(message);
    }
    if (!get.empty() && !got_) {
      RankMessage message;
      message.kind = RankMessage::Kind::kGet;
      message.key = get;
      Send(message);
    }
  }

  void Send(const RankMessage& message) {
    const std::string line = FormatRankMessage(message);
    [[maybe_unused]] const ssize_t sent = send(fd_, line.data(), line.size(), MSG_NOSIGNAL);
  }

  void ReadLines() {
    pollfd polled{fd_, POLLIN, 0};
    while (fd_ >= 0 && poll(&polled, 1, 0) > 0) {
      char buffer[4096];
      const ssize_t count = recv(fd_, buffer, sizeof(buffer), 0);
      if (count <= 0) {
        close(fd_);
        fd_ = -1;
        input_.clear();
        return;
      }
      input_.append(buffer, static_cast<size_t>(count));
      for (size_t end; (end = input_.find('\n')) != std::string::npos; input_.erase(0, end + 1)) {
        const auto message = ParseRankMessage(input_.substr(0, end));
        if (!message.ok()) continue;
        if (message->kind == RankMessage::Kind::kStop) stopped_ = true;
        if (message->kind == RankMessage::Kind::kValue) {
          got_ = true;
          std::printf("value %s=%s\n", message->key.c_str(), message->value.c_str());
          std::fflush(stdout);
        }
      }
    }
  }

  const coatrack::v1::RankLaunch launch_;
  int fd_ = -1;
  std::string input_;
  bool stopped_ = false;
  bool got_ = false;
};

void AppendRecord(const std::string& dir, const coatrack::v1::RankLaunch& launch, int64_t step,
                  const std::string& checkpoint) {
  const std::string line =
      "{\"step\":\"" + std::to_string(step) + "\",\"attempt\":" + std::to_string(launch.attempt()) +
      ",\"rank\":" + std::to_string(launch.rank()) +
      ",\"phase\":\"PHASE_STEP\",\"collectiveSequence\":\"" + std::to_string(3 * step) +
      "\",\"loss\":" + std::to_string(1.0 / static_cast<double>(step)) + ",\"tokensTotal\":\"" +
      std::to_string(64 * step) +
      "\",\"stepSeconds\":0.5,\"memory\":[{\"kind\":\"weights\",\"bytes\":\"4096\"}]"
      ",\"checkpoint\":\"" +
      checkpoint + "\"}\n";
  const int fd =
      open((dir + "/" + kRecordsFile).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  [[maybe_unused]] const ssize_t written = write(fd, line.data(), line.size());
  close(fd);
}

int End(const std::string& dir, coatrack::v1::Reason reason, int64_t step,
        const std::string& last_words) {
  std::fputs(last_words.c_str(), stdout);
  coatrack::v1::RankExit result;
  result.set_reason(reason);
  result.set_last_step(step);
  WriteResult(dir, result);
  return 0;
}

bool Terminated() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1;
}

int Train(const std::string& dir) {
  const auto launch = ReadLaunch(dir);
  if (!launch.ok()) return 3;
  const auto spec = ReadSpec(*launch);
  if (!spec.ok()) return 4;
  const auto label = [&](const char* name, const char* otherwise) {
    const auto it = spec->labels().find(name);
    return it == spec->labels().end() ? std::string(otherwise) : it->second;
  };
  const int64_t steps = std::stoll(label("steps", "1000000"));
  const int step_ms = std::stoi(label("step_ms", "10"));
  const int64_t kill_at = std::stoll(label("kill_self", "-1"));
  const int64_t checkpoint_at = std::stoll(label("checkpoint", "-1"));
  const std::string output_line(63, 'x');
  for (int64_t left = std::stoll(label("output", "0")); left > 0; left -= 64) {
    std::puts(output_line.c_str());
  }
  std::fflush(stdout);
  Socket socket(*launch);
  for (int64_t step = 1; step <= steps || (!label("get", "").empty() && !socket.got()); ++step) {
    socket.Serve(label("put", ""), label("get", ""));
    const bool stop = socket.stopped() || Terminated();
    if (stop && label("stubborn", "").empty()) {
      return End(dir, coatrack::v1::REASON_STOPPED, step - 1, label("last_words", ""));
    }
    if (step == kill_at) raise(SIGKILL);
    AppendRecord(dir, *launch, step, step == checkpoint_at ? "step-1.attempt-1" : "");
    std::this_thread::sleep_for(std::chrono::milliseconds(step_ms));
  }
  return End(dir, coatrack::v1::REASON_COMPLETED, steps, label("last_words", ""));
}

}  // namespace
}  // namespace coat

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--rank-dir") != 0) return 2;
  const std::string dir = argv[2];
  const auto status = coat::RunRankParent(dir, [&] { return coat::Train(dir); });
  return status.ok() ? *status : 1;
}
