#include "server/scheduler/explain.h"

#include "configs/base/units.h"

namespace coat {
namespace {

const char* KindName(coatrack::v1::DeviceKind kind) {
  return kind == coatrack::v1::DEVICE_KIND_GPU ? "gpu" : "cpu";
}

std::string Devices(int64_t count, coatrack::v1::DeviceKind kind) {
  return std::to_string(count) + " " + KindName(kind) + (count == 1 ? " device" : " devices");
}

std::string LabelText(const PendingJob& job) {
  std::string text;
  for (const auto& [name, value] : job.labels) {
    text += (text.empty() ? " with labels " : ", ") + name + "=" + value;
  }
  return text;
}

}  // namespace

std::string DescribeNeed(const Need& need) {
  return Devices(need.ranks, need.kind) + " of at least " + FormatBytes(need.bytes);
}

std::string ExplainStorage(const PendingJob& job, int64_t labelled_workers) {
  if (!job.root_uuid.empty()) {
    return "no worker" + LabelText(job) + " sees storage root '" + job.root + "' with UUID " +
           job.root_uuid + ", where the checkpoints of the earlier attempts are";
  }
  if (labelled_workers == 0) return "no worker" + LabelText(job) + " is registered";
  return "none of the " + std::to_string(labelled_workers) + " registered workers" +
         LabelText(job) + " has a storage root named '" + job.root +
         "'; set checkpoint.root to one of `coat workers`, or configure the root on a worker";
}

std::string ExplainNoFit(const PendingJob& job, const Need& need, int64_t largest_bytes,
                         int64_t devices) {
  std::string text = "needs " + DescribeNeed(need) + "; the workers" + LabelText(job) +
                     " that share storage root '" + job.root + "' have " +
                     Devices(devices, need.kind);
  if (devices > 0) text += ", the largest with " + FormatBytes(largest_bytes);
  return text + ": it will not start unless other workers join";
}

std::string ExplainUnusable(const Need& need) {
  return "needs " + DescribeNeed(need) +
         "; the workers that could hold it are unreachable, being cleaned or draining";
}

std::string ExplainBusy(const Need& need, const Cluster::FreeCount& free) {
  return "needs " + DescribeNeed(need) + "; free now: " + std::to_string(free.any) +
         (free.any > 0 ? ", large enough: " + std::to_string(free.fitting) : "");
}

std::string ExplainReserved(const Need& need, const Reservation& reservation) {
  return "needs " + DescribeNeed(need) + "; free ones are reserved for job " + reservation.job +
         ", which comes first";
}

std::string ExplainBackoff(int64_t wait_ms) {
  return "waits " + FormatDurationMs(wait_ms) + " before the next attempt";
}

}  // namespace coat
