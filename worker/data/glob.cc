#include "worker/data/glob.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "configs/base/error.h"

namespace coat {
namespace {

[[noreturn]] void Refuse(const std::string& what) { throw Error(Code::kInvalidArgument, what); }

std::optional<std::string> RealPath(const std::string& path) {
  std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                       &std::free);
  if (!resolved) return std::nullopt;
  return std::string(resolved.get());
}

bool IsUtf8(const std::string& text) {
  for (size_t i = 0; i < text.size();) {
    unsigned char lead = static_cast<unsigned char>(text[i]);
    int more = lead < 0x80 ? 0 : lead >> 5 == 0x6 ? 1 : lead >> 4 == 0xE ? 2 : 3;
    if (more == 3 && (lead >> 3 != 0x1E || lead > 0xF4)) return false;
    if (i + static_cast<size_t>(more) >= text.size()) return false;
    uint32_t code = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 1; k <= more; ++k) {
      unsigned char next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3Fu);
    }
    static constexpr uint32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
    if (code < kLeast[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += static_cast<size_t>(more) + 1;
  }
  return true;
}

std::vector<std::string> SplitPattern(const std::string& pattern, const std::string& field) {
  if (pattern.empty()) Refuse(field + ": empty pattern");
  if (pattern[0] == '/') {
    Refuse(field + ": `" + pattern + "` is absolute; paths are relative to the worker's data_root");
  }
  std::vector<std::string> components;
  std::string component;
  for (char c : pattern + "/") {
    if (c != '/') {
      component.push_back(c);
      continue;
    }
    if (component == "..") {
      Refuse(field + ": `" + pattern + "` contains `..`; paths may not leave the data_root");
    }
    if (!component.empty() && component != ".") components.push_back(component);
    component.clear();
  }
  if (components.empty()) Refuse(field + ": `" + pattern + "` names no file");
  return components;
}

bool HasWildcard(const std::string& component) {
  return component.find_first_of("*?[\\") != std::string::npos;
}

class Matcher {
 public:
  Matcher(std::string root, std::string pattern, std::string field,
          std::map<std::string, std::string>* found)
      : root_(std::move(root)),
        pattern_(std::move(pattern)),
        field_(std::move(field)),
        components_(SplitPattern(pattern_, field_)),
        found_(found) {}

  void Run() {
    Walk("", 0);
    if (matches_ == 0) {
      Refuse(field_ + ": `" + pattern_ + "` matches no file below " + root_);
    }
  }

 private:
  std::string Below(const std::string& relative) const {
    return relative.empty() ? root_ : root_ + "/" + relative;
  }

  static std::string Join(const std::string& folder, const std::string& name) {
    return folder.empty() ? name : folder + "/" + name;
  }

  // Names in a folder, which is known to be one.
  std::vector<std::string> List(const std::string& folder) const {
    std::error_code error;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator entry(Below(folder), error), end;
         !error && entry != end; entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) throw Error(Code::kIo, Below(folder) + " can't be listed: " + error.message());
    return names;
  }

  // Matches components_[at...] below `folder`, which is relative to the root.
  void Walk(const std::string& folder, size_t at) {
    const std::string& component = components_[at];
    bool last = at + 1 == components_.size();
    if (component == "**") {
      WalkAnyDepth(folder, at);
    } else if (!HasWildcard(component)) {
      std::string path = Join(folder, component);
      if (last) {
        Take(path, !by_wildcard_);
      } else if (IsFolder(path)) {
        Walk(path, at + 1);
      }
    } else {
      bool before = by_wildcard_;
      by_wildcard_ = true;
      for (const std::string& name : List(folder)) {
        if (::fnmatch(component.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
        std::string path = Join(folder, name);
        if (last) {
          Take(path, false);
        } else if (IsFolder(path)) {
          Walk(path, at + 1);
        }
      }
      by_wildcard_ = before;
    }
  }

  void WalkAnyDepth(const std::string& folder, size_t at) {
    bool before = by_wildcard_;
    by_wildcard_ = true;
    bool last = at + 1 == components_.size();
    if (!last) Walk(folder, at + 1);
    for (const std::string& name : List(folder)) {
      if (name[0] == '.') continue;
      std::string path = Join(folder, name);
      struct stat info;
      if (::lstat(Below(path).c_str(), &info) != 0) continue;
      if (S_ISDIR(info.st_mode)) {
        WalkAnyDepth(path, at);
      } else if (last) {
        Take(path, false);
      }
    }
    by_wildcard_ = before;
  }

  // Links are followed here, so that what lies behind them is confined before it is listed.
  bool IsFolder(const std::string& relative) const {
    struct stat info;
    if (::stat(Below(relative).c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    Confine(relative);
    return true;
  }

  std::string Confine(const std::string& relative) const {
    std::optional<std::string> resolved = RealPath(Below(relative));
    if (!resolved) Refuse(field_ + ": " + relative + ": the link leads nowhere");
    std::string prefix = root_ == "/" ? root_ : root_ + "/";
    if (*resolved != root_ && resolved->compare(0, prefix.size(), prefix) != 0) {
      Refuse(field_ + ": " + relative + " leads to " + *resolved + ", outside the data_root " +
             root_ + "; copy the file there");
    }
    return *resolved;
  }

  // `named`: the pattern has no wildcard, so anything but a regular file is a mistake.
  void Take(const std::string& relative, bool named) {
    struct stat info;
    if (::lstat(Below(relative).c_str(), &info) != 0) return;
    std::string resolved = Confine(relative);
    if (::stat(resolved.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      if (named) Refuse(field_ + ": " + relative + " is not a regular file");
      return;
    }
    if (!IsUtf8(relative)) Refuse(field_ + ": " + relative + ": the name is not UTF-8; rename it");
    ++matches_;
    (*found_)[relative] = resolved;
  }

  std::string root_;  // resolved
  std::string pattern_;
  std::string field_;
  std::vector<std::string> components_;
  std::map<std::string, std::string>* found_;  // std::string compares bytes as unsigned
  bool by_wildcard_ = false;
  int64_t matches_ = 0;
};

}  // namespace

std::vector<DataPath> ResolveDataFiles(const std::string& data_root,
                                       const std::vector<std::string>& patterns,
                                       const std::string& field) {
  std::optional<std::string> root = RealPath(data_root);
  struct stat info;
  if (!root || ::stat(root->c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    throw Error(Code::kNotFound, "data_root " + data_root + " is not a folder");
  }
  std::map<std::string, std::string> found;
  for (size_t i = 0; i < patterns.size(); ++i) {
    Matcher(*root, patterns[i], field + "[" + std::to_string(i) + "]", &found).Run();
  }
  std::vector<DataPath> files;
  for (auto& [relative, resolved] : found) files.push_back({relative, resolved});
  return files;
}

}  // namespace coat
