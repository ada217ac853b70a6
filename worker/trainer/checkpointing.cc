#include "worker/trainer/checkpointing.h"

#include <algorithm>
#include <cstdio>

#include "configs/base/clock.h"
#include "configs/base/error.h"
#include "configs/spec/writer.h"
#include "worker/checkpoint/sha256.h"
#include "worker/precision/bf16.h"
#include "worker/trainer/staged_copies.h"

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

// What this rank writes; `data` is device memory.
std::vector<HostTensor> Shard(Session* session) {
  std::vector<HostTensor> all;
  for (const Entry& e : Entries(session)) {
    all.push_back({e.name, e.tensor.dtype, ShapeOf(e.tensor), 0, e.tensor.numel(), e.tensor.data});
  }
  return AssignToRank(all, session->rank(), session->world_size());
}

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

void Load(const CheckpointReader& reader, const Entry& entry, StagedCopies* copies) {
  const int64_t element = ElementBytes(entry.tensor.dtype);
  copies->ToDevice(entry.tensor.data, entry.tensor.bytes(),
                   [&](int64_t offset, int64_t bytes, void* out) {
                     reader.Read(entry.name, offset / element, bytes / element, out);
                   });
}

// Elements [first, first + count), stored as From, as To.
template <typename From, typename To>
void ReadConverted(const CheckpointReader& reader, const std::string& name, int64_t first,
                   int64_t count, To (*convert)(From), void* out) {
  std::vector<From> stored(static_cast<size_t>(count));
  reader.Read(name, first, count, stored.data());
  std::transform(stored.begin(), stored.end(), static_cast<To*>(out), convert);
}

void LoadConverted(const CheckpointReader& reader, const Entry& entry, StagedCopies* copies) {
  const DType stored = reader.Describe(entry.name).dtype;
  const DType wanted = entry.tensor.dtype;
  if (stored == wanted) return Load(reader, entry, copies);
  const bool narrow = stored == DType::kF32 && wanted == DType::kBF16;
  if (!narrow && (stored != DType::kBF16 || wanted != DType::kF32)) {
    throw Error(Code::kInvalidArgument, reader.info().path + ": weights '" + entry.name + "' are " +
                                            DTypeName(stored) + ", not F32 or BF16");
  }
  const int64_t element = ElementBytes(wanted);
  copies->ToDevice(entry.tensor.data, entry.tensor.bytes(),
                   [&](int64_t offset, int64_t bytes, void* out) {
                     const int64_t first = offset / element, count = bytes / element;
                     if (narrow) {
                       ReadConverted(reader, entry.name, first, count, &Bf16FromFloat, out);
                     } else {
                       ReadConverted(reader, entry.name, first, count, &FloatFromBf16, out);
                     }
                   });
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
      StagedCopies copies(session->ops.get());
      WriteShard(TemporaryDir(dir, info.step, attempt), session->rank(), Shard(session),
                 [&](const HostTensor& tensor, int64_t bytes, const BytesSink& sink) {
                   copies.FromDevice(tensor.data, bytes, sink);
                 });
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
  StagedCopies copies(session->ops.get());
  for (const Entry& entry : entries) Load(reader, entry, &copies);
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
  StagedCopies copies(session->ops.get());
  for (const Parameter& p : session->model->parameters()) {
    CheckFits(reader, {p.name, p.master}, true);
    LoadConverted(reader, {p.name, p.master}, &copies);
  }
  session->model->WeightsChanged();
}

}  // namespace coat
