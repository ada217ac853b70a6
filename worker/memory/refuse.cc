#include "worker/memory/refuse.h"

#include "configs/base/error.h"
#include "configs/spec/validate.h"

namespace coat {

void RefuseInvalid(const coatrack::v1::JobSpec& spec) {
  const Status status = ViolationsToStatus(ValidateJobSpec(spec));
  if (!status.ok()) throw Error(status);
}

}  // namespace coat
