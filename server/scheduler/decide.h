// Placement policy (SERVICE.md, scheduling).
#pragma once

#include "server/scheduler/snapshot.h"

namespace coat {

// One pass over the queue. Every job of the snapshot is either placed or waits with a reason.
//  - Order: priority, then submission. A gang is placed whole or not at all, on devices of one
//    kind, on workers that carry its labels and see one storage root, each device with at least
//    the predicted bytes, on as few hosts as possible.
//  - `auto` means GPUs when the registered workers could ever hold the gang on GPUs, else CPUs.
//  - The first job that fits the registered workers when idle but not now is the head: the workers
//    where it can start earliest are reserved. Later jobs go onto other workers, or onto reserved
//    ones when their time limit ends before the head's known start.
//  - A job that no idle set of registered workers holds, whose storage nobody sees, or that backs
//    off, reserves nothing and is never the head.
// 10,000 jobs x 1,000 workers take at most 100 ms, a gang of 128 ranks at most 10 ms.
Decision Decide(const Snapshot& snapshot);

}  // namespace coat
