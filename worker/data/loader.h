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
  int64_t index = 0;  // in [0, train_samples)
};

// Windows of T+1 tokens over the concatenation of all files, consecutive windows overlapping by
// one token, the tail window padded with ignored targets, so that each token but the very first
// is predicted exactly once an epoch (or held out). A text file is a document: its bytes and then
// the end token 256; an empty one is the end token alone. Shards of token files are joined as they
// are, so one shorter than a window loses nothing.
// The held-out windows are floor(validation_fraction x windows) of them, at least one when the
// fraction is above zero and there are two windows; drawn by a permutation that depends on nothing
// but their number. Immutable; all methods may be called from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t train_samples() const = 0;       // at least one
  virtual int64_t validation_samples() const = 0;  // may be zero: nothing to evaluate on
  virtual int64_t vocab_size() const = 0;  // least that holds every id the source may produce
  virtual int64_t tokens() const = 0;      // of all files, end tokens included
  // In the epoch's shuffled order (train.seed). Error(kInvalidArgument) for an index out of range.
  virtual Sample Train(int64_t epoch, int64_t index) const = 0;
  virtual Sample Validation(int64_t index) const = 0;
  virtual const coatrack::v1::DataManifest& manifest() const = 0;
};

// Advances `position` by `count` sequences and returns them, epoch ends included.
// Error(kInvalidArgument) when the position does not belong to this dataset.
std::vector<Sample> NextSamples(const Dataset& dataset, int64_t count, DataPosition* position);

// Resolves globs in byte order under data_root (links may not lead outside), maps the files.
// Defaults of the spec must be applied; tokens need model.vocab_size.
// Cost: one read of all files for SHA-256 and the range of the ids, several files at a time.
// Errors: Error(kInvalidArgument) with path and offset for bad files (id >= vocab_size, header
// length against file size, no whole number of ids, wrong element type, empty, uint16 with a
// vocabulary above 65536, fewer than T+1 tokens in all); Error(kDataChanged) naming the file when
// `expected` is given and differs; Error(kNotFound) without data_root; Error(kIo).
std::unique_ptr<Dataset> OpenDataset(const coatrack::v1::JobSpec& spec,
                                     const std::string& data_root,
                                     const coatrack::v1::DataManifest* expected);

}  // namespace coat
