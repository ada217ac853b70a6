#include "worker/trainer/socket_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "configs/base/error.h"
#include "tests/support/process.h"

namespace coat {
namespace {

using ::testing::HasSubstr;
using testing::TempDir;
using testing::WaitUntil;
using Kind = RankMessage::Kind;

// The daemon's end, one connection at a time.
class FakeDaemon {
 public:
  explicit FakeDaemon(const std::string& path) {
    ::unlink(path.c_str());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_, 4) != 0) {
      throw std::runtime_error("bind " + path);
    }
  }
  ~FakeDaemon() {
    if (connection_ >= 0) ::close(connection_);
    ::close(listener_);
  }
  void Accept() {
    pollfd ready{listener_, POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 10'000), 1) << "nobody connected";
    connection_ = ::accept(listener_, nullptr, nullptr);
  }
  RankMessage Next() {
    while (buffer_.find('\n') == std::string::npos) {
      pollfd ready{connection_, POLLIN, 0};
      char chunk[1000];
      if (::poll(&ready, 1, 10'000) != 1) throw std::runtime_error("no message");
      const ssize_t n = ::recv(connection_, chunk, sizeof(chunk), 0);
      if (n <= 0) throw std::runtime_error("connection closed");
      buffer_.append(chunk, static_cast<size_t>(n));
    }
    const size_t end = buffer_.find('\n');
    const Result<RankMessage> message = ParseRankMessage(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    if (!message.ok()) throw std::runtime_error(message.status().message());
    return *message;
  }
  void Send(const RankMessage& message) {
    const std::string line = FormatRankMessage(message);
    ASSERT_EQ(::send(connection_, line.data(), line.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(line.size()));
  }

 private:
  int listener_ = -1;
  int connection_ = -1;
  std::string buffer_;
};

RankMessage Value(const std::string& key, const std::string& value) {
  RankMessage message;
  message.kind = Kind::kValue;
  message.key = key;
  message.value = value;
  return message;
}

class SocketStoreTest : public ::testing::Test {
 protected:
  SocketStoreTest() {
    launch_.set_job_id("job");
    launch_.set_attempt(2);
    launch_.set_rank(1);
    launch_.set_socket_path(dir_.file("socket"));
  }
  TempDir dir_;
  coatrack::v1::RankLaunch launch_;
  std::atomic<bool> stop_{false};
};

TEST_F(SocketStoreTest, PutsAndGets) {
  FakeDaemon daemon(launch_.socket_path());
  SocketStore store(launch_, &stop_);
  daemon.Accept();
  const RankMessage hello = daemon.Next();
  EXPECT_EQ(hello.kind, Kind::kHello);
  EXPECT_EQ(hello.job_id, "job");
  EXPECT_EQ(hello.attempt, 2);
  EXPECT_EQ(hello.rank, 1);
  store.Put("gloo/1", std::string("\0a", 2));
  const RankMessage put = daemon.Next();
  EXPECT_EQ(put.kind, Kind::kPut);
  EXPECT_EQ(put.value, std::string("\0a", 2));
  auto got = std::async(std::launch::async, [&] { return store.Get("gloo/0", 10'000); });
  const RankMessage get = daemon.Next();
  EXPECT_EQ(get.kind, Kind::kGet);
  EXPECT_EQ(get.key, "gloo/0");
  daemon.Send(Value("gloo/0", "address"));
  EXPECT_EQ(got.get(), "address");
  EXPECT_EQ(store.Get("gloo/0", 10), "address");  // known from now on
}

TEST_F(SocketStoreTest, RepeatsItselfToADaemonThatComesBack) {
  auto daemon = std::make_unique<FakeDaemon>(launch_.socket_path());
  SocketStore store(launch_, &stop_);
  daemon->Accept();
  daemon->Next();
  store.Put("a", "1");
  daemon->Next();
  auto got = std::async(std::launch::async, [&] { return store.Get("b", 20'000); });
  daemon->Next();
  daemon.reset();
  store.Put("c", "3");  // while it is away
  daemon = std::make_unique<FakeDaemon>(launch_.socket_path());
  daemon->Accept();
  EXPECT_EQ(daemon->Next().kind, Kind::kHello);
  EXPECT_EQ(daemon->Next().key, "a");
  EXPECT_EQ(daemon->Next().key, "c");
  const RankMessage get = daemon->Next();
  EXPECT_EQ(get.kind, Kind::kGet);
  EXPECT_EQ(get.key, "b");
  daemon->Send(Value("b", "2"));
  EXPECT_EQ(got.get(), "2");
}

TEST_F(SocketStoreTest, StopReachesTheFlagAndAWaitingGet) {
  FakeDaemon daemon(launch_.socket_path());
  SocketStore store(launch_, &stop_);
  daemon.Accept();
  daemon.Next();
  auto got = std::async(std::launch::async, [&] { return store.Get("never", 20'000); });
  daemon.Next();
  RankMessage stop;
  stop.kind = Kind::kStop;
  daemon.Send(stop);
  EXPECT_TRUE(WaitUntil([&] { return stop_.load(); }));
  try {
    got.get();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kStopped);
  }
}

TEST_F(SocketStoreTest, StopAtOnceEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        FakeDaemon daemon(launch_.socket_path());
        SocketStore store(launch_, &stop_);
        daemon.Accept();
        RankMessage stop;
        stop.kind = Kind::kStop;
        stop.stop = RankStop::kNow;
        daemon.Send(stop);
        WaitUntil([] { return false; });
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST_F(SocketStoreTest, TimeOutNamesTheKey) {
  SocketStore store(launch_, &stop_);  // no daemon at all
  try {
    store.Get("gloo/3", 50);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kDeadlineExceeded);
    EXPECT_THAT(e.what(), HasSubstr("'gloo/3'"));
  }
}

TEST_F(SocketStoreTest, TooLongAPathIsRefused) {
  launch_.set_socket_path("/" + std::string(200, 'x'));
  EXPECT_THROW(SocketStore(launch_, &stop_), Error);
}

}  // namespace
}  // namespace coat
