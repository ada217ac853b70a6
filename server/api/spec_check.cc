#include "server/api/spec_check.h"

#include <openssl/sha.h>

#include <algorithm>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "configs/spec/defaults.h"
#include "configs/spec/validate.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;

int64_t LargestRankBytes(const JobSpec& spec, DeviceType device) {
  const int ranks = spec.resources().ranks();
  int64_t bytes = MakePlan(spec, 0, ranks, device).total_bytes;
  if (ranks > 1) bytes = std::max(bytes, MakePlan(spec, ranks - 1, ranks, device).total_bytes);
  return bytes;
}

}  // namespace

std::string Sha256Hex(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

CheckedSpec CheckSpec(const JobSpec& submitted, bool with_bf16) {
  CheckedSpec checked;
  if (static_cast<int64_t>(submitted.ByteSizeLong()) > kMaxSubmittedSpecBytes) {
    checked.violations.push_back({"",
                                  "the spec takes " + FormatBytes(submitted.ByteSizeLong()) +
                                      ", at most " + FormatBytes(kMaxSubmittedSpecBytes) +
                                      " are accepted",
                                  "list fewer files; use globs", ""});
    return checked;
  }
  JobSpec spec = submitted;
  checked.violations = ApplyDefaults(&spec);
  if (checked.violations.empty()) checked.violations = ValidateJobSpec(spec);
  if (!checked.violations.empty()) return checked;
  const bool on_gpu = spec.resources().device() == coatrack::v1::DEVICE_KIND_GPU;
  const DeviceType shown = on_gpu ? DeviceType::kCuda : DeviceType::kCpu;
  const int ranks = spec.resources().ranks();
  try {
    checked.submission.cpu_bytes = LargestRankBytes(spec, DeviceType::kCpu);
    checked.submission.gpu_bytes = LargestRankBytes(spec, DeviceType::kCuda);
    checked.plan = MakePlan(spec, 0, ranks, shown);
    if (with_bf16) checked.bf16_plan = MakePlan(Bf16Counterpart(spec), 0, ranks, shown);
  } catch (const Error& error) {
    checked.violations.push_back({"", error.what(), "", ""});
    return checked;
  }
  checked.submission.request_hash = Sha256Hex(CanonicalText(submitted));
  checked.submission.submitted = submitted;
  checked.submission.effective = std::move(spec);
  return checked;
}

}  // namespace coat
