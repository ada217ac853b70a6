// coat-server: the coordinator. Wiring only.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "configs/base/error.h"
#include "configs/spec/load.h"
#include "server/api/server_process.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace coat {
namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;

struct Flags {
  std::string config;
  std::string listen, health_listen, metrics_listen, state_dir;
  bool insecure_plaintext = false;
  std::vector<std::string> set;
};

void Declare(CLI::App* app, Flags* flags) {
  app->add_option("-c,--config", flags->config, "Configuration file (configs/daemons/server.yaml)");
  app->add_option("--listen", flags->listen, "host:port of the API; port 0: any free one");
  app->add_option("--health-listen", flags->health_listen, "host:port of the health service alone");
  app->add_option("--metrics-listen", flags->metrics_listen, "host:port of the Prometheus pages");
  app->add_option("--state-dir", flags->state_dir, "Folder of database, logs and records");
  app->add_flag("--insecure-plaintext", flags->insecure_plaintext,
                "Listen beyond loopback without encryption");
  app->add_option("--set", flags->set, "path=value: any other field of the configuration")
      ->take_all();
}

std::vector<std::string> Overrides(const Flags& flags) {
  std::vector<std::string> overrides = flags.set;
  const auto add = [&](const char* field, const std::string& value) {
    if (!value.empty())
      overrides.push_back(std::string(field) + "=" + nlohmann::json(value).dump());
  };
  add("listen", flags.listen);
  add("health_listen", flags.health_listen);
  add("metrics_listen", flags.metrics_listen);
  add("state_dir", flags.state_dir);
  if (flags.insecure_plaintext) overrides.push_back("insecure_plaintext=true");
  return overrides;
}

int Serve(const Flags& flags) {
  const Result<coatrack::v1::ServerConfig> config =
      LoadServerConfig(flags.config, Overrides(flags));
  if (!config.ok()) {
    std::fprintf(stderr, "coat-server: %s\n", config.status().message().c_str());
    return kExitUsage;
  }
  // Blocked before any thread starts, so that only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  const auto logger = spdlog::stderr_color_mt("coat-server");
  const SystemClock clock;
  const Result<std::unique_ptr<ServerProcess>> server = ServerProcess::Start(
      *config, &clock, [logger](const std::string& line) { logger->info(line); });
  if (!server.ok()) {
    std::fprintf(stderr, "coat-server: %s\n", server.status().message().c_str());
    return kExitError;
  }
  const BoundPorts& ports = (*server)->ports();
  std::printf("coat-server listens on port %d, health on %d, metrics on %d, state in %s%s\n",
              ports.listen, ports.health, ports.metrics, config->state_dir().c_str(),
              config->insecure_plaintext() ? "" : " (loopback only)");
  std::fflush(stdout);
  int received = 0;
  sigwait(&signals, &received);
  logger->info("stopping");
  return 0;
}

}  // namespace
}  // namespace coat

int main(int argc, char** argv) {
  CLI::App app("The coordinator of Coatrack: API, queue, scheduler and state.", "coat-server");
  app.set_version_flag("--version", "coat-server 0.1.0");
  coat::Flags flags;
  coat::Declare(&app, &flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : coat::kExitUsage;
  }
  try {
    return coat::Serve(flags);
  } catch (const coat::Error& error) {
    std::fprintf(stderr, "coat-server: %s\n", error.what());
    return coat::kExitError;
  }
}
