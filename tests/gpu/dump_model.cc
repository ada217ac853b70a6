// Writes what torch_compare.py compares: a small model in recipe bf16, its weights, a batch, log
// probabilities at some positions and the gradients of the batch.
//   dump_model DEVICE OUT_DIR     writes OUT_DIR/{block,model,tied}.safetensors
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/worker/model/rig.h"
#include "worker/checkpoint/file_io.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/model/shape.h"

namespace coat {
namespace {

using namespace coatrack::v1;  // NOLINT: the schema's names

constexpr int64_t kPositions = 8;

JobSpec Job(int64_t layers, bool tied) {
  JobSpec spec = SmallJob();
  auto* model = spec.mutable_model();
  model->set_layers(layers);
  model->set_hidden_size(256);
  model->set_heads(4);
  model->set_kv_heads(2);
  model->set_intermediate_size(688);
  model->set_vocab_size(101);
  model->set_init_std(0.05);
  model->set_tie_embeddings(tied);
  spec.mutable_train()->set_sequence_length(64);
  spec.mutable_precision()->set_recipe(RECIPE_BF16);
  return spec;
}

class Dump {
 public:
  void Add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           const std::vector<uint8_t>& bytes) {
    entries_.push_back({name, dtype, shape, 0, 0});
    data_.insert(data_.end(), bytes.begin(), bytes.end());
  }
  template <typename T>
  void Add(const std::string& name, DType dtype, const std::vector<int64_t>& shape,
           const std::vector<T>& values) {
    const auto* first = reinterpret_cast<const uint8_t*>(values.data());
    Add(name, dtype, shape, std::vector<uint8_t>(first, first + values.size() * sizeof(T)));
  }
  void Write(const std::string& path, const std::map<std::string, std::string>& metadata) {
    OutputFile file(path);
    const std::string header = WriteSafetensorsHeader(&entries_, metadata);
    file.Write(header.data(), static_cast<int64_t>(header.size()));
    file.Write(data_.data(), static_cast<int64_t>(data_.size()));
    file.Close();
  }

 private:
  std::vector<SafetensorsEntry> entries_;
  std::vector<uint8_t> data_;
};

// Log probabilities of every token at a position: the loss with that position's target alone.
std::vector<float> LogProbabilities(const HostBatch& batch, int64_t position, Rig* rig) {
  std::vector<float> result;
  HostBatch one = batch;
  for (int64_t v = 0; v < rig->spec.model().vocab_size(); ++v) {
    one.targets.assign(one.targets.size(), -1);
    one.targets[static_cast<size_t>(position)] = static_cast<int32_t>(v);
    result.push_back(static_cast<float>(-rig->Evaluate(one)));
  }
  return result;
}

void DumpModel(const JobSpec& job, const std::string& device, const std::string& path) {
  Rig rig(job, nullptr, device);
  const ModelShape shape = ResolveShape(rig.spec);
  const HostBatch batch = rig.Random(5);
  Dump dump;
  dump.Add("tokens", DType::kI32, {shape.batch, shape.seq}, batch.tokens);
  dump.Add("targets", DType::kI32, {shape.batch, shape.seq}, batch.targets);
  std::vector<int32_t> positions;
  std::vector<float> log_probabilities;
  for (int64_t i = 0; i < kPositions; ++i) {
    const int64_t position = i * (rig.tokens() - 1) / (kPositions - 1);
    positions.push_back(static_cast<int32_t>(position));
    const std::vector<float> row = LogProbabilities(batch, position, &rig);
    log_probabilities.insert(log_probabilities.end(), row.begin(), row.end());
  }
  dump.Add("positions", DType::kI32, {kPositions}, positions);
  dump.Add("log_probabilities", DType::kF32, {kPositions, shape.vocab}, log_probabilities);
  rig.Step(batch);
  dump.Add("nll", DType::kF32, {1}, rig.FetchBytes(rig.model->nll()));
  for (const Parameter& parameter : rig.model->parameters()) {
    dump.Add("weight." + parameter.name, DType::kF32, parameter.shape, rig.Fetch(parameter.master));
    dump.Add("grad." + parameter.name, DType::kF32, parameter.shape, rig.Fetch(parameter.grad));
  }
  dump.Write(path, {{"layers", std::to_string(shape.layers)},
                    {"heads", std::to_string(shape.heads)},
                    {"kv_heads", std::to_string(shape.kv_heads)},
                    {"head_size", std::to_string(shape.head_size)},
                    {"norm_eps", std::to_string(shape.norm_eps)},
                    {"rope_theta", std::to_string(shape.rope_theta)},
                    {"tied", shape.tied ? "1" : "0"}});
  std::printf("%s\n", path.c_str());
}

}  // namespace
}  // namespace coat

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: dump_model cpu|cuda:0 OUT_DIR\n");
    return 2;
  }
  try {
    const std::string device = argv[1], out = argv[2];
    std::filesystem::create_directories(out);
    coat::DumpModel(coat::Job(1, false), device, out + "/block.safetensors");
    coat::DumpModel(coat::Job(4, false), device, out + "/model.safetensors");
    coat::DumpModel(coat::Job(2, true), device, out + "/tied.safetensors");
  } catch (const coat::Error& e) {
    std::fprintf(stderr, "dump_model: %s\n", e.what());
    return 1;
  }
  return 0;
}
