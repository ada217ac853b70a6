// Reading records.jsonl past damaged lines, which a full disk can leave behind.
#pragma once

#include <cstdint>
#include <string>

#include "worker/trainer/rank_protocol.h"

namespace coat {

// ReadRecords (rank_protocol.h), but a line that is no record is logged and skipped. Each call
// makes progress unless nothing but an unfinished line is left: then next_offset is `offset`.
Result<RecordChunk> ReadGoodRecords(const std::string& dir, int64_t offset, int64_t max_bytes);

}  // namespace coat
