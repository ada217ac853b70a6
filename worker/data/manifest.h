// Whether the data of an attempt are those of the first one (PROTOCOLS.md section 5).
#pragma once

#include "coatrack/v1/events.pb.h"

namespace coat {

// Error(kDataChanged) naming the first file that is new, gone or of another size.
void CheckFilesUnchanged(const coatrack::v1::DataManifest& expected,
                         const coatrack::v1::DataManifest& actual);

// The same for the hashes; call after CheckFilesUnchanged.
void CheckHashesUnchanged(const coatrack::v1::DataManifest& expected,
                          const coatrack::v1::DataManifest& actual);

}  // namespace coat
