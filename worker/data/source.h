// The files of a job, opened, checked and joined.
#pragma once

#include <cstdint>
#include <string>

#include "coatrack/v1/events.pb.h"
#include "coatrack/v1/job.pb.h"
#include "worker/data/token_stream.h"

namespace coat {

struct DataSource {
  TokenStream stream;
  coatrack::v1::DataManifest manifest;
  int64_t vocab_size = 0;  // text: the tokenizer's; tokens: largest id + 1
  int32_t pad_id = 0;      // what fills the tail window; its targets are ignored
};

// Errors of OpenDataset (loader.h), the length of the whole apart.
DataSource OpenSource(const coatrack::v1::JobSpec& spec, const std::string& data_root,
                      const coatrack::v1::DataManifest* expected);

}  // namespace coat
