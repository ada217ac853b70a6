#include "worker/trainer/flags.h"

#include <charconv>
#include <functional>
#include <map>

namespace coat {
namespace {

struct Option {
  bool takes_value = true;
  std::function<Status(const std::string&)> set;
};
using Options = std::map<std::string, Option>;

Status UsageError(const std::string& what) {
  return Status(Code::kInvalidArgument, what + "; see coat-train --help");
}

std::function<Status(const std::string&)> Text(std::string* out) {
  return [out](const std::string& value) {
    *out = value;
    return value.empty() ? UsageError("a flag's value is empty") : Status();
  };
}

std::function<Status(const std::string&)> Number(const char* flag, int* out) {
  return [flag, out](const std::string& value) {
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, *out);
    if (error == std::errc() && stop == end && *out >= 1 && *out <= 4096) return Status();
    return UsageError(std::string(flag) + " takes a number from 1 to 4096, not '" + value + "'");
  };
}

Option Switch(bool* out) {
  return {false, [out](const std::string&) {
            *out = true;
            return Status();
          }};
}

Options TableFor(TrainFlags* flags) {
  return {
      {"--help", Switch(&flags->help)},
      {"-h", Switch(&flags->help)},
      {"--version", Switch(&flags->version)},
      {"--resume", Switch(&flags->resume)},
      {"--quiet", Switch(&flags->quiet)},
      {"-q", Switch(&flags->quiet)},
      {"--job", {true, Text(&flags->job)}},
      {"-f", {true, Text(&flags->job)}},
      {"--data-root", {true, Text(&flags->data_root)}},
      {"--out", {true, Text(&flags->out)}},
      {"--rank-dir", {true, Text(&flags->rank_dir)}},
      {"--nproc", {true, Number("--nproc", &flags->nproc)}},
      {"--threads", {true, Number("--threads", &flags->threads)}},
      {"--set",
       {true,
        [flags](const std::string& value) {
          if (value.find('=') == std::string::npos) {
            return UsageError("--set takes path=value, not '" + value + "'");
          }
          flags->overrides.push_back(value);
          return Status();
        }}},
  };
}

}  // namespace

Result<TrainFlags> ParseTrainFlags(const std::vector<std::string>& arguments) {
  TrainFlags flags;
  const Options options = TableFor(&flags);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const size_t equals = argument.rfind("--", 0) == 0 ? argument.find('=') : std::string::npos;
    const std::string name = argument.substr(0, equals);
    const auto option = options.find(name);
    if (option == options.end()) return UsageError("unknown argument '" + argument + "'");
    std::string value;
    if (!option->second.takes_value) {
      if (equals != std::string::npos) return UsageError(name + " takes no value");
    } else if (equals != std::string::npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return UsageError(name + " needs a value");
    }
    RETURN_IF_ERROR(option->second.set(value));
  }
  if (flags.help || flags.version || !flags.rank_dir.empty()) return flags;
  if (flags.job.empty()) return UsageError("--job is required");
  return flags;
}

const char* TrainHelp() {
  return R"(coat-train: trains one job on this machine, without a server.

usage: coat-train --job job.yaml [options]

  -f, --job FILE         the job (YAML; configs/jobs has examples), - for standard input
      --nproc N          ranks to start (default: resources.ranks of the job)
      --data-root DIR    folder that the job's data paths are relative to
                         (default: the folder of the job file)
      --out DIR          where checkpoints, records and output go (default: coat-runs/<job name>)
      --threads N        CPU threads of a rank (default: resources.threads, else cores / ranks)
      --set PATH=VALUE   changes a field of the job, for example --set train.steps=20; repeatable
      --resume           go on from the newest complete checkpoint in --out
  -q, --quiet            print nothing but errors
      --rank-dir DIR     be one rank, as DIR/launch.json says (used by coat-worker and --nproc)
      --version          print the version
  -h, --help             print this text

Ctrl-C stops all ranks after the same step, with a checkpoint; a second one stops at once.
exit status: 0 trained to the end, 1 failed, 2 wrong usage, 130 stopped before the end
)";
}

}  // namespace coat
