#include "client/commands/submission.h"

#include <random>

#include "configs/spec/load.h"

namespace coat {
namespace {

// 128 random bits in hexadecimal.
std::string RandomId() {
  static constexpr char kHex[] = "0123456789abcdef";
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    const uint32_t bits = random();
    for (int shift = 28; shift >= 0; shift -= 4) id += kHex[bits >> shift & 15];
  }
  return id;
}

}  // namespace

void AddSubmission(CLI::App* verb, SubmissionOptions* options) {
  AddSpecOptions(verb, &options->spec);
  verb->add_option("--request-id", options->request_id,
                   "Submitting again with the same id gives the same job")
      ->type_name("ID");
}

Result<coatrack::v1::SubmitResponse> SubmitFile(Context& context, const SubmissionOptions& options,
                                                SubmitMode mode) {
  ASSIGN_OR_RETURN(const LoadedJob job, LoadJobFile(options.spec.file, options.spec.overrides));
  ASSIGN_OR_RETURN(JobClient* const client, context.Connect());
  coatrack::v1::SubmitRequest request;
  *request.mutable_spec() = job.written;
  request.set_request_id(options.request_id.empty() ? RandomId() : options.request_id);
  request.set_validate_only(mode == SubmitMode::kValidateOnly);
  ASSIGN_OR_RETURN(const auto response, client->Submit(request));
  for (const std::string& warning : response.warnings()) context.Say("Warning: " + warning);
  return response;
}

}  // namespace coat
