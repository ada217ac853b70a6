// All parts of coat-server, put together in the order in which they depend on each other.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/base/clock.h"
#include "configs/base/status.h"

namespace coat {

struct BoundPorts {
  int listen = 0;
  int health = 0;
  int metrics = 0;
};

class ServerProcess {
 public:
  // `config` has defaults applied. Takes the state folder's lock, opens the database, binds the
  // ports, starts the loops and writes <state_dir>/ports.json. Errors: kInvalidArgument for an
  // address beyond loopback without insecure_plaintext, kFailedPrecondition when another process
  // holds the state folder, those of the store and of the ports.
  static Result<std::unique_ptr<ServerProcess>> Start(const coatrack::v1::ServerConfig& config,
                                                      const Clock* clock,
                                                      std::function<void(const std::string&)> log);
  // Ends streams and long polls, finishes writes.
  ~ServerProcess();

  const BoundPorts& ports() const;
  // Empty, or why the coordinator refuses to schedule.
  const std::string& refusal() const;

 private:
  struct Impl;
  explicit ServerProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coat
