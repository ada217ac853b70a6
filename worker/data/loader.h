// Batches in a seeded order with an exactly resumable position.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"

namespace coat {

// One sequence: T tokens and T targets (the next tokens; -1 where there is none).
struct Sample {
  std::vector<int32_t> tokens;
  std::vector<int32_t> targets;
};

// Position is (epoch, index in the epoch's order); `Next` of a step returns the sequences of all
// microbatches of all ranks, so that microbatch i is the same for any number of ranks.
struct DataPosition {
  int64_t epoch = 0;
  int64_t index = 0;
};

// Windows of T+1 tokens, consecutive windows overlapping by one token, the tail window padded
// with ignored targets, so that each token is predicted exactly once an epoch.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t train_samples() const = 0;
  virtual int64_t validation_samples() const = 0;
  virtual int64_t vocab_size() const = 0;  // least that holds every id the source may produce
  virtual Sample Train(int64_t epoch, int64_t index) const = 0;  // in the epoch's shuffled order
  virtual Sample Validation(int64_t index) const = 0;
  virtual const coatrack::v1::DataManifest& manifest() const = 0;
};

// Advances `position` by `count` sequences and returns them, epoch ends included.
std::vector<Sample> NextSamples(const Dataset& dataset, int64_t count, DataPosition* position);

// Resolves globs in byte order under data_root (links may not lead outside), maps the files.
// Errors: Error(kInvalidArgument) with path and offset for bad files (id >= vocab_size, header
// length against file size, too short for one window, ...); Error(kDataChanged) when
// `expected` is given and differs.
std::unique_ptr<Dataset> OpenDataset(const coatrack::v1::JobSpec& spec,
                                     const std::string& data_root,
                                     const coatrack::v1::DataManifest* expected);

}  // namespace coat
