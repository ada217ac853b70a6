#include <charconv>
#include <cstdio>
#include <string_view>

#include "worker/checkpoint/format.h"

namespace coat {
namespace {

constexpr char kTemporaryPrefix[] = ".tmp-";
constexpr char kTrashPrefix[] = ".trash-";

bool Skip(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

// A decimal number as std::to_string prints it.
template <typename T>
bool Number(std::string_view* text, T* value) {
  if (text->empty() || (*text)[0] == '-' ||
      (text->size() > 1 && (*text)[0] == '0' && (*text)[1] >= '0' && (*text)[1] <= '9')) {
    return false;
  }
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

std::string Numbered(int rank, const char* extension) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d.%s", rank, extension);
  return name;
}

}  // namespace

std::string ShardName(int rank) { return Numbered(rank, "safetensors"); }
std::string ShardRecordName(int rank) { return Numbered(rank, "json"); }

std::string CompleteName(int64_t step, int32_t attempt) {
  return "step-" + std::to_string(step) + ".attempt-" + std::to_string(attempt);
}
std::string TemporaryName(int64_t step, int32_t attempt) {
  return kTemporaryPrefix + CompleteName(step, attempt);
}
std::string TrashName(int64_t step, int32_t attempt) {
  return kTrashPrefix + CompleteName(step, attempt);
}

std::optional<DirectoryName> ParseDirectoryName(const std::string& name) {
  std::string_view rest = name;
  DirectoryName parsed{DirectoryName::Kind::kComplete, 0, 0};
  if (Skip(&rest, kTemporaryPrefix)) {
    parsed.kind = DirectoryName::Kind::kTemporary;
  } else if (Skip(&rest, kTrashPrefix)) {
    parsed.kind = DirectoryName::Kind::kTrash;
  }
  if (!Skip(&rest, "step-") || !Number(&rest, &parsed.step) || !Skip(&rest, ".attempt-") ||
      !Number(&rest, &parsed.attempt)) {
    return std::nullopt;
  }
  int32_t copy = 0;
  bool numbered_trash =
      parsed.kind == DirectoryName::Kind::kTrash && Skip(&rest, ".") && Number(&rest, &copy);
  if (!rest.empty() && !numbered_trash) return std::nullopt;
  return rest.empty() ? std::optional(parsed) : std::nullopt;
}

}  // namespace coat
