// Loss curves, compared bit by bit.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"

namespace coat::testing {

struct Curve {
  std::map<int64_t, double> loss;        // by step
  std::map<int64_t, double> validation;  // by step
  std::string weights_hash;              // of the end
};

// Of rank 0; of a step that was done twice, the later attempt counts.
Curve ToCurve(const std::vector<coatrack::v1::StepRecord>& records);

// Runs the job by coat-train alone, without a service, in a folder below `dir`.
Curve RunAlone(const coatrack::v1::JobSpec& spec, const std::string& job_file,
               const std::string& data_root, const std::string& out_dir);

// Empty when both have the same steps with the same bits; else the first difference.
std::string Difference(const Curve& expected, const Curve& actual);

}  // namespace coat::testing
