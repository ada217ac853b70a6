#include "tests/e2e/curve.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "tests/e2e/cluster.h"
#include "tests/support/process.h"
#include "worker/trainer/rank_protocol.h"

namespace coat::testing {
namespace {

std::string Compare(const char* what, const std::map<int64_t, double>& expected,
                    const std::map<int64_t, double>& actual) {
  for (const auto& [step, value] : expected) {
    const auto it = actual.find(step);
    if (it == actual.end())
      return std::string(what) + " of step " + std::to_string(step) + " is missing";
    if (std::bit_cast<uint64_t>(it->second) != std::bit_cast<uint64_t>(value)) {
      return std::string(what) + " of step " + std::to_string(step) + " is " +
             std::to_string(it->second) + ", not " + std::to_string(value);
    }
  }
  if (actual.size() == expected.size()) return "";
  return std::string(what) + " has " + std::to_string(actual.size()) + " steps, not " +
         std::to_string(expected.size());
}

}  // namespace

Curve ToCurve(const std::vector<coatrack::v1::StepRecord>& records) {
  Curve curve;
  std::map<int64_t, int> attempt;
  for (const auto& record : records) {
    if (record.rank() != 0 || record.attempt() < attempt[record.step()]) continue;
    attempt[record.step()] = record.attempt();
    if (record.has_loss()) curve.loss[record.step()] = record.loss();
    if (record.has_validation_loss()) curve.validation[record.step()] = record.validation_loss();
    if (!record.weights_hash().empty()) curve.weights_hash = record.weights_hash();
  }
  return curve;
}

Curve RunAlone(const coatrack::v1::JobSpec& spec, const std::string& job_file,
               const std::string& data_root, const std::string& out_dir) {
  const Finished finished = RunProgram({Cluster::Program("coat-train"), "--job", job_file,
                                        "--data-root", data_root, "--out", out_dir, "--quiet"});
  EXPECT_EQ(finished.status, 0) << finished.out << finished.err;
  const auto chunk = ReadRecords(RankDir(out_dir, spec.name(), 1, 0), 0, kRecordsLimitBytes);
  EXPECT_TRUE(chunk.ok()) << chunk.status().message();
  return chunk.ok() ? ToCurve(chunk->records) : Curve();
}

std::string Difference(const Curve& expected, const Curve& actual) {
  std::string difference = Compare("loss", expected.loss, actual.loss);
  if (difference.empty()) {
    difference = Compare("validation loss", expected.validation, actual.validation);
  }
  if (difference.empty() && expected.weights_hash != actual.weights_hash) {
    difference = "the weights at the end have hash " + actual.weights_hash + ", not " +
                 expected.weights_hash;
  }
  return difference;
}

}  // namespace coat::testing
