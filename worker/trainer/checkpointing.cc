#include "worker/trainer/checkpointing.h"

#include <cstdio>

#include "configs/base/clock.h"
#include "configs/base/error.h"
#include "configs/spec/writer.h"
#include "worker/checkpoint/sha256.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

struct Entry {
  std::string name;
  Tensor tensor;  // device memory
};

std::vector<int64_t> ShapeOf(const Tensor& tensor) {
  return {tensor.shape.begin(), tensor.shape.begin() + tensor.rank};
}

std::vector<Entry> Entries(Session* session) {
  std::vector<Entry> entries;
  for (const Parameter& p : session->model->parameters()) entries.push_back({p.name, p.master});
  for (const StateTensor& s : session->optimizer->StateTensors()) {
    entries.push_back({s.name, s.tensor});
  }
  return entries;
}

// What a rank writes: on the CPU the arena itself, from a GPU copies that live as long as this.
class Shard {
 public:
  explicit Shard(Session* session) {
    const std::vector<Entry> entries = Entries(session);
    std::vector<HostTensor> all;
    for (const Entry& e : entries) {
      all.push_back({e.name, e.tensor.dtype, ShapeOf(e.tensor), 0, e.tensor.numel(), nullptr});
    }
    tensors_ = AssignToRank(all, session->rank(), session->world_size());
    for (HostTensor& mine : tensors_) {
      for (const Entry& e : entries) {
        if (e.name == mine.name) mine.data = Fetch(session->ops.get(), e.tensor, mine);
      }
    }
    session->ops->Synchronize();
  }
  const std::vector<HostTensor>& tensors() const { return tensors_; }

 private:
  const void* Fetch(Ops* ops, const Tensor& tensor, const HostTensor& mine) {
    const int64_t element = ElementBytes(tensor.dtype);
    char* first = tensor.as<char>() + mine.first * element;
    if (ops->device() == DeviceType::kCpu) return first;
    copies_.emplace_back(static_cast<size_t>(mine.count * element));
    ops->ToHost(Tensor(first, tensor.dtype, {mine.count}), copies_.back().data());
    return copies_.back().data();
  }

  std::vector<HostTensor> tensors_;
  std::vector<std::vector<char>> copies_;
};

// Runs `part` and tells every rank how it went; all throw when one failed.
template <typename Part>
void Together(Session* session, const std::string& what, const Part& part) {
  Status status;
  try {
    part();
  } catch (const Error& e) {
    status = Status(e.code(), e.what());
  } catch (const std::exception& e) {
    status = Status(Code::kInternal, e.what());
  }
  const std::vector<int64_t> codes =
      session->collectives->AllGather(static_cast<int64_t>(status.code()));
  if (!status.ok()) throw Error(status);
  for (size_t r = 0; r < codes.size(); ++r) {
    const Code code = static_cast<Code>(codes[r]);
    if (code == Code::kOk) continue;
    throw Error(code, what + " failed on rank " + std::to_string(r) + ": " + CodeName(code) +
                          "; see that rank's output");
  }
}

// What cannot be deleted costs space, not the run.
void DeleteOld(Session* session) {
  std::vector<std::string> pinned = session->pinned();
  if (!session->launch.resume_dir().empty()) pinned.push_back(session->launch.resume_dir());
  try {
    ApplyRetention(session->launch.checkpoint_dir(), session->spec.checkpoint().keep(),
                   session->launch.attempt(), pinned);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "old checkpoints stay: %s\n", e.what());
  }
}

std::map<std::string, std::string> StateText(const Session& session) {
  const TrainState& state = session.state;
  return {{"applied_steps", std::to_string(state.applied_steps)},
          {"epoch", std::to_string(state.position.epoch)},
          {"index", std::to_string(state.position.index)},
          {"tokens_total", std::to_string(state.tokens_total)},
          {"skipped_total", std::to_string(state.skipped_total)},
          {"seed", std::to_string(session.spec.train().seed())},
          {"optimizer_state", session.optimizer->StateName()},
          {"spec", CanonicalText(session.spec)}};
}

int64_t StateNumber(const CheckpointInfo& info, const std::string& key) {
  const auto it = info.state.find(key);
  if (it == info.state.end()) {
    throw Error(Code::kDataLoss, info.path + ": the manifest's state has no '" + key + "'");
  }
  return std::stoll(it->second);
}

void CheckFits(const CheckpointReader& reader, const Entry& entry, bool any_dtype) {
  const std::string& path = reader.info().path;
  const std::string advice = "; the job's model or precision settings differ from the checkpoint's";
  if (!reader.Has(entry.name)) {
    throw Error(Code::kInvalidArgument, path + " has no tensor '" + entry.name + "'" + advice);
  }
  const HostTensor stored = reader.Describe(entry.name);
  if (stored.shape != ShapeOf(entry.tensor) || (!any_dtype && stored.dtype != entry.tensor.dtype)) {
    throw Error(Code::kInvalidArgument, path + ": tensor '" + entry.name + "' is " +
                                            DTypeName(stored.dtype) + " of " +
                                            std::to_string(stored.count) + " elements, the job's " +
                                            DTypeName(entry.tensor.dtype) + " of " +
                                            std::to_string(entry.tensor.numel()) + advice);
  }
}

void Load(const CheckpointReader& reader, const Entry& entry, Ops* ops) {
  std::vector<char> bytes(static_cast<size_t>(entry.tensor.bytes()));
  reader.Read(entry.name, 0, entry.tensor.numel(), bytes.data());
  ops->ToDevice(bytes.data(), entry.tensor);
  ops->Synchronize();
}

void LoadConverted(const CheckpointReader& reader, const Entry& entry, Ops* ops) {
  const DType stored = reader.Describe(entry.name).dtype;
  if (stored == entry.tensor.dtype) return Load(reader, entry, ops);
  const size_t count = static_cast<size_t>(entry.tensor.numel());
  std::vector<float> wide(count);
  std::vector<uint16_t> narrow(count);
  if (stored == DType::kF32 && entry.tensor.dtype == DType::kBF16) {
    reader.Read(entry.name, 0, entry.tensor.numel(), wide.data());
    for (size_t i = 0; i < count; ++i) narrow[i] = Bf16FromFloat(wide[i]);
    ops->ToDevice(narrow.data(), entry.tensor);
  } else if (stored == DType::kBF16 && entry.tensor.dtype == DType::kF32) {
    reader.Read(entry.name, 0, entry.tensor.numel(), narrow.data());
    for (size_t i = 0; i < count; ++i) wide[i] = FloatFromBf16(narrow[i]);
    ops->ToDevice(wide.data(), entry.tensor);
  } else {
    throw Error(Code::kInvalidArgument, reader.info().path + ": weights '" + entry.name + "' are " +
                                            DTypeName(stored) + ", not F32 or BF16");
  }
  ops->Synchronize();
}

}  // namespace

CheckpointInfo SaveCheckpoint(Session* session, const std::string& weights_hash) {
  const std::string& dir = session->launch.checkpoint_dir();
  const int32_t attempt = session->launch.attempt();
  CheckpointInfo info;
  info.step = session->state.step;
  info.attempt = attempt;
  info.time_ms = SystemClock().WallMs();
  info.finite = session->state.finite;
  info.spec_hash = Sha256Hex(CanonicalText(session->spec));
  info.weights_hash = weights_hash;
  info.state = StateText(*session);
  try {
    Together(session, "writing the checkpoint", [&] {
      WriteShard(TemporaryDir(dir, info.step, attempt), session->rank(), Shard(session).tensors());
    });
    Together(session, "committing the checkpoint", [&] {
      if (session->rank() == 0) info = Commit(dir, info, session->world_size());
    });
  } catch (const Error& e) {
    if (session->rank() == 0 && e.code() != Code::kCollective) {
      DiscardTemporary(dir, info.step, attempt);
    }
    throw;
  }
  if (session->rank() == 0) DeleteOld(session);
  return info;
}

void RestoreCheckpoint(const std::string& path, Session* session) {
  const CheckpointReader reader(path);
  const std::vector<Entry> entries = Entries(session);
  for (const Entry& entry : entries) CheckFits(reader, entry, false);
  for (const Entry& entry : entries) Load(reader, entry, session->ops.get());
  const CheckpointInfo& info = reader.info();
  TrainState& state = session->state;
  state.step = info.step;
  state.applied_steps = static_cast<int32_t>(StateNumber(info, "applied_steps"));
  state.position = {StateNumber(info, "epoch"), StateNumber(info, "index")};
  state.tokens_total = StateNumber(info, "tokens_total");
  state.skipped_total = StateNumber(info, "skipped_total");
  state.finite = info.finite;
  session->optimizer->SetAppliedSteps(state.applied_steps);
  session->model->WeightsChanged();
}

void LoadWeights(const std::string& path, Session* session) {
  const CheckpointReader reader(path);
  for (const Parameter& p : session->model->parameters()) {
    CheckFits(reader, {p.name, p.master}, true);
    LoadConverted(reader, {p.name, p.master}, session->ops.get());
  }
  session->model->WeightsChanged();
}

}  // namespace coat
