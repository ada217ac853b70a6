#include "worker/supervisor/flags.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "configs/spec/load.h"

namespace coat {
namespace {

struct Written {  // what stood on the command line
  std::string config_file;
  std::vector<std::pair<std::string, std::optional<std::string>>> text;  // field, value
  std::vector<std::string> roots;                                        // NAME=PATH
  std::vector<std::string> labels;                                       // KEY=VALUE
  std::optional<std::string> drain_grace;
  std::optional<int> cpu_slots;
  std::optional<int64_t> reserve_bytes;
  bool insecure_plaintext = false;
};

struct TextFlag {
  const char* flag;
  const char* field;
  const char* help;
};
constexpr TextFlag kTextFlags[] = {
    {"--name", "name", "Name of this worker (default: the host's)"},
    {"--server", "server", "Coordinator, host:port"},
    {"--state-dir", "state_dir", "Folder for what survives a restart"},
    {"--data-root", "data_root", "Folder that data paths of jobs are relative to"},
    {"--advertise-address", "advertise_address", "Where other workers' ranks reach this host"},
    {"--health-listen", "health_listen", "host:port of the health service; port 0: any"},
    {"--metrics-listen", "metrics_listen", "host:port of the Prometheus page; port 0: any"},
    {"--trainer-path", "trainer_path", "coat-train (default: beside this program)"},
    {"--dcgm-job-dir", "dcgm_job_dir",
     "Folder for the job-mapping files of dcgm-exporter (its --hpc-job-mapping-dir)"},
};

void AddFlags(CLI::App* app, Written* written) {
  app->add_option("--config", written->config_file, "Configuration file (YAML)");
  written->text.reserve(std::size(kTextFlags));  // the parser keeps addresses
  for (const TextFlag& flag : kTextFlags) {
    auto& [field, value] = written->text.emplace_back(flag.field, std::nullopt);
    app->add_option(flag.flag, value, flag.help);
  }
  app->add_option("--drain-grace", written->drain_grace,
                  "Time ranks have to checkpoint at SIGTERM, for example 60s");
  app->add_option("--root", written->roots,
                  "Storage root NAME=PATH; may be repeated; replaces those of the file");
  app->add_option("--label", written->labels, "Label KEY=VALUE; may be repeated");
  app->add_option("--cpu-slots", written->cpu_slots, "CPU devices to offer; 0: none");
  app->add_option("--reserve-bytes", written->reserve_bytes,
                  "Bytes a rank needs outside its planned memory");
  app->add_flag("--insecure-plaintext", written->insecure_plaintext,
                "Accept unencrypted traffic beyond loopback");
}

Result<std::pair<std::string, std::string>> Split(const char* flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return Status(Code::kInvalidArgument,
                  std::string(flag) + ": \"" + text + "\" has not the form NAME=VALUE");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// A JSON string is a YAML string, whatever it contains.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

// "field=value" as the loader takes them.
Result<std::vector<std::string>> Overrides(const Written& written) {
  std::vector<std::string> overrides;
  for (const auto& [field, value] : written.text) {
    if (value) overrides.push_back(field + "=" + Quoted(*value));
  }
  if (written.drain_grace) overrides.push_back("drain_grace=" + *written.drain_grace);
  if (written.cpu_slots) overrides.push_back("cpu_slots=" + std::to_string(*written.cpu_slots));
  if (written.reserve_bytes) {
    overrides.push_back("reserve_bytes=" + std::to_string(*written.reserve_bytes));
  }
  if (written.insecure_plaintext) overrides.emplace_back("insecure_plaintext=true");
  for (const std::string& text : written.labels) {
    ASSIGN_OR_RETURN(const auto parts, Split("--label", text));
    overrides.push_back("labels." + parts.first + "=" + Quoted(parts.second));
  }
  std::string roots;
  for (const std::string& text : written.roots) {
    ASSIGN_OR_RETURN(const auto parts, Split("--root", text));
    roots += (roots.empty() ? "" : ", ") + std::string("{name: ") + Quoted(parts.first) +
             ", path: " + Quoted(parts.second) + "}";
  }
  if (!roots.empty()) overrides.push_back("roots=[" + roots + "]");
  return overrides;
}

}  // namespace

Result<WorkerFlags> ParseWorkerFlags(int argc, const char* const* argv) {
  CLI::App app("Worker daemon of Coatrack: offers this host's devices and runs ranks on them",
               "coat-worker");
  app.set_version_flag("--version", COAT_VERSION);
  Written written;
  AddFlags(&app, &written);
  WorkerFlags flags;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    flags.done = true;
    return flags;
  } catch (const CLI::ParseError& error) {
    return Status(Code::kInvalidArgument,
                  std::string(error.what()) + "; coat-worker --help lists the flags");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> overrides, Overrides(written));
  ASSIGN_OR_RETURN(flags.config, LoadWorkerConfig(written.config_file, overrides));
  return flags;
}

}  // namespace coat
