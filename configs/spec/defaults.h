// Fills every field that has a default (proto/coatrack/v1/job.proto says which).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/daemon_config.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/spec/violation.h"

namespace coat {

// Resolves model.preset and sets every defaulted field that is not set; what is written stays.
// Afterwards every optional scalar is set, except what is required and missing (ValidateJobSpec
// names it), resources.threads, resources.time_limit, init_from, the one of data.tokenizer and
// data.token_format that does not apply, and train.deterministic with `device: auto` (placement
// decides; see Deterministic). Idempotent. Errors: an unknown preset.
Violations ApplyDefaults(coatrack::v1::JobSpec* spec);

void ApplyDefaults(coatrack::v1::ServerConfig* config);
void ApplyDefaults(coatrack::v1::WorkerConfig* config);
void ApplyDefaults(coatrack::v1::ClientConfig* config);

// train.deterministic where written, else true on the CPU and false on a GPU.
bool Deterministic(const coatrack::v1::JobSpec& spec, bool on_cpu);

// Names of configs/models, sorted; compiled in.
std::vector<std::string> PresetNames();
// YAML text of a preset; empty when there is none of that name.
std::string_view PresetYaml(std::string_view name);

// Home directory based path "~/.local/state/coatrack" made absolute ($HOME); other paths as is.
std::string ExpandHome(const std::string& path);

// Milliseconds of a duration field.
int64_t DurationMs(const google::protobuf::Duration& duration);

}  // namespace coat
