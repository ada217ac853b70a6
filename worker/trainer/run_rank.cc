#include "worker/trainer/run_rank.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <new>

#include "configs/base/error.h"
#include "worker/trainer/exit_reason.h"
#include "worker/trainer/rank_parent.h"
#include "worker/trainer/rank_protocol.h"
#include "worker/trainer/signal_watch.h"
#include "worker/trainer/socket_store.h"
#include "worker/trainer/train_loop.h"

namespace coat {
namespace {

using coatrack::v1::RankExit;
using coatrack::v1::RankLaunch;
using coatrack::v1::Reason;

template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) throw Error(result.status());
  return std::move(result).value();
}

void ThrowUnlessOk(const Status& status) {
  if (!status.ok()) throw Error(status);
}

std::unique_ptr<RendezvousStore> MakeStore(const RankLaunch& launch, std::atomic<bool>* stop) {
  if (!launch.socket_path().empty()) return std::make_unique<SocketStore>(launch, stop);
  if (!launch.store_dir().empty()) return CreateFileStore(launch.store_dir());
  if (launch.world_size() == 1) return nullptr;
  throw Error(Code::kInvalidArgument, "launch: more than one rank needs socket_path or store_dir");
}

std::unique_ptr<Collectives> Connect(const RankLaunch& launch, RendezvousStore* store) {
  CollectiveOptions options;
  options.rank = launch.rank();
  options.world_size = launch.world_size();
  if (!launch.advertise_address().empty()) options.address = launch.advertise_address();
  return CreateGlooCollectives(options, store);
}

// `last_step` follows the run, so that it is known when an Error passes.
Outcome Train(const std::string& dir, int64_t* last_step) {
  const RankLaunch launch = ValueOrThrow(ReadLaunch(dir));
  const coatrack::v1::JobSpec spec = ValueOrThrow(ReadSpec(launch));
  const SystemClock clock;
  RecordFile records(dir + "/" + kRecordsFile);
  Progress progress(launch.attempt(), launch.rank(), &records, &clock);
  progress.Enter(coatrack::v1::PHASE_LOAD, 0);
  std::atomic<bool> stop{false};
  const SignalWatch watch(&stop, [&progress] { progress.Tick(); });
  const std::unique_ptr<RendezvousStore> store = MakeStore(launch, &stop);
  const std::unique_ptr<Session> session =
      BuildSession(launch, spec, [&] { return Connect(launch, store.get()); });
  session->pinned = [&dir] { return ReadPinned(dir); };
  ThrowUnlessOk(WriteDataManifest(dir, session->dataset->manifest()));
  progress.SetCollectives(session->collectives.get());
  TrainLoop loop(session.get(), &progress, &stop);
  try {
    const Outcome outcome = loop.Run();
    progress.SetCollectives(nullptr);
    *last_step = session->state.step;
    return outcome;
  } catch (...) {
    progress.SetCollectives(nullptr);
    *last_step = session->state.step;
    throw;
  }
}

RankExit Describe(const std::string& dir) {
  RankExit exit;
  int64_t last_step = 0;
  try {
    const Outcome outcome = Train(dir, &last_step);
    exit.set_reason(outcome == Outcome::kCompleted ? Reason::REASON_COMPLETED
                                                   : Reason::REASON_STOPPED);
    if (outcome == Outcome::kStopped) {
      exit.set_message("stopped as asked after step " + std::to_string(last_step));
    }
  } catch (const Error& e) {
    exit.set_reason(ReasonOf(e.code()));
    exit.set_message(e.what());
  } catch (const std::bad_alloc&) {
    exit.set_reason(Reason::REASON_HOST_OOM);
    exit.set_message("the host refused memory outside the arena; use a host with more memory");
  } catch (const std::exception& e) {
    exit.set_reason(Reason::REASON_INTERNAL);
    exit.set_message(e.what());
  }
  const bool ok =
      exit.reason() == Reason::REASON_COMPLETED || exit.reason() == Reason::REASON_STOPPED;
  exit.set_exit_status(ok ? 0 : 1);
  exit.set_last_step(last_step);
  return exit;
}

}  // namespace

int RunRank(const std::string& dir) {
  const RankExit exit = Describe(dir);
  if (exit.exit_status() != 0) std::fprintf(stderr, "error: %s\n", exit.message().c_str());
  const Status written = WriteResult(dir, exit);
  if (!written.ok()) std::fprintf(stderr, "error: %s\n", written.message().c_str());
  return exit.exit_status();
}

}  // namespace coat
