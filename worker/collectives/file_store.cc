#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "configs/base/error.h"
#include "worker/collectives/collectives.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

// A value is written to a name of the writer's own and renamed, so a reader sees all of it or none.
class FileStore final : public RendezvousStore {
 public:
  explicit FileStore(const std::string& dir) : dir_(dir) {
    std::error_code error;
    fs::create_directories(dir_, error);
    if (error) {
      throw Error(Code::kIo, "rendezvous: cannot create " + dir_ + ": " + error.message());
    }
  }

  void Put(const std::string& key, const std::string& value) override {
    const std::string path = PathOf(key);
    std::ostringstream temporary;
    temporary << path << ".tmp" << std::this_thread::get_id();
    {
      std::ofstream out(temporary.str(), std::ios::binary | std::ios::trunc);
      out << value;
      out.close();
      if (!out) throw Error(Code::kIo, "rendezvous: cannot write " + temporary.str());
    }
    std::error_code error;
    fs::rename(temporary.str(), path, error);
    if (error) throw Error(Code::kIo, "rendezvous: cannot rename " + path + ": " + error.message());
  }

  std::string Get(const std::string& key, int timeout_ms) override {
    const std::string path = PathOf(key);
    const auto deadline = SteadyClock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
      std::ifstream in(path, std::ios::binary);
      if (in) {
        std::ostringstream value;
        value << in.rdbuf();
        return value.str();
      }
      if (SteadyClock::now() >= deadline) {
        throw Error(Code::kDeadlineExceeded, "rendezvous: nobody put '" + key + "' within " +
                                                 std::to_string(timeout_ms) + " ms in " + dir_);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

 private:
  // Any key is a file name: what is not a letter, digit, '-' or '_' becomes '.' and its code.
  std::string PathOf(const std::string& key) const {
    std::string name = dir_ + "/";
    for (const char c : key) {
      if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_') {
        name += c;
      } else {
        name += "." + std::to_string(static_cast<unsigned char>(c)) + ".";
      }
    }
    return name;
  }

  const std::string dir_;
};

}  // namespace

std::unique_ptr<RendezvousStore> CreateFileStore(const std::string& dir) {
  return std::make_unique<FileStore>(dir);
}

}  // namespace coat
