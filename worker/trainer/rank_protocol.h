// The file and socket protocol between whoever starts ranks (the worker daemon, coat-train
// --nproc) and a rank (PROTOCOLS.md section 1). Library coat_rank_protocol: no engine, no gRPC.
//
// <state>/attempts/<job>/<attempt>/<rank>/
//   launch.json        RankLaunch: all that the rank needs
//   spec.json          JobSpec with defaults applied
//   alive              lock file: flock held by the rank's small parent process as long as the rank
//                      lives; its text is "<pid of the parent> <pid of the rank>\n"
//   exit.json          RankExit, renamed into place before the lock goes
//   records.jsonl      one StepRecord a line, appended by the rank
//   output.log         stdout and stderr of the rank
//   data_manifest.json DataManifest, what the rank's data set consists of
//   pinned             names of checkpoint directories that must not be deleted, a line each; the
//                      daemon may write it at any time, rank 0 reads it before it deletes
//
// records.jsonl and output.log are bounded: the parent punches their oldest part out of the file
// once they pass their limit. Offsets never move: an offset in the file is an offset in the stream,
// and what lies before the first data is gone. Needs a file system with flock and hole punching
// (ext4, xfs, btrfs, tmpfs, overlay). JSON is protobuf's own mapping.
//
// Every function may be called from any thread and process. A rank is started once per directory.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/status.h"

namespace coat {

inline constexpr char kAttemptsDir[] = "attempts";
inline constexpr char kLaunchFile[] = "launch.json";
inline constexpr char kSpecFile[] = "spec.json";
inline constexpr char kAliveFile[] = "alive";
inline constexpr char kExitFile[] = "exit.json";
inline constexpr char kRecordsFile[] = "records.jsonl";
inline constexpr char kOutputFile[] = "output.log";
inline constexpr char kDataManifestFile[] = "data_manifest.json";
inline constexpr char kPinnedFile[] = "pinned";
inline constexpr int64_t kRecordsLimitBytes = 64 << 20;
inline constexpr int64_t kOutputLimitBytes = 16 << 20;
inline constexpr int64_t kTrimBlockBytes = 64 << 10;  // holes start and end at multiples

// ---- directories ------------------------------------------------------------------------------
std::string RankDir(const std::string& state_dir, const std::string& job_id, int attempt, int rank);

struct RankDirEntry {
  std::string path;
  std::string job_id;
  int attempt = 0;
  int rank = 0;
};
// All rank directories below `state_dir`, sorted; other names are left out.
std::vector<RankDirEntry> ListRankDirs(const std::string& state_dir);
// Removes the directory of a rank that is not alive, and parents that became empty.
// kFailedPrecondition while it is alive.
Status RemoveRankDir(const std::string& state_dir, const RankDirEntry& entry);

// ---- files: written to a temporary name, synced, renamed ---------------------------------------
// Creates the directory and writes spec.json, then launch.json (spec_path is set to spec.json).
Status WriteLaunch(const std::string& dir, coatrack::v1::RankLaunch launch,
                   const coatrack::v1::JobSpec& spec);
Result<coatrack::v1::RankLaunch> ReadLaunch(const std::string& dir);
Result<coatrack::v1::JobSpec> ReadSpec(const coatrack::v1::RankLaunch& launch);
Status WriteExit(const std::string& dir, const coatrack::v1::RankExit& exit);
// kNotFound: the rank has not ended.
Result<coatrack::v1::RankExit> ReadExit(const std::string& dir);
Status WriteDataManifest(const std::string& dir, const coatrack::v1::DataManifest& manifest);
// kNotFound: the rank has not opened its data.
Result<coatrack::v1::DataManifest> ReadDataManifest(const std::string& dir);
Status WritePinned(const std::string& dir, const std::vector<std::string>& names);
std::vector<std::string> ReadPinned(const std::string& dir);  // empty when there is no such file

// ---- streams ------------------------------------------------------------------------------------
struct RecordChunk {
  std::vector<coatrack::v1::StepRecord> records;
  int64_t next_offset = 0;  // where the next call goes on; a line without its newline is not read
  bool truncated = false;   // something at or after the given offset was trimmed away
};
// Whole lines from `offset`, about max_bytes of them (at least one). A missing file reads as empty.
// A line that does not parse: kDataLoss naming file and offset.
//
// What a rank writes: one record a step with all of the step's values; after a save another one of
// the same step with the checkpoint's; a last one with PHASE_DONE. Records of one attempt and step
// add up (StepRecord::MergeFrom). Between them stand records that only show progress: written when
// a phase begins and, while the rank lives, once a second when the collective sequence has moved.
Result<RecordChunk> ReadRecords(const std::string& dir, int64_t offset, int64_t max_bytes);

// True: phase, step, sequence and time are all it says. Not part of a job's curve.
bool IsProgressOnly(const coatrack::v1::StepRecord& record);

struct OutputChunk {
  std::string data;
  int64_t offset = 0;       // of data's first byte; above the given one when truncated
  int64_t next_offset = 0;  // offset + data.size()
  bool truncated = false;
};
// At most max_bytes of output.log from `offset`. A missing file reads as empty.
Result<OutputChunk> ReadOutput(const std::string& dir, int64_t offset, int64_t max_bytes);
int64_t OutputSize(const std::string& dir);  // end offset; 0 for a missing file

// Drops what exceeds `limit_bytes` from the head of a stream file (see above).
Status TrimHead(const std::string& path, int64_t limit_bytes);

// ---- life and death -----------------------------------------------------------------------------
bool RankIsAlive(const std::string& dir);

struct RankPids {
  pid_t parent = 0;
  pid_t rank = 0;  // 0: not forked yet
};
Result<RankPids> ReadRankPids(const std::string& dir);  // kNotFound when not alive

// Starts `<trainer_path> --rank-dir <dir>` as a process of its own session, reparented to init (or
// the subreaper), stdin /dev/null, stdout and stderr appended to output.log, no other descriptor
// but the lock of `alive`, default signal handling. RankIsAlive(dir) holds on return.
// Errors: kFailedPrecondition when it is alive or has ended already; kNotFound when trainer_path
// cannot be executed.
Status SpawnRank(const std::string& dir, const std::string& trainer_path);

// Sends a signal to the rank itself (the parent then writes exit.json). SIGTERM: checkpoint at the
// next step, then stop. kNotFound when it is not alive.
Status SignalRank(const std::string& dir, int signal);

// ---- socket: a line of JSON each way ------------------------------------------------------------
// rank -> daemon: hello (first line of each connection), put, get.
// daemon -> rank: value (answer to a get, whenever it is known), stop (may be repeated).
// After a reconnect the rank says hello, puts its values again and repeats gets not yet answered.
enum class RankStop { kCheckpoint, kNow };

struct RankMessage {
  enum class Kind { kHello, kPut, kGet, kValue, kStop };
  Kind kind = Kind::kHello;
  std::string job_id;  // hello
  int attempt = 0;     // hello
  int rank = 0;        // hello
  std::string key;     // put, get, value
  std::string value;   // put, value: any bytes (hexadecimal on the wire)
  RankStop stop = RankStop::kCheckpoint;
};
inline constexpr int64_t kMaxMessageLineBytes = 1 << 20;

std::string FormatRankMessage(const RankMessage& message);  // with the newline
// kInvalidArgument naming the field. `line` without or with its newline.
Result<RankMessage> ParseRankMessage(std::string_view line);

}  // namespace coat
