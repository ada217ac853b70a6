// Between a session and checkpoint directories.
#pragma once

#include <string>

#include "worker/checkpoint/checkpoint.h"
#include "worker/trainer/session.h"

namespace coat {

// Collective: every rank writes its share, rank 0 commits and then applies retention. Returns what
// was committed, on every rank (path, bytes and time as rank 0 has them are on rank 0 only).
// Throws on all ranks alike: Error(kResourceExhausted) when a disk is full or a quota used up
// (nothing of this save remains, older checkpoints stay), Error(kIo) and others likewise.
CheckpointInfo SaveCheckpoint(Session* session, const std::string& weights_hash);

// Weights, optimizer state, step, t, data position: training goes on bitwise as if it had never
// stopped. Error(kInvalidArgument) naming the tensor when the checkpoint is of another model or
// optimizer state; Error(kDataLoss) when it is damaged.
void RestoreCheckpoint(const std::string& path, Session* session);

// Weights alone, converted between F32 and BF16 where masters differ (init_from).
void LoadWeights(const std::string& path, Session* session);

}  // namespace coat
