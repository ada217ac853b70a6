#include <algorithm>
#include <cmath>
#include <string>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/data/loader.h"
#include "worker/data/permutation.h"
#include "worker/data/source.h"

namespace coat {
namespace {

// Streams of the permutation that are not epochs.
constexpr uint64_t kSplitSeed = 0x636F6174;
constexpr uint64_t kSplitStream = ~uint64_t{0};

int64_t HeldOut(int64_t windows, double fraction) {
  if (fraction <= 0 || windows < 2) return 0;
  auto held_out = static_cast<int64_t>(std::floor(fraction * static_cast<double>(windows)));
  return std::clamp<int64_t>(held_out, 1, windows - 1);
}

class WindowDataset final : public Dataset {
 public:
  WindowDataset(DataSource source, int64_t length, double fraction, uint64_t seed)
      : source_(std::move(source)),
        length_(length),
        seed_(seed),
        split_(CeilDiv(source_.stream.size() - 1, length), kSplitSeed, kSplitStream),
        validation_samples_(HeldOut(split_.size(), fraction)) {}

  int64_t train_samples() const override { return split_.size() - validation_samples_; }
  int64_t validation_samples() const override { return validation_samples_; }
  int64_t vocab_size() const override { return source_.vocab_size; }
  int64_t tokens() const override { return source_.stream.size(); }
  const coatrack::v1::DataManifest& manifest() const override { return source_.manifest; }

  Sample Train(int64_t epoch, int64_t index) const override {
    CheckIndex("training", index, train_samples());
    Permutation order(train_samples(), seed_, static_cast<uint64_t>(epoch));
    return Window(split_(validation_samples_ + order(index)));
  }

  Sample Validation(int64_t index) const override {
    CheckIndex("validation", index, validation_samples_);
    return Window(split_(index));
  }

 private:
  static void CheckIndex(const char* what, int64_t index, int64_t size) {
    if (index >= 0 && index < size) return;
    throw Error(Code::kInvalidArgument, std::string(what) + " sample " + std::to_string(index) +
                                            " was asked for, there are " + std::to_string(size));
  }

  Sample Window(int64_t window) const {
    auto length = static_cast<size_t>(length_);
    int64_t first = window * length_;
    int64_t count = std::min(length_ + 1, source_.stream.size() - first);
    std::vector<int32_t> ids(length + 1, source_.pad_id);
    source_.stream.Copy(first, count, ids.data());
    Sample sample;
    sample.tokens.assign(ids.begin(), ids.end() - 1);
    sample.targets.assign(ids.begin() + 1, ids.end());
    std::fill(sample.targets.begin() + (count - 1), sample.targets.end(), -1);
    return sample;
  }

  DataSource source_;
  int64_t length_;  // T
  uint64_t seed_;
  Permutation split_;  // the first validation_samples_ places are held out
  int64_t validation_samples_;
};

}  // namespace

std::vector<Sample> NextSamples(const Dataset& dataset, int64_t count, DataPosition* position) {
  int64_t size = dataset.train_samples();
  if (position->epoch < 0 || position->index < 0 || position->index >= size) {
    throw Error(Code::kInvalidArgument, "data position (epoch " + std::to_string(position->epoch) +
                                            ", index " + std::to_string(position->index) +
                                            ") lies outside the " + std::to_string(size) +
                                            " training samples; it belongs to other data");
  }
  std::vector<Sample> samples;
  samples.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    samples.push_back(dataset.Train(position->epoch, position->index));
    if (++position->index == size) {
      position->index = 0;
      ++position->epoch;
    }
  }
  return samples;
}

std::unique_ptr<Dataset> OpenDataset(const coatrack::v1::JobSpec& spec,
                                     const std::string& data_root,
                                     const coatrack::v1::DataManifest* expected) {
  int64_t length = spec.train().sequence_length();
  if (length < 1) {
    throw Error(Code::kInvalidArgument, "train.sequence_length must be at least 1");
  }
  double fraction =
      spec.data().has_validation_fraction() ? spec.data().validation_fraction() : 0.05;
  if (!(fraction >= 0 && fraction <= 0.5)) {
    throw Error(Code::kInvalidArgument, "data.validation_fraction must lie in [0, 0.5]");
  }
  DataSource source = OpenSource(spec, data_root, expected);
  if (source.stream.size() < length + 1) {
    throw Error(Code::kInvalidArgument,
                data_root + "/" + source.manifest.files(0).path() + " and the other " +
                    std::to_string(source.manifest.files_size() - 1) + " files have " +
                    std::to_string(source.stream.size()) + " tokens in all, fewer than " +
                    "train.sequence_length + 1 = " + std::to_string(length + 1));
  }
  return std::make_unique<WindowDataset>(std::move(source), length, fraction, spec.train().seed());
}

}  // namespace coat
