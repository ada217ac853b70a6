#include "worker/checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "configs/base/error.h"
#include "configs/base/units.h"

namespace coat {
namespace {

using nlohmann::json;

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kDataAlignment = 64;
constexpr size_t kDeepestNesting = 3;  // header, entry, shape

[[noreturn]] void Corrupt(const std::string& where, const std::string& what) {
  throw Error(Code::kDataLoss, where + ": " + what);
}

// Refuses what nlohmann's reader would accept silently: a key twice, and deep nesting.
json ParseStrictly(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> keys;
  auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    if (static_cast<size_t>(depth) > kDeepestNesting) Corrupt(where, "header nested too deeply");
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      auto name = parsed.get<std::string>();
      if (!keys.back().insert(name).second) Corrupt(where, "`" + name + "` stands there twice");
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& error) {
    Corrupt(where, "offset " + std::to_string(kLengthBytes + static_cast<int64_t>(error.byte)) +
                       ": the header is not JSON");
  }
}

int64_t Size(const json& value, const std::string& where) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    Corrupt(where, "a size or offset is not a whole number from 0 to 2^63 - 1");
  }
  return value.get<int64_t>();
}

SafetensorsEntry ParseEntry(const std::string& name, const json& value, const std::string& where) {
  SafetensorsEntry entry;
  entry.name = name;
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    Corrupt(where, "the fields are not dtype, shape and data_offsets");
  }
  const json& dtype = value["dtype"];
  if (!dtype.is_string() || !ParseDType(dtype.get_ref<const std::string&>(), &entry.dtype)) {
    Corrupt(where, "element type " + dtype.dump(-1, ' ', true) + " is not known here");
  }
  const json& shape = value["shape"];
  const json& offsets = value["data_offsets"];
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2) {
    Corrupt(where, "shape or data_offsets is not a list of the right length");
  }
  int64_t bytes = ElementBytes(entry.dtype);
  for (const json& dimension : shape) {
    entry.shape.push_back(Size(dimension, where));
    if (__builtin_mul_overflow(bytes, entry.shape.back(), &bytes)) {
      Corrupt(where, "the shape's bytes overflow");
    }
  }
  entry.begin = Size(offsets[0], where);
  entry.end = Size(offsets[1], where);
  if (entry.begin > entry.end || entry.end - entry.begin != bytes) {
    Corrupt(where, "data_offsets [" + std::to_string(entry.begin) + ", " +
                       std::to_string(entry.end) + ") do not hold the shape's " +
                       std::to_string(bytes) + " bytes");
  }
  return entry;
}

std::map<std::string, std::string> ParseMetadata(const json& value, const std::string& where) {
  std::map<std::string, std::string> metadata;
  if (!value.is_object()) Corrupt(where, "__metadata__ is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) Corrupt(where, "__metadata__ `" + key + "` is not a text");
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

// Sorts the entries and makes sure that they tile the data.
void CheckTiling(SafetensorsHeader* header, int64_t file_bytes, const std::string& where) {
  std::sort(header->entries.begin(), header->entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  int64_t data_bytes = file_bytes - header->header_bytes;
  int64_t at = 0;
  for (const SafetensorsEntry& entry : header->entries) {
    if (entry.begin != at) {
      Corrupt(where + ": entry `" + entry.name + "`",
              "starts at offset " + std::to_string(entry.begin) + " of the data, " +
                  std::to_string(at) + " is the end of the one before");
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    Corrupt(where, "offset " + std::to_string(header->header_bytes) + ": the entries hold " +
                       std::to_string(at) + " bytes of data, the file " +
                       std::to_string(data_bytes));
  }
}

}  // namespace

bool ParseDType(std::string_view name, DType* dtype) {
  for (DType candidate : {DType::kF32, DType::kBF16, DType::kE4M3, DType::kE5M2, DType::kU16,
                          DType::kI32, DType::kU8}) {
    if (name == DTypeName(candidate)) {
      *dtype = candidate;
      return true;
    }
  }
  return false;
}

std::string WriteSafetensorsHeader(std::vector<SafetensorsEntry>* entries,
                                   const std::map<std::string, std::string>& metadata) {
  json object = json::object();
  if (!metadata.empty()) object["__metadata__"] = metadata;
  int64_t at = 0;
  for (SafetensorsEntry& entry : *entries) {
    int64_t bytes = ElementBytes(entry.dtype);
    for (int64_t dimension : entry.shape) bytes *= dimension;
    entry.begin = at;
    entry.end = at += bytes;
    object[entry.name] = {{"dtype", DTypeName(entry.dtype)},
                          {"shape", entry.shape},
                          {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text;
  try {
    text = object.dump();
  } catch (const json::type_error&) {
    throw Error(Code::kInvalidArgument, "a tensor's name is not UTF-8");
  }
  auto length = static_cast<uint64_t>(
      RoundUp(kLengthBytes + static_cast<int64_t>(text.size()), kDataAlignment) - kLengthBytes);
  text.resize(length, ' ');
  std::string prefix(kLengthBytes, '\0');
  for (size_t i = 0; i < prefix.size(); ++i) prefix[i] = static_cast<char>(length >> (8 * i));
  return prefix + text;
}

int64_t ParseSafetensorsLength(std::string_view prefix, int64_t file_bytes,
                               const std::string& where) {
  if (file_bytes < kLengthBytes || prefix.size() < static_cast<size_t>(kLengthBytes)) {
    Corrupt(where, "offset 0: " + std::to_string(file_bytes) + " bytes are no safetensors file");
  }
  uint64_t length = 0;
  for (size_t i = 0; i < static_cast<size_t>(kLengthBytes); ++i) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(prefix[i])) << (8 * i);
  }
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeader) ||
      static_cast<int64_t>(length) > file_bytes - kLengthBytes) {
    Corrupt(where, "offset 0: a header of " + std::to_string(length) + " bytes in a file of " +
                       std::to_string(file_bytes));
  }
  return static_cast<int64_t>(length);
}

SafetensorsHeader ParseSafetensorsHeader(std::string_view text, int64_t file_bytes,
                                         const std::string& where) {
  if (text.empty() || text[0] != '{') Corrupt(where, "offset 8: the header is not a JSON object");
  json object = ParseStrictly(text, where);
  SafetensorsHeader header;
  header.header_bytes = kLengthBytes + static_cast<int64_t>(text.size());
  for (const auto& [name, value] : object.items()) {
    std::string place = where + ": entry `" + name + "`";
    if (name == "__metadata__") {
      header.metadata = ParseMetadata(value, where);
    } else {
      header.entries.push_back(ParseEntry(name, value, place));
    }
  }
  CheckTiling(&header, file_bytes, where);
  return header;
}

}  // namespace coat
