#include "server/store/journal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "server/store/record_file.h"

namespace coat {
namespace {

constexpr char kLogMagic[4] = {'C', 'L', 'G', '1'};
constexpr int64_t kLogHeaderBytes = 16;
constexpr size_t kMaxArrivals = 256;
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

std::string LogHeader(bool final, bool truncated, int64_t start) {
  std::string header(kLogMagic, 4);
  header += {static_cast<char>(final), static_cast<char>(truncated), 0, 0};
  for (int shift = 0; shift < 64; shift += 8) header.push_back(static_cast<char>(start >> shift));
  return header;
}

bool Wanted(const coatrack::v1::StepRecord& record) {
  return record.rank() == 0 || record.memory_size() > 0 || record.health_size() > 0 ||
         !record.weights_hash().empty();
}

}  // namespace

Journal::Journal(std::string state_dir, JournalLimits limits)
    : state_dir_(std::move(state_dir)), limits_(limits) {
  queue_ = std::make_unique<WorkQueue<std::function<void()>>>(
      [](std::vector<std::function<void()>> tasks) {
        for (auto& task : tasks) task();
      });
}

Journal::~Journal() { queue_.reset(); }

std::string Journal::Folder(const std::string& job) const { return state_dir_ + "/jobs/" + job; }

std::string Journal::LogPath(const LogKey& key) const {
  return Folder(key.job) + "/log-" + std::to_string(key.attempt) + "-" + std::to_string(key.rank);
}

Journal::JobFiles& Journal::Open(const std::string& job) {
  const auto known = jobs_.find(job);
  if (known != jobs_.end()) {
    recent_.splice(recent_.begin(), recent_, known->second.use);
    return known->second;
  }
  if (jobs_.size() >= limits_.open_jobs) Close(recent_.back());
  JobFiles& files = jobs_[job];
  recent_.push_front(job);
  files.use = recent_.begin();
  files.generation = ++generations_;
  const std::string records = Folder(job) + "/records";
  const Result<std::string> bytes = ReadBytes(records, 0, kAll);
  if (bytes.ok() && !bytes->empty()) {
    ParseFrames(*bytes, &files.records_bytes);
    if (files.records_bytes < static_cast<int64_t>(bytes->size()) &&
        truncate(records.c_str(), files.records_bytes) != 0) {
      files.records_bytes = static_cast<int64_t>(bytes->size());
    }
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(Folder(job), error)) {
    LogKey key{job, 0, 0};
    const std::string name = entry.path().filename().string();
    if (std::sscanf(name.c_str(), "log-%d-%d", &key.attempt, &key.rank) != 2) continue;
    const Result<std::string> header = ReadBytes(LogPath(key), 0, kLogHeaderBytes);
    if (!header.ok() || header->size() < kLogHeaderBytes || header->compare(0, 4, kLogMagic, 4)) {
      continue;
    }
    Log& log = files.logs[{key.attempt, key.rank}];
    log.final = (*header)[4] != 0;
    log.truncated = (*header)[5] != 0;
    for (int i = 15; i >= 8; --i) {
      log.start = log.start << 8 | static_cast<unsigned char>((*header)[i]);
    }
    log.end = log.start + static_cast<int64_t>(entry.file_size(error)) - kLogHeaderBytes;
  }
  return files;
}

void Journal::Close(const std::string& job) {
  const auto known = jobs_.find(job);
  if (known == jobs_.end()) return;
  recent_.erase(known->second.use);
  jobs_.erase(known);
}

void Journal::AppendRecords(const std::string& job, std::vector<coatrack::v1::StepRecord> records,
                            std::function<void(Status)> done) {
  queue_->Push([this, job, records = std::move(records), done = std::move(done)] {
    done(DoAppendRecords(job, records));
  });
}

Status Journal::DoAppendRecords(const std::string& job,
                                const std::vector<coatrack::v1::StepRecord>& records) {
  JobFiles& files = Open(job);
  std::string bytes;
  for (const auto& record : records) {
    if (Wanted(record)) AppendFrame(record, &bytes);
  }
  if (bytes.empty()) return {};
  std::error_code error;
  std::filesystem::create_directories(Folder(job), error);
  RETURN_IF_ERROR(AppendBytes(Folder(job) + "/records", bytes));
  files.records_bytes += static_cast<int64_t>(bytes.size());
  if (files.records_bytes > limits_.records_bytes) return ThinRecords(job, &files);
  return {};
}

Status Journal::ThinRecords(const std::string& job, JobFiles* files) {
  const std::string path = Folder(job) + "/records";
  ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(path, 0, kAll));
  int64_t end = 0;
  std::string thinned;
  for (const auto& record : Thin(MergeRecords(ParseFrames(bytes, &end), -1))) {
    AppendFrame(record, &thinned);
  }
  RETURN_IF_ERROR(ReplaceFile(path, thinned));
  files->records_bytes = static_cast<int64_t>(thinned.size());
  files->generation = ++generations_;
  return {};
}

void Journal::ReadRecords(const std::string& job, int64_t after_step, RecordCursor cursor,
                          std::function<void(Result<RecordPage>)> done) {
  queue_->Push([this, job, after_step, cursor, done = std::move(done)] {
    done(DoReadRecords(job, after_step, cursor));
  });
}

Result<RecordPage> Journal::DoReadRecords(const std::string& job, int64_t after_step,
                                          RecordCursor cursor) {
  const JobFiles& files = Open(job);
  const bool whole = cursor.offset == 0 || cursor.generation != files.generation;
  const int64_t from = whole ? 0 : cursor.offset;
  RecordPage page;
  ASSIGN_OR_RETURN(const std::string bytes, ReadBytes(Folder(job) + "/records", from, kAll));
  int64_t end = 0;
  page.records = ParseFrames(bytes, &end);
  if (whole) page.records = MergeRecords(std::move(page.records), after_step);
  page.next = {files.generation, from + end};
  return page;
}

void Journal::AppendLog(const LogKey& key, LogPiece piece, int64_t wall_ms,
                        std::function<void(Result<int64_t>)> done) {
  queue_->Push([this, key, piece = std::move(piece), wall_ms, done = std::move(done)]() mutable {
    done(DoAppendLog(key, std::move(piece), wall_ms));
  });
}

Result<int64_t> Journal::DoAppendLog(const LogKey& key, LogPiece piece, int64_t wall_ms) {
  JobFiles& files = Open(key.job);
  DropOldAttempts(key, &files);
  Log& log = files.logs[{key.attempt, key.rank}];
  const std::string path = LogPath(key);
  std::error_code error;
  std::filesystem::create_directories(Folder(key.job), error);
  bool rewrite = log.end == 0 && log.start == 0;
  std::string kept;
  if (piece.offset > log.end) {
    log.truncated = true;
    log.start = log.end = piece.offset;
    rewrite = true;
  }
  const int64_t overlap = log.end - piece.offset;
  piece.data.erase(
      0, static_cast<size_t>(std::min<int64_t>(overlap, static_cast<int64_t>(piece.data.size()))));
  const auto added = static_cast<int64_t>(piece.data.size());
  if (log.end - log.start + added > limits_.log_bytes) {
    ASSIGN_OR_RETURN(kept, ReadBytes(path, kLogHeaderBytes, kAll));
    if (rewrite) kept.clear();
    const int64_t keep = std::max<int64_t>(0, limits_.log_bytes / 2 - added);
    if (static_cast<int64_t>(kept.size()) > keep) kept.erase(0, kept.size() - keep);
    if (added > limits_.log_bytes) piece.data.erase(0, piece.data.size() - limits_.log_bytes / 2);
    log.truncated = true;
    rewrite = true;
  }
  const bool flags_changed = piece.final && !log.final;
  log.final |= piece.final;
  log.truncated |= piece.truncated && log.start == piece.offset;
  const int64_t end = log.end + added;
  if (!rewrite && flags_changed) {
    ASSIGN_OR_RETURN(kept, ReadBytes(path, kLogHeaderBytes, kAll));
    rewrite = true;
  }
  if (rewrite) {
    log.start = end - static_cast<int64_t>(kept.size() + piece.data.size());
    RETURN_IF_ERROR(
        ReplaceFile(path, LogHeader(log.final, log.truncated, log.start) + kept + piece.data));
  } else if (added > 0) {
    RETURN_IF_ERROR(AppendBytes(path, piece.data));
  }
  if (added > 0) log.arrivals.emplace_back(log.end, wall_ms);
  if (log.arrivals.size() > kMaxArrivals) log.arrivals.erase(log.arrivals.begin());
  log.end = end;
  return end;
}

void Journal::DropOldAttempts(const LogKey& key, JobFiles* files) {
  std::error_code error;
  for (auto it = files->logs.begin();
       it != files->logs.end() && it->first.first <= key.attempt - limits_.attempts;) {
    std::filesystem::remove(LogPath({key.job, it->first.first, it->first.second}), error);
    it = files->logs.erase(it);
  }
}

void Journal::ReadLog(const LogKey& key, int64_t offset, int64_t max_bytes, int64_t since_ms,
                      std::function<void(Result<LogChunk>)> done) {
  queue_->Push([this, key, offset, max_bytes, since_ms, done = std::move(done)] {
    done(DoReadLog(key, offset, max_bytes, since_ms));
  });
}

Result<LogChunk> Journal::DoReadLog(const LogKey& key, int64_t offset, int64_t max_bytes,
                                    int64_t since_ms) {
  const JobFiles& files = Open(key.job);
  LogChunk chunk;
  for (const auto& [place, log] : files.logs) {
    if (place.second == key.rank && place.first > key.attempt) {
      chunk.next_attempt = place.first;
      break;
    }
  }
  const auto found = files.logs.find({key.attempt, key.rank});
  chunk.offset = offset;
  if (found == files.logs.end()) return chunk;
  const Log& log = found->second;
  const auto recent = std::find_if(log.arrivals.begin(), log.arrivals.end(),
                                   [&](const auto& arrival) { return arrival.second >= since_ms; });
  if (recent != log.arrivals.begin()) {
    chunk.offset = std::max(offset, recent == log.arrivals.end() ? log.end : recent->first);
  }
  if (chunk.offset < log.start) {
    chunk.offset = log.start;
    chunk.truncated = true;
  }
  if (chunk.offset == log.start && log.truncated) chunk.truncated = true;
  chunk.end = log.end;
  chunk.final = log.final;
  if (chunk.offset < log.end) {
    ASSIGN_OR_RETURN(
        chunk.data, ReadBytes(LogPath(key), kLogHeaderBytes + chunk.offset - log.start, max_bytes));
  }
  return chunk;
}

void Journal::Remove(std::vector<std::string> jobs) {
  queue_->Push([this, jobs = std::move(jobs)] {
    std::error_code error;
    for (const std::string& job : jobs) {
      Close(job);
      std::filesystem::remove_all(Folder(job), error);
    }
  });
}

}  // namespace coat
