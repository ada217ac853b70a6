// Files of a job by pattern, confined to the worker's data_root.
#pragma once

#include <string>
#include <vector>

namespace coat {

struct DataPath {
  std::string relative;  // as matched, below data_root, '/' between components; what people see
  std::string resolved;  // absolute, free of links
};

// Matches of all patterns, each once, sorted by the bytes of `relative`. A component may hold *, ?
// and [...]; ** alone stands for any number of folders, hidden and linked ones apart. Wildcards
// match no leading dot and only regular files count.
// Error(kInvalidArgument) naming the pattern (`field` is its place in the spec) for: an absolute
// pattern, a `..` component, no match, a link that leads outside data_root, a name that is not
// UTF-8, a match by plain name that is not a regular file. Error(kNotFound): no data_root.
std::vector<DataPath> ResolveDataFiles(const std::string& data_root,
                                       const std::vector<std::string>& patterns,
                                       const std::string& field);

}  // namespace coat
