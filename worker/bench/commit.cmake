# Writes ${OUT} with the version and the commit of ${SOURCE}; leaves it alone when nothing changed.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                RESULT_VARIABLE failed)
if(failed)
  set(commit "unknown")
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [=[
#include "worker/bench/report.h"

namespace coat {
const char* BuildCommit() { return "@VERSION@-@commit@"; }
}  // namespace coat
]=] @ONLY)
